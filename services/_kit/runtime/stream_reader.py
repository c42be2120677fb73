"""Feeds a projection: one pump per stream that the service reads, until stopped or the log was replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Generic

from services._kit.concurrency.tasks import first_of
from services._kit.log.batch_delay import BatchDelay
from services._kit.log.stream_port import Delivery, Log, Message, Pump
from services._kit.runtime.outbox import stream_of
from services._kit.runtime.projection import Projection
from services._kit.runtime.service import K, S
from services._kit.runtime.shared_consumer import SharedReading

SLICE = 512


def by_stream(filters: Sequence[str]) -> dict[str, list[str]]:
    """Filters grouped by the stream that holds them, each once."""
    grouped: dict[str, list[str]] = {}
    for pattern in filters:
        held = grouped.setdefault(stream_of(pattern), [])
        if pattern not in held:
            held.append(pattern)
    return grouped


class StreamReader(Generic[S, K]):
    """Feeds a projection from the log; `window` bounds how many messages wait per stream."""

    def __init__(
        self,
        logs: Mapping[str, Log],
        projection: Projection[S, K],
        filters: Mapping[str, Sequence[str]],
        *,
        window: int = 1024,
        on_fed: Callable[[Delivery, str], None] | None = None,
        patience: BatchDelay | None = None,
        shared: SharedReading | None = None,
    ) -> None:
        self._logs = logs
        self._projection = projection
        self._filters = filters
        self._window = window
        self._on_fed = on_fed
        self._patience = patience
        self._shared = shared
        self._pumps: dict[str, Pump] = {}

    def behind(self, stream: str) -> int:
        """Messages of a stream that were not handed to the projection yet."""
        pump = self._pumps.get(stream)
        return pump.behind if pump is not None else 0

    async def run(self) -> None:
        """Follow every stream until cancelled; raises LogReplaced when the projection has to be rebuilt."""
        await first_of(*(self._follow(stream) for stream in self._filters))

    async def _follow(self, stream: str) -> None:
        pump = self._pumps[stream] = self._pump(self._logs[stream], self._filters[stream])
        deliveries = pump.__aiter__()
        try:
            async for delivery in deliveries:
                await self._feed(delivery, stream)
                # It may be long until the next one, and thousands of messages may be in it.
                del delivery
        finally:
            await pump.close()
            close = getattr(deliveries, "aclose", None)
            if close is not None:
                await close()

    async def _feed(self, delivery: Delivery, stream: str) -> None:
        """Large deliveries are folded in slices: heartbeats and answers must not wait for all of it."""
        messages = delivery.messages
        for start in range(0, max(1, len(messages)), SLICE):
            part = messages[start : start + SLICE]
            last = start + SLICE >= len(messages)
            fed = delivery if last and start == 0 else _part(delivery, part, last)
            self._projection.feed(fed, stream)
            if self._on_fed is not None:
                self._on_fed(fed, stream)
            if not last:
                await asyncio.sleep(0)

    def _pump(self, log: Log, filters: Sequence[str]) -> Pump:
        if self._shared is not None:
            return self._shared.pump(log, filters, self._window, self._patience)
        return log.pump(filters, window=self._window, patience=self._patience)


def _part(delivery: Delivery, messages: Sequence[Message], last: bool) -> Delivery:
    return Delivery(messages, delivery.caught_up and last, delivery.position if last else messages[-1].seq)
