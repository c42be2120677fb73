"""A SPDY/3.1 connection as its server: streams that a client opens, over any transport of bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from services._kit.concurrency.tasks import first_of
from services.member_sim.streams import spdy_framing as spdy
from services.member_sim.streams.byte_queue import ByteQueue
from services.member_sim.streams.peer_pings import until_silent
from services.member_sim.streams.spdy_framing import BadSpdy, Frame

log = structlog.get_logger(__name__)

MOST_STREAMS: Final = 512
"""Streams that are open on one connection, at most."""
_PIECE: Final = 32 << 10


class Transport(Protocol):
    """What carries a connection."""

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes once there is room; raises ConnectionError."""
        ...


class SpdyStream:
    """One stream of a connection; `headers` are those it was opened with, names in small letters."""

    def __init__(self, session: SpdySession, number: int, headers: dict[str, str]) -> None:
        self.number = number
        self.headers = headers
        self.incoming = ByteQueue()
        self.received_all = False
        self._session = session
        self._sent_all = False

    async def read(self) -> bytes:
        """The next bytes of the client; empty at the end."""
        return await self.incoming.get()

    async def write(self, data: bytes) -> None:
        """Send bytes; raises ConnectionError."""
        for start in range(0, len(data), _PIECE):
            if self._sent_all:
                return
            await self._session.send(spdy.FrameWriter.data(self.number, data[start : start + _PIECE]))

    async def finish(self) -> None:
        """Send nothing more."""
        if not self._sent_all:
            self._sent_all = True
            await self._session.send(spdy.FrameWriter.data(self.number, b"", last=True))
            self._session.forget(self)

    @property
    def ended(self) -> bool:
        """Whether neither end sends any more."""
        return self._sent_all and self.received_all

    async def cut(self) -> None:
        """The client wants no more of it."""
        self._sent_all = self.received_all = True
        await self.incoming.end()


class SpdySession:
    """Reads frames until the connection ends; each new stream is given to `opened`, which may refuse it."""

    def __init__(self, transport: Transport, opened: Callable[[SpdyStream], bool]) -> None:
        self._transport = transport
        self._opened = opened
        self._writer = spdy.FrameWriter()
        self._turn = asyncio.Lock()
        self._streams: dict[int, SpdyStream] = {}
        self._last = 0
        self._heard = self._asked = 0
        self._full = False

    async def run(self) -> None:
        """Serve until the client goes away or sends what is no SPDY; what it opened has ended then."""
        try:
            await first_of(self._read(), until_silent(self._ask, lambda: self._heard, lambda: self._full))
        except BadSpdy as e:
            log.info("spdy_refused", reason=str(e))
            await self.send(self._writer.goaway(self._last))
        finally:
            for stream in self._streams.values():
                await stream.cut()
            self._streams.clear()

    async def _read(self) -> None:
        reader = spdy.FrameReader()
        while data := await self._transport.read():
            self._heard += 1
            for frame in reader.feed(data):
                if not await self._take(frame):
                    return

    async def _ask(self) -> None:
        # Pings of a server have even numbers.
        self._asked += 2
        await self.send(self._writer.ping(self._asked))

    async def send(self, data: bytes) -> None:
        """Send a frame."""
        async with self._turn:
            await self._transport.write(data)

    def forget(self, stream: SpdyStream) -> None:
        """Drop a stream if both ends are done with it."""
        if stream.ended:
            self._streams.pop(stream.number, None)

    async def _take(self, frame: Frame) -> bool:
        if frame.kind == spdy.SYN_STREAM:
            await self._open(frame)
        elif frame.kind == spdy.DATA:
            stream = self._streams.get(frame.stream)
            if stream is None:
                if frame.stream > self._last:
                    await self.send(self._writer.reset(frame.stream, spdy.INVALID_STREAM))
                return True
            self._full = True
            await stream.incoming.put(frame.body)
            self._full = False
            if frame.last:
                await self._received_all(stream)
        elif frame.kind == spdy.RST_STREAM:
            stream = self._streams.pop(frame.stream, None)
            if stream is not None:
                await stream.cut()
        elif frame.kind == spdy.PING and frame.stream % 2:
            await self.send(self._writer.ping(frame.stream))
        return frame.kind != spdy.GOAWAY

    async def _open(self, frame: Frame) -> None:
        number = frame.stream
        if number <= self._last or not number % 2:
            raise BadSpdy(f"stream {number} is opened after stream {self._last}")
        self._last = number
        stream = SpdyStream(self, number, frame.headers)
        if len(self._streams) >= MOST_STREAMS or not self._opened(stream):
            await self.send(self._writer.reset(number, spdy.REFUSED_STREAM))
            return
        self._streams[number] = stream
        async with self._turn:
            # Headers are compressed in the order in which they are sent.
            await self._transport.write(self._writer.reply(number))
        if frame.last:
            await self._received_all(stream)

    async def _received_all(self, stream: SpdyStream) -> None:
        stream.received_all = True
        await stream.incoming.end()
        self.forget(stream)
