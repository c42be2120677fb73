"""Leads connections on to endpoints, as kube-proxy does, inside the network namespace of a cluster.

Commands are lines of JSON on standard input, each answered by one line once it holds for every connection from then on:
`{"serve": [address, port], "endpoints": [[address, port], …]}`. Without endpoints connections are refused.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from typing import Any

LONGEST_LINE = 1 << 20
Place = tuple[str, int]


class Proxy:
    """The Services of one cluster, by address and port."""

    def __init__(self) -> None:
        self._endpoints: dict[Place, list[Place]] = {}
        self._servers: dict[Place, asyncio.Server] = {}

    async def set(self, place: Place, endpoints: list[Place]) -> None:
        """Lead new connections to these endpoints only."""
        self._endpoints[place] = endpoints
        if endpoints and place not in self._servers:
            self._servers[place] = await asyncio.start_server(lambda r, w: self._lead(place, r, w), *place)
        elif not endpoints and (server := self._servers.pop(place, None)) is not None:
            server.close()

    async def _lead(self, place: Place, reader: Any, writer: Any) -> None:
        endpoints = self._endpoints[place]
        if endpoints:
            try:
                there_reader, there_writer = await asyncio.open_connection(*random.choice(endpoints))
                await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))
            except OSError:
                # The client sees a connection that ends.
                pass
        writer.close()


async def _copy(reader: Any, writer: Any) -> None:
    """Carry bytes one way until their end."""
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except (ConnectionError, OSError):
        writer.close()


async def main() -> None:
    """Serve until standard input ends."""
    proxy = Proxy()
    commands = asyncio.StreamReader(limit=LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        asked = json.loads(line)
        await proxy.set(tuple(asked["serve"]), [(address, port) for address, port in asked["endpoints"]])
        sys.stdout.write("{}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
