"""What of a hostile member's answer is written to its caller's connection, which others may use after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.web_request import BaseRequest

from services._kit.proxying.caller_exchange import Traffic, hand_on
from services._kit.proxying.member_exchange import MemberBadAnswer


class Told:
    """An exchange whose member says what a test wants."""

    def __init__(self, status: int, headers: dict[str, str], *parts: bytes) -> None:
        self.status = status
        self.headers = tuple(headers.items())
        self._parts = list(parts)

    async def read(self) -> bytes:
        return self._parts.pop(0) if self._parts else b""

    async def write(self, data: bytes) -> None:
        raise AssertionError("nothing is to be written to this member")

    async def close(self) -> None:
        """Nothing is open."""


@asynccontextmanager
async def front_of(exchange: Told, refused: list[str]) -> AsyncIterator[int]:
    """The port of a server that hands one exchange on; what it refuses is answered with 502."""

    async def handle(request: BaseRequest) -> web.StreamResponse:
        try:
            return await hand_on(request, exchange, Traffic(), prefix="/members/m1")
        except MemberBadAnswer as error:
            refused.append(str(error))
            return web.Response(status=502)

    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


async def written(exchange: Told, refused: list[str]) -> bytes:
    """Everything that a caller with a connection of its own reads."""
    async with front_of(exchange, refused) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        try:
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


async def test_no_byte_comes_after_the_length_of_an_answer() -> None:
    forged = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    got = await written(Told(200, {"Content-Length": "2"}, b"ok", forged), [])
    assert b"evil" not in got
    got = await written(Told(200, {"Content-Length": "2"}, b"ok" + forged), [])
    assert b"evil" not in got


async def test_answer_of_the_right_length_is_written_whole() -> None:
    got = await written(Told(200, {"Content-Length": "4"}, b"ok", b"ay"), [])
    assert got.endswith(b"\r\n\r\nokay")


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (101, {"Upgrade": "evil"}),
        (99, {}),
        (1000, {}),
        (200, {"Content-Length": "-1"}),
        (200, {"Content-Length": "0x10"}),
        (302, {"Location": "https://evil.example/"}),
        (302, {"Location": "//evil.example/"}),
        (302, {"Location": "evil"}),
    ],
)
async def test_heads_that_lead_astray_are_refused(status: int, headers: dict[str, str]) -> None:
    refused: list[str] = []
    got = await written(Told(status, headers, b"x"), refused)
    assert got.startswith(b"HTTP/1.1 502 ")
    assert refused


async def test_headers_cannot_split_an_answer() -> None:
    headers = {"X-A": "b\r\nSet-Cookie: c=d", "X-E\r\nX": "f", "Set-Cookie": "a=b", "Content-Length": "0"}
    got = await written(Told(200, headers), [])
    assert got.startswith(b"HTTP/1.1 200 ")
    assert b"Set-Cookie" not in got
    assert b"X-E" not in got
