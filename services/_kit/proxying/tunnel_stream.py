"""One stream of frames between hub and agent, from either side: data within credit, in order, until it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self
from urllib.parse import parse_qsl

from services._kit.base.log_errors import LogError
from services._kit.proxying.flow_credit import Numbers, ReceiveCredit, SendCredit
from services._kit.proxying.member_exchange import CHUNK, MemberRefused, MemberRequest, MemberUnreachable
from services._kit.proxying.tunnel_frames import (
    GONE,
    REFUSED,
    TEXT,
    AnyFrame,
    Cancel,
    Credit,
    Data,
    End,
    Frame,
    FrameError,
    packed,
)
from services._rules.proxying.inner_requests import lasts
from services._rules.proxying.request_records import plain

ALIVE_SECONDS: Final = 15.0
"""A stream on which nothing was sent for so long sends a sign that it is still there."""
SILENCE_SECONDS: Final = 50.0
"""A stream of which nothing was heard for so long is over."""

Publish = Callable[[bytes], Awaitable[None]]
"""Sends a frame to the other side; raises LogError."""


class Patience:
    """A bound for an answer to begin, which begins again whenever something moves; None: there is none.

    An async context manager that raises TimeoutError.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._timeout = asyncio.timeout(seconds)
        self._waits = False

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self._waits = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._waits = False
        await self._timeout.__aexit__(kind, error, trace)

    def moved(self) -> None:
        """Something came: there is time again."""
        if self._waits and self._seconds is not None and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._seconds)


def may_wait(request: MemberRequest) -> bool:
    """Whether the answer may begin at any time: followed logs do so with the first line."""
    bare, _, query = request.path.partition("?")
    parameters = dict(parse_qsl(query))
    return lasts(request.method, bare, parameters, request.upgrade)


class TunnelStream:
    """One side of a stream. `take` is called with the frames of the other side, the rest by who uses it."""

    def __init__(self, name: str, publish: Publish, now: Callable[[], float]) -> None:
        self.id = name
        self.sent = 0
        """Bytes of data that went to the other side."""
        self.received = 0
        self.ended = False
        """Whether the other side has sent everything, and said so."""
        self._publish = publish
        self._now = now
        self._numbers = Numbers()
        self._credit = SendCredit()
        self._window = ReceiveCredit()
        self._waiting = bytearray()
        self._news = asyncio.Event()
        self._more = asyncio.Event()
        self._failure: MemberUnreachable | MemberRefused | None = None
        self._heard = self._said = now()
        self._closed = False

    @property
    def failure(self) -> MemberUnreachable | MemberRefused | None:
        """Why the stream is over before its end."""
        return self._failure

    @property
    def over(self) -> bool:
        """Whether nothing more can come of it."""
        return self._closed or self._failure is not None

    def heard(self, frame: AnyFrame) -> None:
        """Count a frame of the other side; raises FrameError when it does not follow the one before."""
        self._numbers.check(frame.number)
        self._heard = self._now()

    def take(self, frame: Data | End | Credit | Cancel) -> None:
        """Take in a counted frame; raises FrameError when it breaks the rules."""
        match frame:
            case Data():
                if self.ended:
                    raise FrameError("data came behind the end")
                self._window.arrived(len(frame.data))
                self.received += len(frame.data)
                self._waiting += frame.data
                self._news.set()
            case End():
                self.ended = True
                self._news.set()
            case Credit():
                self._credit.gain(frame.size)
                self._more.set()
            case Cancel():
                text = plain(frame.text, TEXT)
                self.fail(MemberRefused(text) if frame.why == REFUSED else MemberUnreachable(text))

    def fail(self, error: MemberUnreachable | MemberRefused) -> None:
        """It is over: reads and writes get this error, reads after what had come."""
        if self._failure is None:
            self._failure = error
        self._news.set()
        self._more.set()

    async def read(self) -> bytes:
        """The next bytes that came, at most CHUNK; empty at the end. Raises MemberUnreachable or MemberRefused."""
        while not self._waiting:
            if self._failure is not None:
                raise self._failure
            if self.ended or self._closed:
                return b""
            self._news.clear()
            await self._news.wait()
        data = bytes(self._waiting[:CHUNK])
        del self._waiting[:CHUNK]
        given = self._window.taken(len(data))
        if given and not self.ended and not self.over:
            await self._send(Credit(self.id, self._numbers.next(), given))
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes as far as there is credit, and wait for more; raises MemberUnreachable or MemberRefused."""
        view = memoryview(data)
        while view:
            if self._failure is not None:
                raise self._failure
            if self._closed:
                raise MemberUnreachable("the connection was closed")
            size = self._credit.spend(min(len(view), CHUNK))
            if not size:
                self._more.clear()
                await self._more.wait()
                continue
            await self._send(Data(self.id, self._numbers.next(), bytes(view[:size])))
            self.sent += size
            view = view[size:]

    async def first(self, make: Callable[[str, int], AnyFrame]) -> None:
        """Send the first frame of this side; raises MemberUnreachable."""
        await self._send(make(self.id, self._numbers.next()))

    async def end(self) -> None:
        """Tell the other side that everything was sent; raises MemberUnreachable."""
        await self._send(End(self.id, self._numbers.next()))

    async def cancel(self, why: str = GONE, text: str = "") -> None:
        """Tell the other side that it is over, and end it here; raises nothing."""
        if self._closed:
            return
        with suppress(MemberUnreachable):
            await self._send(Cancel(self.id, self._numbers.next(), why, plain(text, TEXT)))
        self.close()

    def close(self) -> None:
        """End it here: what reads gets the end, what writes an error."""
        self._closed = True
        self._waiting.clear()
        self._news.set()
        self._more.set()

    async def look(self) -> None:
        """Where nothing was sent for a while, tell the other side that the stream is there; fail where it is not."""
        now = self._now()
        if self.over:
            return
        if now - self._heard > SILENCE_SECONDS:
            self.fail(MemberUnreachable(f"nothing was heard for {SILENCE_SECONDS:g} s"))
        elif now - self._said > ALIVE_SECONDS:
            await self._send(Credit(self.id, self._numbers.next(), 0))

    async def _send(self, frame: Frame) -> None:
        self._said = self._now()
        try:
            await self._publish(packed(frame))  # type: ignore[arg-type]  # every frame is one of them
        except LogError as error:
            self.fail(MemberUnreachable(f"the log's server cannot be reached: {error}"))
            raise MemberUnreachable(str(self._failure)) from error
