"""Takes a connection over from HTTP: after the answer 101 both ends send plain bytes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.web_request import BaseRequest

_HELD: Final = 256 << 10
"""Bytes that wait to be read before the client has to wait."""


class RawTransport:
    """Bytes of one connection; the HTTP server hands them to it as to the parser of a body."""

    def __init__(self, http: BaseRequest) -> None:
        self._http = http
        self._held = bytearray()
        self._ended = False
        self._paused = False
        self._arrived = asyncio.Event()

    async def begin(self, headers: dict[str, str]) -> web.StreamResponse:
        """Send the answer that makes the connection ours."""
        # Before the answer: what follows it is no HTTP.
        self._http.protocol.set_parser(cast("Any", self))
        self._http.protocol.keep_alive(False)
        response = web.StreamResponse(status=101, headers={"Connection": "Upgrade", **headers})
        response.force_close()
        await response.prepare(self._http)
        return response

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Take bytes in; the server calls this."""
        self._held += data
        if len(self._held) >= _HELD and not self._paused and self._http.transport is not None:
            self._paused = True
            self._http.transport.pause_reading()
        self._arrived.set()
        return False, b""

    def feed_eof(self) -> None:
        """The connection is lost; the server calls this."""
        self._ended = True
        self._arrived.set()

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        while not self._held and not self._ended:
            self._arrived.clear()
            await self._arrived.wait()
        data = bytes(self._held)
        self._held.clear()
        if self._paused and self._http.transport is not None:
            self._paused = False
            self._http.transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes once there is room; raises ConnectionError."""
        transport = self._http.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client has gone away")
        transport.write(data)
        await self._http.writer.drain()

    def close(self) -> None:
        """End the connection after what was written."""
        with suppress(AttributeError):
            cast("Any", self._http.transport).close()
