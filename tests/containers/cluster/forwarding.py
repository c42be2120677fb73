"""Passes connections on: `python forwarding.py ADDRESS PORT TO-ADDRESS TO-PORT`; it runs in containers, too."""

from __future__ import annotations

import asyncio
import sys


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str, port: int) -> None:
    """Pass what comes on to an address, and its answers back; where it does not answer, the connection ends."""
    try:
        there, back = await asyncio.open_connection(address, port)
    except OSError:
        writer.close()
        return
    await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))


async def _main(address: str, port: str, to: str, to_port: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await joined(reader, writer, to, int(to_port))

    async with await asyncio.start_server(serve, address, int(port)) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:5]))
