"""Limits of time: connections that send or read nothing are closed, requests end with 504, bodies under way arrive."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from services.apiserver.admission.chain import Attributes
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Limits, Settings
from services.apiserver.store.memory_store import MemoryStore
from tests.support.waiting import comes_to, eventually

MAPS = "/api/v1/namespaces/default/configmaps"
SHORT = Limits(handshake_seconds=0.3, head_seconds=0.3, idle_seconds=0.3)


@asynccontextmanager
async def running(place: Path, limits: Limits, *, tls: bool = False, **more: Any) -> AsyncIterator[ApiServer]:
    """A server with those limits."""
    tokens = {"admin": Identity("admin", "admin", ("system:masters",)), "jane": Identity("jane", "u1", ("devs",))}
    settings = Settings(
        data_dir=place, tokens=tokens, tls=tls, limits=limits, authorization="AlwaysAllow", controllers=False, **more
    )
    server = ApiServer(MemoryStore(), builtin_registry(), settings)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


class Slow:
    """An admission plugin that never answers for ConfigMaps named `slow`; it remembers that it was cancelled."""

    def __init__(self) -> None:
        self.cancelled = False

    async def mutate(self, attributes: Attributes) -> None:
        if attributes.name == "slow":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise

    async def validate(self, attributes: Attributes) -> None:
        pass


def head(method: str = "GET", path: str = "/version", **headers: str) -> bytes:
    """A request as bytes."""
    lines = [f"{method} {path} HTTP/1.1", "Host: a", "Authorization: Bearer admin"]
    return "\r\n".join([*lines, *(f"{k.replace('_', '-')}: {v}" for k, v in headers.items()), "", ""]).encode()


@pytest.mark.parametrize("sent", [b"", b"GET /version HTTP/1.1\r\nHost: a\r\nX-Slow: ", head() + b"GET /ver"])
async def test_connections_without_a_request_are_closed(tmp_path: Path, sent: bytes) -> None:
    async with running(tmp_path, SHORT) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)
        async with asyncio.timeout(60):
            await reader.read()
        writer.close()


async def test_tls_handshakes_that_do_not_go_on_are_closed(tmp_path: Path) -> None:
    async with running(tmp_path, Limits(handshake_seconds=0.3), tls=True) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        async with asyncio.timeout(60):
            assert await reader.read() == b""
        writer.close()


async def test_tls_connections_without_a_request_are_closed(tmp_path: Path) -> None:
    async with running(tmp_path, msgspec.structs.replace(SHORT, handshake_seconds=60.0), tls=True) as server:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        async with asyncio.timeout(60):
            assert await reader.read() == b""
        writer.close()


async def test_clients_that_read_nothing_are_closed(tmp_path: Path) -> None:
    async with running(tmp_path, Limits(unread_seconds=0.3)) as server:
        async with aiohttp.ClientSession(server.url, headers={"Authorization": "Bearer admin"}) as session:
            for number in range(12):
                body = {"metadata": {"name": f"m{number}"}, "data": {"a": "x" * 900_000}}
                async with session.post(MAPS, json=body) as answer:
                    assert answer.status == 201
        _reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1)
        writer.write(head(path=MAPS) * 4)
        await writer.drain()
        assert server._runner is not None
        connections = server._runner.server
        assert connections is not None
        await eventually(lambda: not connections.connections, "the end of the connection")
        writer.close()


async def test_requests_end_at_their_time_limit(tmp_path: Path) -> None:
    async with running(tmp_path, Limits(request_seconds=1.0)) as server:
        slow = Slow()
        server.objects.admission.plugins.append(slow)
        async with aiohttp.ClientSession(server.url, headers={"Authorization": "Bearer jane"}) as session:
            async with session.post(MAPS, json={"metadata": {"name": "slow"}}) as answer:
                status = await answer.json()
            assert (answer.status, status["reason"], status["code"]) == (504, "Timeout", 504)
            assert status["message"].startswith("Timeout: request did not complete within requested timeout")
            assert slow.cancelled

            async def answered(**params: str) -> tuple[int, bytes]:
                async with session.get(MAPS, params=params) as answer:
                    return answer.status, (await answer.read())[:1]

            await comes_to("an answer in time", answered, (200, b"{"))
            # A watch outlives the limit of requests.
            await comes_to("a watch", lambda: answered(watch="true", timeoutSeconds="2"), (200, b""))
        for level in server._face.limits.seats.levels.values():
            assert level.taken == 0


async def test_a_request_may_ask_for_less_time(tmp_path: Path) -> None:
    async with running(tmp_path, Limits()) as server:
        server.objects.admission.plugins.append(Slow())
        async with (
            aiohttp.ClientSession(server.url, headers={"Authorization": "Bearer jane"}) as session,
            session.post(MAPS, params={"timeout": "50ms"}, json={"metadata": {"name": "slow"}}) as answer,
        ):
            assert answer.status == 504


async def test_bodies_that_do_not_arrive_end_with_504(tmp_path: Path) -> None:
    async with running(tmp_path, Limits(request_seconds=0.5)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head("POST", MAPS, Content_Type="application/json", Content_Length="100") + b'{"a":')
        async with asyncio.timeout(60):
            assert (await reader.readline()).split()[1] == b"504"
        writer.close()


async def test_a_body_under_way_is_taken_while_stopping(tmp_path: Path) -> None:
    async with running(tmp_path, Limits()) as server:
        body = b'{"metadata":{"name":"late"}}'
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head("POST", MAPS, Content_Type="application/json", Content_Length=str(len(body))) + body[:5])
        await eventually(lambda: server._face.underway.count == 1)
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0)
        writer.write(body[5:])
        async with asyncio.timeout(60):
            assert (await reader.readline()).split()[1] == b"201"
        writer.close()
        await stopping


async def test_what_is_no_http_is_answered_with_a_status(tmp_path: Path) -> None:
    async with running(tmp_path, Limits()) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"nonsense\r\n\r\n")
        async with asyncio.timeout(60):
            answer = await reader.read()
        writer.close()
    first, _, body = answer.partition(b"\r\n\r\n")
    assert first.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
    assert b"aiohttp" not in first
    assert msgspec.json.decode(body)["kind"] == "Status"


@pytest.mark.parametrize(("length", "code"), [(100_000, b"200"), (400_000, b"400")])
async def test_lines_of_requests_have_a_limit(tmp_path: Path, length: int, code: bytes) -> None:
    async with running(tmp_path, Limits()) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head(path=f"/version?x={'a' * length}", Connection="close"))
        async with asyncio.timeout(60):
            answer = await reader.read()
        writer.close()
    assert answer.split()[1] == code
