"""An API server made for streams: large answers, watches, uploads, switched connections, and some that misbehave."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from msgspec import Struct

MIB = 1 << 20
BLOCK = b"x" * (64 << 10)
LIST = "/api/v1/namespaces/web/configmaps"
WATCH = f"{LIST}?watch=true"
EXEC = "/api/v1/namespaces/web/pods/a/exec?command=sh"


class Asked(Struct):
    """One request as it came."""

    method: str
    path: str
    headers: list[tuple[str, str]]

    def values(self, name: str) -> list[str]:
        """The values of a header."""
        return [value for key, value in self.headers if key.lower() == name.lower()]


class StreamingMember:
    """`behaviour` says how the next requests are answered; `size` is how large a list is."""

    def __init__(self) -> None:
        self.behaviour = ""
        self.size = 50 * MIB
        self.asked: list[Asked] = []
        self.sent = 0
        self.open = 0
        self.url = ""
        self._watches: list[asyncio.StreamWriter] = []

    async def say(self, line: bytes) -> None:
        """Send a line to all watches."""
        for writer in self._watches:
            writer.write(b"%x\r\n%b\r\n" % (len(line), line))
            await writer.drain()

    @property
    def watches(self) -> int:
        """Watches that are open."""
        return len(self._watches)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.open += 1
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._one(reader, writer):
                    pass
        finally:
            self.open -= 1
            if writer in self._watches:
                self._watches.remove(writer)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().rstrip("\r\n").split("\r\n")
        method, path, _ = first.split(" ")
        headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        asked = Asked(method, path, headers)
        self.asked.append(asked)
        match self.behaviour:
            case "garbage":
                writer.write(b"\x00\x01 this is no HTTP\r\n\r\n")
                return False
            case "hang":
                await reader.read()
                return False
            case "redirect":
                writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/secret\r\nContent-Length: 0\r\n\r\n")
                return False
            case "headers":
                writer.write(b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(100_000)) + b"\r\n")
                return False
            case "endless":
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                while True:
                    writer.write(BLOCK)
                    self.sent += len(BLOCK)
                    await writer.drain()
            case "torn":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
                return False
        if asked.values("Upgrade"):
            await self._echo(asked, reader, writer)
            return False
        if "watch=true" in path:
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            self._watches.append(writer)
            await reader.read()
            return False
        if method in ("POST", "PUT"):
            digest, size = await self._upload(asked, reader)
            text = f"{size} {digest}".encode()
            writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text))
            return True
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % self.size)
        left = self.size
        while left:
            writer.write(BLOCK[:left])
            self.sent += len(BLOCK[:left])
            left -= len(BLOCK[:left])
            await writer.drain()
        return True

    @staticmethod
    async def _upload(asked: Asked, reader: asyncio.StreamReader) -> tuple[str, int]:
        digest, size = hashlib.sha256(), 0
        if asked.values("Content-Length"):
            left = int(asked.values("Content-Length")[0])
            while left:
                data = await reader.read(min(left, 1 << 16))
                left, size = left - len(data), size + len(data)
                digest.update(data)
            return digest.hexdigest(), size
        while length := int((await reader.readline()).strip(), 16):
            data = await reader.readexactly(length + 2)
            size += length
            digest.update(data[:-2])
        await reader.readline()
        return digest.hexdigest(), size

    @staticmethod
    async def _echo(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        protocol = asked.values("Upgrade")[0].encode()
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %b\r\n\r\nhi" % protocol)
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def streaming_member() -> AsyncIterator[StreamingMember]:
    """One that listens."""
    made = StreamingMember()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()
