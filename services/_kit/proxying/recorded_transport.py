"""Hands every request that a transport carried over for the record, once it has ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from schemas.events.request import HUB_SIDE, MemberRequested
from services._kit.base.clock import Clock
from services._kit.proxying.member_exchange import (
    Exchange,
    MemberRefused,
    MemberRequest,
    MemberTransport,
    MemberUnreachable,
)
from services._rules.proxying.request_records import on_record

Take = Callable[[MemberRequested], None]


class RecordedTransport:
    """A MemberTransport in front of another one; `by` names this service."""

    def __init__(self, transport: MemberTransport, by: str, clock: Clock, take: Take) -> None:
        self._transport = transport
        self._by = by
        self._clock = clock
        self._take = take

    async def open(self, request: MemberRequest, body: AsyncIterator[bytes] | None = None) -> Exchange:
        """Send a request; raises what the other transport raises."""
        record = _Record(request, self._by, self._clock, self._take)
        try:
            exchange = await self._transport.open(request, record.counted(body) if body is not None else None)
        except BaseException as error:
            record.end(0, error)
            raise
        return _RecordedExchange(exchange, record)


class _Record:
    """What is known of one request so far."""

    def __init__(self, request: MemberRequest, by: str, clock: Clock, take: Take) -> None:
        self.sent = self.received = 0
        self._request = request
        self._by = by
        self._clock = clock
        self._take = take
        self._started = clock.now()
        self._began = clock.monotonic()
        self._ended = False

    async def counted(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """A body as it is read."""
        async for part in body:
            self.sent += len(part)
            yield part

    def end(self, status: int, error: BaseException | None) -> None:
        """Hand it over, once."""
        if self._ended:
            return
        self._ended = True
        request, problem = self._request, ""
        if isinstance(error, MemberUnreachable | MemberRefused):
            problem = str(error)
        elif error is not None:
            problem = "it was given up before its answer"
        event = MemberRequested(
            cluster=request.cluster,
            side=HUB_SIDE,
            by=self._by,
            user=request.user,
            groups=request.groups,
            method=request.method,
            path=request.path,
            upgrade=request.upgrade,
            status=status,
            problem=problem,
            started=self._started,
            seconds=self._clock.monotonic() - self._began,
            sent=self.sent,
            received=self.received,
        )
        self._take(on_record(event, request.cluster, HUB_SIDE, self._clock.now()))


class _RecordedExchange:
    """An exchange whose bytes are counted."""

    def __init__(self, exchange: Exchange, record: _Record) -> None:
        self.status = exchange.status
        self.headers = exchange.headers
        self._exchange = exchange
        self._record = record
        self._error: MemberUnreachable | None = None

    async def read(self) -> bytes:
        """The next bytes; see Exchange."""
        try:
            data = await self._exchange.read()
        except MemberUnreachable as error:
            self._error = error
            raise
        self._record.received += len(data)
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes after an upgrade; see Exchange."""
        try:
            await self._exchange.write(data)
        except MemberUnreachable as error:
            self._error = error
            raise
        self._record.sent += len(data)

    async def close(self) -> None:
        """End it."""
        self._record.end(self.status, self._error)
        await self._exchange.close()
