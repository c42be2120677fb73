"""The JetStream store when its server dies under it: what was acknowledged stays, what was not is told honestly."""

import asyncio
import signal
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.apiserver.store import Conflict, Entry, Key, Manifest, StoreUnavailable
from services.apiserver.store_jetstream import JetStreamStore


def obj(name: str, value: str) -> Manifest:
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": {"v": value}}


class NatsServer:
    """One nats-server process that can be killed and started again on the same directory and port."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._port = -1

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._port}"

    def start(self) -> None:
        binary = Path(sysconfig.get_path("scripts")) / "nats-server"
        ports = self._directory / "ports"
        ports.mkdir(exist_ok=True)
        arguments = ["-js", "-sd", str(self._directory / "js"), "-a", "127.0.0.1", "-p", str(self._port)]
        self._process = subprocess.Popen(
            [str(binary), *arguments, "--ports_file_dir", str(ports)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    async def ready(self) -> None:
        """Wait until the server listens, and learn its port the first time."""
        import msgspec

        for _ in range(2000):
            for file in (self._directory / "ports").glob("*.ports"):
                raw = file.read_bytes()
                if raw and self._port < 0:
                    self._port = int(msgspec.json.decode(raw)["nats"][0].rpartition(":")[2])
            if self._port > 0:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self._port)
                except OSError:
                    pass
                else:
                    writer.close()
                    await writer.wait_closed()
                    return
            await asyncio.sleep(0.01)
        raise RuntimeError("nats-server does not listen")

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path)
    server.start()
    yield server
    server.kill()


@pytest.mark.faults
async def test_acknowledged_writes_survive_a_killed_server_and_the_store_goes_on(nats: NatsServer) -> None:
    await nats.ready()
    store = JetStreamStore(nats.url, ack_timeout=1.0)
    await store.start()
    acknowledged: dict[str, Entry] = {}
    uncertain: set[str] = set()
    stopped, written = asyncio.Event(), asyncio.Event()
    store.listen(lambda _: written.set())

    async def progress() -> None:
        """Wait for the next write that became durable."""
        written.clear()
        await written.wait()

    async def write(number: int) -> None:
        """Change one object over and over, knowing at each step what it must be."""
        name = f"n{number}"
        key = Key("", "configmaps", "ns", name)
        count = 0
        while not stopped.is_set():
            count += 1
            present = store.get(key)
            try:
                entry = await store.put(key, obj(name, str(count)), present.revision if present else 0)
            except (StoreUnavailable, Conflict):
                uncertain.add(name)
                await asyncio.sleep(0.01)
                continue
            acknowledged[name] = entry
            uncertain.discard(name)

    writers = [asyncio.create_task(write(i)) for i in range(30)]
    try:
        for _ in range(2):
            before = store.revision
            while store.revision < before + 300:
                await progress()
            nats.kill()
            nats.start()
            await nats.ready()
        before = store.revision
        while store.revision < before + 300 or uncertain:
            await progress()
    finally:
        stopped.set()
        await asyncio.gather(*writers)
    remembered = {e.key.name: e.raw for e in store.list("", "configmaps")}
    revision = store.revision
    await store.stop()

    again = JetStreamStore(nats.url)
    await again.start()
    try:
        assert again.revision == revision
        assert {e.key.name: e.raw for e in again.list("", "configmaps")} == remembered
        for name, entry in acknowledged.items():
            found = again.get(Key("", "configmaps", "ns", name))
            assert found is not None
            assert found.revision >= entry.revision
    finally:
        await again.stop()
