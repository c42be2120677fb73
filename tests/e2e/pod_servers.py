"""Small web servers at the addresses of pods, run inside the network namespace of their cluster.

Commands are lines of JSON on standard input, each answered by one line: `{"open": [address, port]}` listens there,
`{"counts": true}` asks for the requests that each address has had. A request is answered with the cluster's name and
the address it came to, then the connection ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial
from typing import Any

LONGEST_LINE = 65536


async def answer(cluster: str, address: str, counts: dict[str, int], reader: Any, writer: Any) -> None:
    """One connection: its request is counted as soon as it is there."""
    try:
        await reader.readuntil(b"\r\n\r\n")
        counts[address] = counts.get(address, 0) + 1
        text = f"{cluster} {address}\n".encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + text)
        await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main(cluster: str) -> None:
    """Serve until standard input ends."""
    counts: dict[str, int] = {}
    servers = []
    commands = asyncio.StreamReader(limit=LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        asked = json.loads(line)
        if "open" in asked:
            address, port = asked["open"]
            counts.setdefault(address, 0)
            servers.append(await asyncio.start_server(partial(answer, cluster, address, counts), address, port))
        sys.stdout.write(json.dumps(counts) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
