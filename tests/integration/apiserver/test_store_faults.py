"""The JetStream store when its server dies under it: what was acknowledged stays, what was not is told honestly."""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from services.apiserver.store.jetstream_store import JetStreamStore
from services.apiserver.store.store_port import Conflict, Entry, StoreUnavailable
from tests.natsserver import ProcessServer, Server
from tests.support.byte_flips import damage
from tests.support.stores import config_map, key, started
from tests.support.waiting import eventually


@pytest.mark.faults
async def test_acknowledged_writes_survive_a_killed_server(nats_server: Server) -> None:
    store = JetStreamStore(nats_server.url, ack_timeout=3.0)
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
        place = key(name)
        count = 0
        while not stopped.is_set():
            count += 1
            present = store.get(place)
            try:
                entry = await store.put(place, config_map(name, v=str(count)), present.revision if present else 0)
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
            nats_server.kill9()
            await asyncio.to_thread(nats_server.start)
        before = store.revision
        while store.revision < before + 300 or uncertain:
            await progress()
    finally:
        stopped.set()
        await asyncio.gather(*writers)
    remembered = {e.key.name: e.raw for e in store.list("", "configmaps")}
    revision = store.revision
    await store.stop()

    async with started(JetStreamStore(nats_server.url)) as again:
        assert again.revision == revision
        assert {e.key.name: e.raw for e in again.list("", "configmaps")} == remembered
        for name, entry in acknowledged.items():
            found = again.get(key(name))
            assert found is not None
            assert found.revision >= entry.revision


@pytest.mark.faults
async def test_a_server_that_stood_still_is_heard_again(nats_server: Server) -> None:
    if not isinstance(nats_server, ProcessServer):
        pytest.skip("only a process can be made to stand still")
    async with started(JetStreamStore(nats_server.url, ack_timeout=3.0)) as store:
        nats_server.pause()
        with capture_logs() as told:
            waiting = asyncio.create_task(store.put(key("a"), config_map("a", v="1"), 0))
            await eventually(lambda: any(entry["event"] == "the log does not answer" for entry in told))
        nats_server.resume()
        # Whatever became of the first one: what is written afterwards is confirmed.
        await asyncio.gather(waiting, return_exceptions=True)
        async with asyncio.timeout(90):
            await store.put(key("b"), config_map("b", v="1"), 0)


async def load(store: JetStreamStore) -> int:
    """Start a store and stop it again; how many ConfigMaps it holds."""
    async with started(store):
        return len(list(store.list("", "configmaps")))


async def filled(url: str, count: int) -> None:
    """Put ConfigMaps into an empty store."""
    async with started(JetStreamStore(url)) as store:
        await asyncio.gather(*(store.put(key(f"n{i}"), config_map(f"n{i}", v="x" * 200), 0) for i in range(count)))


@pytest.mark.faults
async def test_store_resumes_loading_after_the_log_restarts(nats_server: Server) -> None:
    # More than what is on its way to a reader at once: the rest has to be asked for again.
    await filled(nats_server.url, 9000)
    store = JetStreamStore(nats_server.url)
    folded = store._fold
    killed = asyncio.Event()

    def fold(subject: str, sequence: int, headers: Mapping[str, str], data: bytes) -> None:
        if sequence == 1000:
            nats_server.kill9()
            killed.set()
        folded(subject, sequence, headers, data)

    store._fold = fold  # type: ignore[method-assign]
    loading = asyncio.create_task(load(store))
    await killed.wait()
    await asyncio.to_thread(nats_server.start)
    async with asyncio.timeout(90):
        assert await loading == 9000


@pytest.mark.faults
async def test_store_names_a_damaged_message_and_does_not_start(nats_server: Server, tmp_path: Path) -> None:
    await filled(nats_server.url, 300)
    nats_server.stop()
    try:
        spot = damage(tmp_path / "store", "OBJECTS", 120)
    except FileNotFoundError:
        pytest.skip("the files of a server in a container are not ours")
    nats_server.start()
    named = rf"stream OBJECTS, message 120 \({re.escape(spot.subject)}\) is unreadable; run `fleetlog log repair"
    with pytest.raises(StoreUnavailable, match=named):
        async with asyncio.timeout(90):
            await load(JetStreamStore(nats_server.url))
