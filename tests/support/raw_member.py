"""A member of raw bytes: what it answers is decided by the path, and it writes down what it was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from msgspec import Struct

GARBAGE: Final = b"\x00\x01 not HTTP at all \xff\r\n\r\n"


class Heard(Struct):
    """One request as it came."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes = b""

    def values(self, name: str) -> list[str]:
        """The values of a header."""
        return [value for known, value in self.headers if known.lower() == name.lower()]


class RawMember:
    """The server; `token` is what it accepts."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.heard: list[Heard] = []
        self.ended = asyncio.Event()
        """A request that was being answered lost its connection."""
        self.sent = 0
        self.port = 0
        self.let_go = asyncio.Event()
        self._tasks: set[asyncio.Task[None] | None] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.current_task())
        try:
            while (heard := await self._request(reader)) is not None:
                self.heard.append(heard)
                if f"Bearer {self.token}" not in heard.values("Authorization"):
                    await self._send(writer, "401 Unauthorized", b'{"kind":"Status","code":401}')
                    continue
                await self._answer(heard, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ValueError):
            self.ended.set()
        except asyncio.CancelledError:
            # A task of a stream that was cancelled is reported by the loop.
            writer.transport.abort()
        finally:
            writer.close()
            self._tasks.discard(asyncio.current_task())

    async def close(self) -> None:
        self.let_go.set()
        tasks = [task for task in self._tasks if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)

    async def _request(self, reader: asyncio.StreamReader) -> Heard | None:
        line = await reader.readline()
        if not line:
            return None
        method, target, _ = line.decode("latin-1").split(" ", 2)
        headers = []
        while (line := await reader.readline()).strip():
            name, _, value = line.decode("latin-1").rstrip("\r\n").partition(":")
            headers.append((name, value.strip()))
        heard = Heard(method, target, headers)
        if heard.values("Transfer-Encoding"):
            parts = []
            while size := int((await reader.readline()).split(b";")[0], 16):
                parts.append(await reader.readexactly(size))
                await reader.readline()
            await reader.readline()
            heard.body = b"".join(parts)
        elif heard.values("Content-Length"):
            heard.body = await reader.readexactly(int(heard.values("Content-Length")[0]))
        return heard

    async def _send(self, writer: asyncio.StreamWriter, status: str, body: bytes, *headers: str) -> None:
        head = [
            f"HTTP/1.1 {status}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *headers,
            "",
            "",
        ]
        writer.write("\r\n".join(head).encode("latin-1") + body)
        await writer.drain()

    async def _answer(self, heard: Heard, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path, _, query = heard.target.partition("?")
        match path.strip("/").split("/")[-1]:
            case "switch":
                upgrade = heard.values("Upgrade")
                head = f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {upgrade[0]}\r\n\r\n"
                writer.write(head.encode() + b"early,")
                while data := await reader.read(1 << 16):
                    self.sent += len(data)
                    writer.write(data)
                    await writer.drain()
                raise ConnectionResetError
            case "uninvited":
                writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: evil\r\n\r\n")
                await writer.drain()
            case "redirect":
                await self._send(writer, "302 Found", b"", f"Location: {query}")
            case "hang":
                await self.let_go.wait()
            case "garbage":
                writer.write(GARBAGE)
                await writer.drain()
                raise ConnectionResetError
            case "torn":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
                await writer.drain()
                raise ConnectionResetError
            case "stall":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
                await self.let_go.wait()
            case "endless":
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                part = b"%x\r\n%s\r\n" % (1 << 16, b"x" * (1 << 16))
                while True:
                    writer.write(part)
                    await writer.drain()
                    self.sent += 1 << 16
            case "headers":
                writer.write(b"HTTP/1.1 200 OK\r\n")
                while True:
                    writer.write(b"X-More: " + b"y" * 1000 + b"\r\n")
                    await writer.drain()
            case "pods" if "watch=true" in query:
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n")
                event = b'{"n":"1"}' if "half=true" in query else b'{"n":"1"}\n'
                writer.write(b"%x\r\n%b\r\n" % (len(event), event))
                await writer.drain()
                await reader.read(1)
                raise ConnectionResetError
            case _:
                told = {"method": heard.method, "target": heard.target, "headers": heard.headers}
                body = json.dumps({**told, "size": len(heard.body)}).encode()
                await self._send(writer, "200 OK", b"" if heard.method == "HEAD" else body)


@asynccontextmanager
async def raw_member(token: str = "impersonator") -> AsyncIterator[RawMember]:
    """A running one."""
    made = RawMember(token)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, limit=1 << 20)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        with suppress(asyncio.CancelledError):
            await made.close()
