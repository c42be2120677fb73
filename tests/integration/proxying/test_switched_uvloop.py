"""Switched connections on the event loop that services run on, whose transports are not those of asyncio."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.web_request import BaseRequest

from services._kit.proxying.switched_connection import SwitchedAnswer, join, of_answer, of_request
from services.apiserver.auth.certificate_authority import Authority
from tests.support.raw_member import raw_member

uvloop = pytest.importorskip("uvloop")
SIZE = 8 << 20


async def carried(context: ssl.SSLContext | None, trusted: ssl.SSLContext | bool) -> int:
    """Bytes that came back through a proxy in front of an echo."""
    async with raw_member() as member, aiohttp.ClientSession() as session:

        async def handle(request: BaseRequest) -> web.StreamResponse:
            headers = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "Authorization": "Bearer impersonator"}
            async with session.post(f"{member.url}/switch", headers=headers) as answer:
                other = of_answer(answer)
                caller = of_request(request, (("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")))
                await join(caller, other, lambda *_: None)
                other.close()
            return SwitchedAnswer()

        runner = web.ServerRunner(web.Server(handle), shutdown_timeout=1.0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        secure = trusted if isinstance(trusted, ssl.SSLContext) else None
        port = runner.addresses[0][1]
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=secure, server_hostname="localhost" if secure else None
        )
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(6) == b"early,"

        async def send() -> None:
            for _ in range(SIZE >> 16):
                writer.write(b"x" * (1 << 16))
                await writer.drain()

        async with asyncio.TaskGroup() as group:
            group.create_task(send())
            got = len(await reader.readexactly(SIZE))
        writer.close()
        await runner.cleanup()
        return got


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_switched_connections_on_uvloop(tmp_path: Path, tls: bool) -> None:
    context = trusted = None
    if tls:
        authority = Authority(tmp_path, "switching-ca")
        authority.load()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*authority.server(("localhost",)))
        trusted = ssl.create_default_context(cadata=authority.ca_pem.decode())
    assert uvloop.run(carried(context, trusted or True)) == SIZE
