"""Connections that became another protocol lose nothing, also where they close at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from services._kit.proxying.member_exchange import CHUNK
from services._kit.proxying.switched_connection import SwitchedConnection, of_answer
from tests.support.waiting import eventually

HEAD = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as made:
        yield made


async def whole(connection: SwitchedConnection) -> bytes:
    found = b""
    while data := await connection.read():
        assert len(data) <= CHUNK
        found += data
    return found


@pytest.mark.parametrize("size", [0, 5, 3 * CHUNK])
async def test_what_came_before_the_end_is_read(session: aiohttp.ClientSession, size: int) -> None:
    sent = bytes(number % 251 for number in range(size))

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + sent)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        answer = await session.get(f"http://127.0.0.1:{port}/", headers={"Connection": "Upgrade", "Upgrade": "echo"})
        assert answer.status == 101
        if size <= CHUNK:
            # Smaller than what is held up: the end comes before anything is read.
            await eventually(lambda: answer.connection is None or answer.connection.transport is None)
        connection = of_answer(answer)
        assert await whole(connection) == sent
        connection.close()
        with pytest.raises(ConnectionError):
            await connection.write(b"late")
        answer.close()
