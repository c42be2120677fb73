"""Asks containers whether they are well, as their manifest says."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from docker.errors import APIError
from docker.models.containers import Container

from schemas.manifest import Manifest
from tests.containers.cluster.pod_options import Probe, Unsupported, port_of

_LINE: Final = 4096


async def until_failed(probe: Probe, ask: Callable[[], Awaitable[bool]], *, first: bool) -> bool:
    """Ask until it failed too often: False; with `first` until it went well often enough: True."""
    await asyncio.sleep(probe.delay)
    good = bad = 0
    while True:
        good, bad = (good + 1, 0) if await ask() else (0, bad + 1)
        if first and good >= probe.successes:
            return True
        if bad >= probe.failures:
            return False
        await asyncio.sleep(probe.period)


async def asked(asks: Manifest, container: Manifest, address: str, running: Container, seconds: float) -> bool:
    """Whether one question is answered well within its time; raises Unsupported."""
    try:
        async with asyncio.timeout(seconds):
            if "exec" in asks:
                code, _ = await asyncio.to_thread(running.exec_run, asks["exec"]["command"])
                return bool(code == 0)
            if "tcpSocket" in asks:
                _, writer = await asyncio.open_connection(address, port_of(container, asks["tcpSocket"]["port"]))
                writer.close()
                return True
            if "httpGet" in asks:
                return await _http(asks["httpGet"], container, address)
    except (APIError, OSError, TimeoutError, ValueError):
        # One that ended meanwhile takes no commands.
        return False
    raise Unsupported(f"probe {', '.join(asks)}")


async def _http(asks: Manifest, container: Manifest, address: str) -> bool:
    context = None
    if asks.get("scheme", "HTTP") == "HTTPS":
        # As a kubelet does: it asks whether it answers, not who answers.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    port = port_of(container, asks["port"])
    reader, writer = await asyncio.open_connection(address, port, ssl=context, limit=_LINE)
    try:
        request = f"GET {asks['path']} HTTP/1.1\r\nHost: {address}:{port}\r\nConnection: close\r\n\r\n"
        writer.write(request.encode())
        await writer.drain()
        _, code, *_ = (await reader.readline()).split()
        return HTTPStatus.OK <= int(code) < HTTPStatus.BAD_REQUEST
    finally:
        writer.close()
