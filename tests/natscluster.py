"""Three nats-servers that keep the log together; every route between two of them leads through a proxy that can be cut.

A node is dialled by each other node on a proxy of its own, and none tells its peers of further addresses: what the
proxies let through is all that the nodes know of each other. Clients reach a node beside the proxies.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeVar

from tests.faults.proxy import Proxy
from tests.natsserver import PATIENCE, find_binary, wait_until_listening
from tests.support.ending import ends_with_us
from tests.support.ports import Reserved
from tests.support.waiting import end_of

SIZE = 3
CONFIG = """
server_name: {name}
listen: "127.0.0.1:{port}"
max_payload: 8MB
jetstream {{
  store_dir: "{store}"
  sync_interval: always
  max_file_store: 400GB
}}
cluster {{
  name: fleetlog
  listen: "127.0.0.1:{cluster_port}"
  no_advertise: true
  routes: [{routes}]
}}
"""
T = TypeVar("T")


class Node:
    """One server of the cluster."""

    def __init__(self, binary: str, directory: Path, name: str) -> None:
        self.name = name
        self._reserved = Reserved(), Reserved()
        self.port, self.cluster_port = (each.number for each in self._reserved)
        self.directory = directory
        self._binary = binary
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def configure(self, routes: Iterable[str]) -> None:
        """Write the configuration."""
        self.directory.mkdir(parents=True, exist_ok=True)
        text = CONFIG.format(
            name=self.name,
            port=self.port,
            cluster_port=self.cluster_port,
            store=self.directory / "store",
            routes=", ".join(f'"{route}"' for route in routes),
        )
        (self.directory / "nats.conf").write_text(text)

    def start(self) -> None:
        """Start, and return once it accepts connections."""
        log = self.directory / "nats.log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [self._binary, "-c", str(self.directory / "nats.conf")], stdout=out, stderr=out, start_new_session=True
            )
        ends_with_us(self._process)
        wait_until_listening(self.port, end_of(self._process, log))

    def kill9(self) -> None:
        """Kill without a chance to write anything; data stays."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop in good order."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(number)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(PATIENCE)


class Cluster:
    """The nodes and what is between them; raises FileNotFoundError without a server binary."""

    def __init__(self, directory: Path, size: int = SIZE) -> None:
        binary = find_binary()
        if binary is None:
            raise FileNotFoundError("no nats-server found")
        self.nodes = [Node(binary, directory / f"n{number}", f"n{number}") for number in range(1, size + 1)]
        self._links: dict[tuple[str, str], Proxy] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)

    @property
    def urls(self) -> str:
        """Where clients connect, with commas."""
        return ",".join(node.url for node in self.nodes)

    def start(self) -> None:
        """Start every node, and return once they accept connections."""
        self._thread.start()
        for node in self.nodes:
            for other in self.nodes:
                if other is not node:
                    self._links[node.name, other.name] = self._run(Proxy(other.cluster_port).__aenter__())
        for node in self.nodes:
            node.configure(self._links[node.name, other.name].url for other in self.nodes if other is not node)
        for node in self.nodes:
            node.start()

    def stop(self) -> None:
        """Stop every node and the links."""
        for node in self.nodes:
            node.stop()
        for link in self._links.values():
            self._run(link.__aexit__(None, None, None))
        self._links.clear()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(PATIENCE)
        self._loop.close()

    def cut_off(self, node: Node, *, silently: bool) -> None:
        """Cut a node off from all others; silently: nobody is told, packets just do not arrive."""

        async def cut() -> None:
            for link in self._links_of(node):
                if silently:
                    link.hold()
                else:
                    link.accept = False
                    link.cut()

        self._run(cut())

    def heal(self) -> None:
        """Join everything again: links, and nodes that died."""

        async def join() -> None:
            for link in self._links.values():
                link.accept = True
                link.release()

        if self._links:
            self._run(join())
        for node in self.nodes:
            if self._links and not node.alive:
                node.start()

    def _links_of(self, node: Node) -> list[Proxy]:
        return [link for pair, link in self._links.items() if node.name in pair]

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)
