"""Ends what is under way with a cluster that is no member any more, and says so to who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from services._kit.concurrency.supervision import spawn
from services._kit.proxying.member_exchange import Exchange, MemberLeft, MemberRequest, MemberTransport

T = TypeVar("T")


class DepartureTransport:
    """A MemberTransport in front of another one, which is told of clusters that leave."""

    def __init__(self, transport: MemberTransport) -> None:
        self._transport = transport
        self._stays: dict[str, set[_Stay]] = {}

    def left(self, cluster: str) -> None:
        """End what is under way with a cluster: who waits for its answer gets MemberLeft."""
        for stay in self._stays.pop(cluster, ()):
            stay.leave()

    async def open(self, request: MemberRequest, body: AsyncIterator[bytes] | None = None) -> Exchange:
        """Send a request; raises what the other transport raises, and MemberLeft."""
        stay = _Stay(request.cluster)
        self._stays.setdefault(request.cluster, set()).add(stay)
        try:
            exchange = await stay.until_left(lambda: self._transport.open(request, body))
        except BaseException:
            self._forget(stay)
            raise
        return _DepartureExchange(exchange, stay, self._forget)

    def _forget(self, stay: _Stay) -> None:
        stays = self._stays.get(stay.cluster, set())
        stays.discard(stay)
        if not stays:
            self._stays.pop(stay.cluster, None)


class _Stay:
    """One request under way with a cluster."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.exchange: Exchange | None = None
        self._departed = asyncio.Event()
        self._waiting: set[asyncio.Task[object]] = set()

    def leave(self) -> None:
        """The cluster leaves."""
        self._departed.set()
        for task in self._waiting:
            task.cancel()
        if not self._waiting and self.exchange is not None:
            # The caller is slow: it is told once it reads, and the member needs not wait for that.
            spawn("departure", self.exchange.close())

    async def until_left(self, work: Callable[[], Awaitable[T]]) -> T:
        """What some work returns; raises MemberLeft where the cluster leaves before."""
        task = asyncio.current_task()
        assert task is not None
        if self._departed.is_set():
            raise self._gone()
        self._waiting.add(task)
        try:
            return await work()
        except asyncio.CancelledError:
            # Who cancelled the task besides gets what it wanted.
            if self._departed.is_set() and not task.uncancel():
                raise self._gone() from None
            raise
        finally:
            self._waiting.discard(task)

    def _gone(self) -> MemberLeft:
        return MemberLeft(f"cluster {self.cluster} is no member any more: it left while this request was under way")


class _DepartureExchange:
    """An exchange that ends when its cluster leaves."""

    def __init__(self, exchange: Exchange, stay: _Stay, forget: Callable[[_Stay], None]) -> None:
        self.status = exchange.status
        self.headers = exchange.headers
        self._exchange = stay.exchange = exchange
        self._stay = stay
        self._forget = forget

    async def read(self) -> bytes:
        """The next bytes; see Exchange."""
        return await self._stay.until_left(self._exchange.read)

    async def write(self, data: bytes) -> None:
        """Send bytes after an upgrade; see Exchange."""
        await self._stay.until_left(lambda: self._exchange.write(data))

    async def close(self) -> None:
        """End it."""
        self._forget(self._stay)
        await self._exchange.close()
