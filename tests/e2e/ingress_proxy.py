"""Leads HTTP requests by host and path to endpoints, inside a network namespace, as an ingress controller does.

Commands are lines of JSON on standard input, each answered by one line once it holds: `{"listen": [address, port]}`;
`{"routes": [{"host", "path", "exact", "endpoints": [[address, port], …]}, …]}`, of which one without host takes what no
other does.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from typing import Any

LONGEST_LINE = 1 << 20


class Router:
    """The routes that are in force."""

    def __init__(self) -> None:
        self.routes: list[dict[str, Any]] = []

    def endpoints(self, host: str, path: str) -> list[Any] | None:
        """Where a request goes: the most particular host, then the longest path; None without a route."""
        found = [route for route in self.routes if _host_fits(route["host"], host) and _path_fits(route, path)]
        found.sort(key=lambda route: (not route["host"].startswith("*"), len(route["host"])), reverse=True)
        best = [route for route in found if route["host"] == found[0]["host"]]
        best.sort(key=lambda route: (route["exact"], len(route["path"])), reverse=True)
        return best[0]["endpoints"] if best else None

    async def lead(self, reader: Any, writer: Any) -> None:
        """One connection, of one request."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            path = lines[0].split(" ")[1].partition("?")[0]
            hosts = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("host:")]
            endpoints = self.endpoints(hosts[0].partition(":")[0] if hosts else "", path)
            if not endpoints:
                code = "404 Not Found" if endpoints is None else "503 Service Unavailable"
                text = f"{code}\n"
                writer.write(
                    f"HTTP/1.1 {code}\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n{text}".encode()
                )
                await writer.drain()
                return
            there, back = await asyncio.open_connection(*random.choice(endpoints))
            back.write(head)
            while data := await there.read(65536):
                writer.write(data)
                await writer.drain()
            back.close()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def _host_fits(pattern: str, host: str) -> bool:
    if pattern.startswith("*."):
        return host.partition(".")[2] == pattern[2:]
    return pattern in ("", host)


def _path_fits(route: dict[str, Any], path: str) -> bool:
    if route["exact"]:
        return bool(route["path"] == path)
    prefix = route["path"].rstrip("/")
    return path == prefix or path.startswith(f"{prefix}/")


async def main() -> None:
    """Serve until standard input ends."""
    router = Router()
    servers = []
    commands = asyncio.StreamReader(limit=LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        asked = json.loads(line)
        if "listen" in asked:
            servers.append(await asyncio.start_server(router.lead, *asked["listen"]))
        else:
            router.routes = asked["routes"]
        sys.stdout.write("{}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
