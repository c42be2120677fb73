"""A client whose server breaks, or reads nothing any more, loses nobody's message without a word and finds another."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from nats.aio.msg import Msg

from services._kit.base.log_errors import Ambiguous
from services._kit.log import jetstream
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import NewMessage
from tests.natsserver import Server
from tests.support.waiting import PATIENCE, eventually

INFO = {"server_id": "deaf", "version": "2.15.1", "proto": 1, "headers": True, "max_payload": 8 << 20}
BLOCK = bytes(1 << 20)


@asynccontextmanager
async def deaf() -> AsyncIterator[str]:
    """The URL of a server that reads nothing once it has taken a client."""

    taken: list[asyncio.WriteTransport] = []

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"INFO {json.dumps(INFO)}\r\n".encode())
        while not (await reader.readline()).startswith(b"PING"):
            pass
        writer.write(b"PONG\r\n")
        taken.append(writer.transport)
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport that reads

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    try:
        yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        for transport in taken:
            transport.abort()
        server.close()
        await server.wait_closed()


async def test_a_server_that_reads_nothing_is_left(nats_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async with deaf() as url:
        monkeypatch.setattr("random.sample", lambda servers, _: servers)
        connection = await Connection.open([url, nats_server.url], move_after=0.2)
        try:
            for _ in range(12):
                # More than the buffers of both sockets hold.
                await connection.publish("told.much", BLOCK)
            with pytest.raises(Ambiguous):
                await connection.request("told.nobody", timeout=0.3)
            with pytest.raises(Ambiguous):
                await connection.request("told.nobody", timeout=0.3)
            await eventually(lambda: connection.generation > 0, "another server")
            assert connection.nc.connected_url.port != int(url.rpartition(":")[2])
            assert await connection.flushed(30)
        finally:
            await connection.close()


async def test_what_several_servers_do_not_answer_is_soon_asked_for(
    nats_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """given a server that left with a message it took, when several keep the stream, then it counts as lost soon."""
    monkeypatch.setattr(jetstream, "HANDOVER", 0.1)
    connection = await Connection.open(nats_server.url)
    try:
        await connection.subscribe("took.it", swallow)
        log = JetStreamLog(connection, "FACTS")
        log.replicated = True
        with pytest.raises(Ambiguous, match=r"within 0\.1 s"):
            await log.append([NewMessage("took.it", b"{}")])
    finally:
        await connection.close()


async def swallow(_: Msg) -> None:
    return


async def test_a_client_leaves_a_server_that_is_silent_about_tls() -> None:
    begun = asyncio.Event()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"INFO {json.dumps({**INFO, 'tls_required': True})}\r\n".encode())
        await reader.readexactly(5)
        begun.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    url = f"tls://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    opening = asyncio.create_task(Connection.open(url, tls=ssl.create_default_context()))
    try:
        await begun.wait()
        opening.cancel()
        assert await asyncio.wait({opening}, timeout=PATIENCE) == ({opening}, set())
    finally:
        server.close()
        await server.wait_closed()


async def test_a_transport_that_broke_is_no_error_of_who_publishes(nats_server: Server) -> None:
    connection = await Connection.open(nats_server.url)
    try:
        heard: list[bytes] = []
        await connection.listen("told.m1", lambda message: heard.append(message.data))
        assert await connection.flushed(30)

        class Broken:
            def __getattr__(self, name: str) -> object:
                raise RuntimeError("unable to perform operation; the handler is closed")

        # What uvloop's transport says that was closed a moment ago; the flusher ends with that.
        nc, transport = connection.nc, connection.nc._transport
        nc._transport = Broken()
        for number in range(3):
            await connection.publish("told.m1", str(number).encode())
            nc._transport = transport if nc.is_reconnecting else nc._transport
            await asyncio.sleep(0)
        await eventually(lambda: heard[-1:] == [b"2"], "what was published last")
    finally:
        await connection.close()
