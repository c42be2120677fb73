"""One reader of each stream for several services of one process: every message is received and decoded once.

The reader begins when all services have asked for it, with the filters of all of them. Each gets what its own filters
match, in log order. None gets more than its window while it is slow: then all wait for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Final

from schemas.codec import Known
from services._kit.concurrency.tasks import child
from services._kit.log.batch_delay import BatchDelay, DeliveryGate
from services._kit.log.stream_port import Delivery, Log, Message, Pump, match
from services._kit.runtime.interning import decoded

_KEPT: Final = 4096
"""Decoded events that are kept for parts that have not folded them yet; a later part decodes again."""


class SharedReading:
    """The readers of one process, by stream; `parties` is how many services read each."""

    def __init__(self, parties: Mapping[str, int]) -> None:
        self._readers = {stream: _Reader(count) for stream, count in parties.items()}

    def pump(self, log: Log, filters: Sequence[str], window: int, patience: BatchDelay | None) -> Pump:
        """A service's part of a stream: last messages first, then the tail."""
        return _Part(self._readers[log.name], log, filters, window, patience)

    def decode(self, message: Message, stream: str) -> Known:
        """The event of a message; raises DecodeError. Receivers must not change it."""
        return self._readers[stream].decode(message)

    async def close(self) -> None:
        """Stop reading."""
        await asyncio.gather(*(reader.close() for reader in self._readers.values()))


class _Reader:
    """Reads a stream for all parts."""

    def __init__(self, parties: int) -> None:
        self.parts: list[_Part] = []
        self.drained = asyncio.Event()
        self.pump: Pump | None = None
        self._parties = parties
        self._task: asyncio.Task[None] | None = None
        self._events: dict[int, Known] = {}

    def join(self, part: _Part) -> None:
        """Take in one of the parts; the last one makes the reader begin."""
        self.parts.append(part)
        if len(self.parts) == self._parties:
            self._task = child(self._run())

    def decode(self, message: Message) -> Known:
        """The event of a message."""
        event = self._events.get(message.seq)
        if event is None:
            event = decoded(message.subject, message.data)
            if len(self._events) >= _KEPT:
                self._events.clear()
            self._events[message.seq] = event
        return event

    def folded(self) -> None:
        """Record that a part folded what it got: when all have, the kept events are dropped."""
        if self._events and all(part.empty for part in self.parts):
            self._events.clear()

    async def close(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            await self._read()
        except Exception as error:  # noqa: BLE001 - whatever ends the reading, each part raises it where it is awaited
            for part in self.parts:
                part.fail(error)

    async def _read(self) -> None:
        filters = united(pattern for part in self.parts for pattern in part.filters)
        pump = self.pump = self.parts[0].log.pump(filters, window=max(part.window for part in self.parts))
        deliveries = pump.__aiter__()
        try:
            async for delivery in deliveries:
                replicated = self.parts[0].log.replicated
                for part in self.parts:
                    # Only the reader learns it; the other parts lead and append by it as well.
                    part.log.replicated = replicated
                    part.take(delivery)
                while any(part.full for part in self.parts):
                    self.drained.clear()
                    await self.drained.wait()
                # It may be long until the next one, and thousands of messages may be in it.
                del delivery
        finally:
            await pump.close()
            close = getattr(deliveries, "aclose", None)
            if close is not None:
                await close()


class _Part:
    """What one service gets of a stream; iterate over it once."""

    def __init__(
        self, reader: _Reader, log: Log, filters: Sequence[str], window: int, patience: BatchDelay | None
    ) -> None:
        self.log = log
        self.filters = tuple(filters)
        self.window = window
        self._reader = reader
        self._families = frozenset(pattern[:-2] for pattern in filters if _is_family(pattern))
        self._others: dict[str, tuple[str, ...]] = {}
        """Other patterns by their first word, which is never a wildcard."""
        for pattern in filters:
            if not _is_family(pattern):
                word = pattern.partition(".")[0]
                self._others[word] = (*self._others.get(word, ()), pattern)
        self._buffer: deque[Message] = deque()
        self._door = DeliveryGate(patience, window // 2)
        self._position = 0
        self._caught_up = False
        self._told_caught_up = False
        self._error: Exception | None = None
        self._closed = False

    @property
    def full(self) -> bool:
        """Whether more messages wait than the window allows."""
        return len(self._buffer) >= self.window

    @property
    def empty(self) -> bool:
        """Whether everything was handed over."""
        return not self._buffer

    def take(self, delivery: Delivery) -> None:
        """Keep what matches until it is asked for."""
        families, others = self._families, self._others
        for message in delivery.messages:
            subject = message.subject
            word = subject.partition(".")[0]
            if word in families or (word in others and any(match(pattern, subject) for pattern in others[word])):
                self._buffer.append(message)
                self._door.knock(subject, len(self._buffer))
        self._caught_up = delivery.caught_up
        if self._caught_up != self._told_caught_up:
            self._door.open()

    def fail(self, error: Exception) -> None:
        """The stream cannot be read any more."""
        self._error = error
        self._door.open()

    async def __aiter__(self) -> AsyncIterator[Delivery]:
        """Deliveries in log order; raises LogReplaced when the stream is another one."""
        self._reader.join(self)
        while not self._closed:
            if self._error is not None:
                raise self._error
            if self._told_caught_up == self._caught_up and not (self._buffer and self._door.is_open):
                if not self._buffer:
                    self._door.close()
                await self._door.wait()
                continue
            self._reader.drained.set()
            yield self._hand_over()
            self._reader.folded()

    def _hand_over(self) -> Delivery:
        messages = list(self._buffer)
        self._buffer.clear()
        self._door.close()
        if messages:
            self._position = messages[-1].seq
        self._told_caught_up = self._caught_up
        return Delivery(messages, self._caught_up, self._position)

    async def close(self) -> None:
        """Stop reading; the iteration ends."""
        self._closed = True
        self._door.open()

    @property
    def behind(self) -> int:
        """Messages that wait here, and those of the whole stream that were not received yet."""
        pump = self._reader.pump
        return len(self._buffer) + (pump.behind if pump is not None else 0)


def united(patterns: Iterable[str]) -> list[str]:
    """Patterns that match whatever any of these matches, and no two the same subject: a reader must not have such.

    Where two overlap and neither holds the other, all below their first word is read.
    """
    kept: list[str] = []
    for pattern in sorted(set(patterns)):
        clashing = [other for other in kept if _overlap(pattern, other)]
        if not clashing:
            kept.append(pattern)
        elif not any(_holds(other, pattern) for other in clashing):
            wide = pattern if all(_holds(pattern, other) for other in clashing) else f"{pattern.partition('.')[0]}.>"
            kept = [other for other in kept if not _overlap(wide, other)]
            kept.append(wide)
    return kept


def _overlap(one: str, other: str) -> bool:
    """Whether a subject exists that both match."""
    mine, theirs = one.split("."), other.split(".")
    for left, right in zip(mine, theirs, strict=False):
        if ">" in (left, right):
            return True
        if left != right and "*" not in (left, right):
            return False
    return len(mine) == len(theirs)


def _holds(wide: str, narrow: str) -> bool:
    """Whether a pattern matches whatever another matches."""
    mine, theirs = wide.split("."), narrow.split(".")
    for index, word in enumerate(mine):
        if word == ">":
            return index < len(theirs)
        if index >= len(theirs) or theirs[index] == ">" or word not in ("*", theirs[index]):
            return False
    return len(mine) == len(theirs)


def _is_family(pattern: str) -> bool:
    """Whether a pattern is one word with everything below it."""
    return pattern.endswith(".>") and "." not in pattern[:-2] and "*" not in pattern
