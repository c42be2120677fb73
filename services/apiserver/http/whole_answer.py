"""An answer that is complete when it is sent: its head is made in one step, and goes out with the body in one write."""

from __future__ import annotations

import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import HttpVersion11
from aiohttp.web_request import BaseRequest
from multidict import CIMultiDict

from services.apiserver.http.bounded_connections import SERVER_NAME

_JOINED: Final = 64 << 10
"""Bytes of a body that are copied behind its head; longer ones are handed over beside it."""
_ENDS: Final = ("\r", "\n")


class WholeAnswer(web.StreamResponse):
    """A response to one HTTP/1.1 request; aiohttp writes those to older clients, and those without a body.

    What aiohttp does for each response that has not begun (cookies, compression, chunks, hooks) cannot occur here and
    took a fifth of the time of a read. The state of the base class is not used, and not made.
    """

    def __init__(self, code: int, media: str, body: bytes, headers: list[tuple[str, str]]) -> None:
        self._code = code
        self._media = media
        self._whole = body
        self._more = headers
        self._keep: bool | None = None
        self._by_library: web.Response | None = None

    @property
    def keep_alive(self) -> bool | None:
        """Whether the connection stays open."""
        return self._keep if self._by_library is None else self._by_library.keep_alive

    async def prepare(self, request: BaseRequest) -> AbstractStreamWriter | None:
        """Send everything, or leave it to aiohttp."""
        if request.version != HttpVersion11 or request.method == "HEAD" or self._code in (204, 304):
            headers = CIMultiDict([("Content-Type", self._media), ("Server", SERVER_NAME), *self._more])
            self._by_library = web.Response(body=self._whole, status=self._code, headers=headers)
            return await self._by_library.prepare(request)
        lines = [_head(self._code, self._media)]
        for name, value in self._more:
            if any(end in value for end in _ENDS):
                raise ValueError(f"the header {name} would end before its value does")
            lines.append(f"{name}: {value}\r\n".encode())
        self._keep = request.keep_alive
        if not self._keep:
            lines.append(b"Connection: close\r\n")
        body = self._whole
        lines.append(b"Content-Length: %d\r\nDate: %b\r\n\r\n" % (len(body), _date(int(time.time()))))
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        head = b"".join(lines)
        writer: Any = request.writer
        writer.output_size += len(head) + len(body)
        if len(body) <= _JOINED:
            transport.write(head + body)
        else:
            transport.writelines((head, body))
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to send, but for aiohttp."""
        if self._by_library is not None:
            await self._by_library.write_eof(data)


@lru_cache(maxsize=256)
def _head(code: int, media: str) -> bytes:
    """The lines that answers of one kind share."""
    try:
        reason = HTTPStatus(code).phrase
    except ValueError:
        reason = ""
    return f"HTTP/1.1 {code} {reason}\r\nContent-Type: {media}\r\nServer: {SERVER_NAME}\r\n".encode()


@lru_cache(maxsize=2)
def _date(seconds: int) -> bytes:
    return formatdate(seconds, usegmt=True).encode()
