"""Puts requests that were carried into members on record: so many in a moment, a few at a time, beside the requests.

A record may be lost (a crash, a log that is full, too many at once): requests never wait for theirs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

import structlog
from msgspec.structs import replace

from schemas.codec import encode, subject_of
from schemas.events.request import MemberRequested
from services._kit.base.clock import Clock
from services._kit.base.log_errors import LogError
from services._kit.base.pacing import Bucket
from services._kit.concurrency.supervision import spawn
from services._kit.log.stream_port import Log, NewMessage

log = structlog.get_logger("requests")

PER_SECOND: Final = 50.0
BURST: Final = 500.0
MOST_WAITING: Final = 1000
_AT_ONCE: Final = 64
_CLOSING: Final = 2.0


class RequestLimit:
    """Which records are kept: so many in a moment, with the number of those between that are not."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._bucket = Bucket(PER_SECOND, BURST)
        self._missed = 0

    def kept(self, event: MemberRequested) -> MemberRequested | None:
        """The record with what was missed before it, None when it is one too many."""
        now = self._clock.monotonic()
        if self._bucket.take(0, now):
            self.missed(1 + event.missed)
            return None
        self._bucket.take(1, now)
        missed, self._missed = self._missed, 0
        return replace(event, missed=event.missed + missed) if missed else event

    def missed(self, count: int) -> None:
        """So many records are lost."""
        self._missed += count


class RequestJournal:
    """Appends records to stream REQUESTS; `written` and `lost` count them."""

    def __init__(self, stream: Log, clock: Clock) -> None:
        self.written = 0
        self.lost = 0
        self._stream = stream
        self._limit = RequestLimit(clock)
        self._waiting: deque[MemberRequested] = deque()
        self._task: asyncio.Task[None] | None = None

    def take(self, event: MemberRequested) -> None:
        """Take a record; returns at once."""
        kept = self._limit.kept(event)
        if kept is None or len(self._waiting) >= MOST_WAITING:
            self.lost += 1
            if kept is not None:
                self._limit.missed(1 + kept.missed)
            return
        self._waiting.append(kept)
        if self._task is None or self._task.done():
            self._task = spawn("request-journal", self._write())

    async def close(self) -> None:
        """Give what waits two seconds, then let go of it."""
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task], timeout=_CLOSING)
            self._task.cancel()

    async def _write(self) -> None:
        while self._waiting:
            taken = [self._waiting.popleft() for _ in range(min(_AT_ONCE, len(self._waiting)))]
            messages = [NewMessage(subject_of(event), encode(event), {}) for event in taken]
            try:
                results = await self._stream.append_each(messages)
            except LogError as error:
                results = [error] * len(messages)
            failed = [result for result in results if isinstance(result, LogError)]
            self.written += len(results) - len(failed)
            if failed:
                self.lost += len(failed)
                self._limit.missed(len(failed))
                log.warning("requests_not_recorded", count=len(failed), error=str(failed[0]))
