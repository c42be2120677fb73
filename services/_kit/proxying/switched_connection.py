"""Connections that were HTTP and became another protocol: their bytes as they come, with bounds in both directions."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import aiohttp
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.web_request import BaseRequest

from services._kit.concurrency.tasks import first_of
from services._kit.proxying.member_exchange import CHUNK, MemberUnreachable

_MOST: Final = 2 * CHUNK
"""Bytes that are kept of a sender before it is held up."""
GOODBYE_SECONDS: Final = 5.0
"""How long what was written may take to be sent once a connection is closed."""


class _Former(Protocol):
    """What of the HTTP side is needed once the connection is another one."""

    def set_parser(self, parser: Any, /, *more: Any) -> None:
        """Give what was received after the head to `parser`."""

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection ended."""


class _First:
    """Takes what came right behind the head, in the form that aiohttp hands it over."""

    def __init__(self) -> None:
        self.data = b""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """More of it."""
        self.data += data
        return False, b""

    def feed_eof(self) -> None:
        """Nothing more comes."""


class _Closed(asyncio.Transport):
    """In place of a connection that is gone."""

    def is_closing(self) -> bool:
        """It is."""
        return True

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Nothing comes any more."""

    def resume_reading(self) -> None:
        """Nothing is left to read."""

    def close(self) -> None:
        """It is closed."""

    def abort(self) -> None:
        """It is closed."""


class SwitchedConnection(asyncio.Protocol):
    """One connection; it takes the place of the HTTP side, which only hears of its end."""

    def __init__(self, transport: asyncio.Transport, former: _Former, *arguments: Any) -> None:
        first = _First()
        former.set_parser(first, *arguments)
        self._transport = transport
        self._former = former
        self._kept: deque[bytes] = deque([first.data] if first.data else [])
        self._size = len(first.data)
        self._ended = transport.is_closing()
        self._full = False
        self._lost = isinstance(transport, _Closed)
        self._closing: asyncio.TimerHandle | None = None
        self._more = asyncio.Event()
        self._space = asyncio.Event()
        self._space.set()
        if self._kept or self._ended:
            self._more.set()
        transport.set_protocol(self)
        if self._size < _MOST:
            transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Keep what came, and hold the sender up where that is much."""
        self._kept.append(data)
        self._size += len(data)
        self._more.set()
        if self._size >= _MOST and not self._full:
            self._full = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """The other side sends nothing more: what was sent to it is still written, then the connection closes."""
        self._ended = True
        self._more.set()
        return False

    def pause_writing(self) -> None:
        """The other side does not read for now."""
        self._space.clear()

    def resume_writing(self) -> None:
        """It reads again."""
        self._space.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing comes and nothing can be sent any more."""
        self._ended = self._lost = True
        if self._closing is not None:
            self._closing.cancel()
        self._more.set()
        self._space.set()
        self._former.connection_lost(exc)

    async def read(self) -> bytes:
        """The next bytes, at most CHUNK; empty at the end."""
        while not self._kept:
            if self._ended:
                return b""
            self._more.clear()
            await self._more.wait()
        data = self._kept.popleft()
        if len(data) > CHUNK:
            self._kept.appendleft(data[CHUNK:])
            data = data[:CHUNK]
        self._size -= len(data)
        if self._full and self._size < CHUNK:
            self._full = False
            if not self._transport.is_closing():
                self._transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes and wait until there is space for more; raises ConnectionError once it is closed."""
        if self._transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        self._transport.write(data)
        await self._space.wait()

    def close(self) -> None:
        """End it; what was written is sent before, to a side that takes it soon."""
        if self._closing is None and not self._lost:
            self._closing = asyncio.get_running_loop().call_later(GOODBYE_SECONDS, self._transport.abort)
        self._transport.close()

    def abort(self) -> None:
        """End it at once."""
        self._transport.abort()


def of_answer(answer: aiohttp.ClientResponse) -> SwitchedConnection:
    """The connection on which an answer 101 came; raises ConnectionError where it is closed already."""
    connection = answer.connection
    transport = connection.transport if connection is not None else None
    protocol = connection.protocol if connection is not None else None
    if protocol is None:
        raise ConnectionResetError("the connection closed right after it was switched")
    # One that is closed already may hold all that was to come.
    return SwitchedConnection(transport if transport is not None else _Closed(), protocol, None)


def of_request(request: BaseRequest, headers: Iterable[tuple[str, str]]) -> SwitchedConnection:
    """Answer 101 with these headers; the connection of the caller. Raises ConnectionError where it is closed."""
    transport = request.transport
    if transport is None or transport.is_closing():
        raise ConnectionResetError("the caller closed the connection")
    protocol = request.protocol
    protocol.keep_alive(False)
    lines = ["HTTP/1.1 101 Switching Protocols", *(f"{name}: {value}" for name, value in headers), "", ""]
    transport.write("\r\n".join(lines).encode("utf-8", "surrogateescape"))
    return SwitchedConnection(transport, protocol)


class Stream(Protocol):
    """One end of what is joined."""

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""

    async def write(self, data: bytes) -> None:
        """Send bytes; returns once there is space for more."""


async def join(caller: SwitchedConnection, other: Stream, count: Callable[[int, int], None]) -> None:
    """Carry bytes both ways until one side ends; what it sent before still reaches the caller.

    `count` is told of the bytes towards the other side, and back. Raises nothing for sides that break off: the caller's
    connection is all that could show it.
    """

    async def up() -> None:
        while data := await caller.read():
            count(len(data), 0)
            await other.write(data)

    async def down() -> None:
        while data := await other.read():
            count(0, len(data))
            await caller.write(data)

    try:
        await first_of(up(), down())
    except (MemberUnreachable, OSError):
        caller.abort()
    finally:
        caller.close()


class SwitchedAnswer(web.StreamResponse):
    """Stands for an answer that was sent on a connection which is no longer HTTP: nothing is left to send."""

    def __init__(self) -> None:
        super().__init__(status=101)
        self.force_close()

    async def prepare(self, request: BaseRequest) -> AbstractStreamWriter | None:
        """There is nothing to prepare."""
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """There is nothing to end."""
