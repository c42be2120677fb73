"""Ports of nodes: what comes in at their address goes to a ready pod of the Service that asked for the port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from schemas.manifest import Manifest
from tests.containers.cluster.forwarding import joined


class NodePorts:
    """Listens for the Services of one cluster; all of its nodes have one address, which is this machine's."""

    def __init__(self, address: str, ready: Callable[[str, str], list[str]]) -> None:
        """`ready` says the addresses of the ready pods of a Service, by namespace and name."""
        self._address = address
        self._ready = ready
        self._servers: dict[int, asyncio.Server] = {}
        self._wanted: dict[int, tuple[str, str, int]] = {}

    async def set(self, services: Iterable[Manifest]) -> None:
        """Listen for these Services and for no others; a port leads to the same number in the pod, or its target."""
        self._wanted = {
            port["nodePort"]: (one["metadata"]["namespace"], one["metadata"]["name"], _target(port))
            for one in services
            if one["spec"].get("type") == "NodePort"
            for port in one["spec"]["ports"]
            if port.get("nodePort")
        }
        for number in self._servers.keys() - self._wanted.keys():
            self._servers.pop(number).close()
        for number in self._wanted.keys() - self._servers.keys():
            self._servers[number] = await asyncio.start_server(self._caller(number), self._address, number)

    def close(self) -> None:
        """Listen no longer."""
        for server in self._servers.values():
            server.close()

    def _caller(self, number: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]:
        async def called(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            namespace, name, port = self._wanted[number]
            if ready := self._ready(namespace, name):
                await joined(reader, writer, ready[0], port)
            else:
                writer.close()

        return called


def _target(port: Mapping[str, object]) -> int:
    target = port.get("targetPort", port["port"])
    if not isinstance(target, int):
        raise TypeError(f"targetPort {target}: numbers only")
    return target
