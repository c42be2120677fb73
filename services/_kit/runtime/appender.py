"""Appends decided events in atomic batches, and translates every answer of the log into a result per key.

Events of many keys share a batch. When the log refuses one, it is halved until the guilty key is alone: that key is set
aside with the reason on stream PARKED, the others go through. When no answer came, the last event of the subject shows
by its id whether the batch was stored; if not, the same batch is sent again. Only the loss of the fence is raised: then
another instance leads.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, Generic, TypeGuard, TypeVar

from msgspec import Struct, field

from schemas.codec import encode, subject_of
from schemas.envelope import HEADER_EVENT_ID, HEADER_PRODUCER, event_id
from schemas.events.parked import KeyParked
from services._kit.base import fault_points
from services._kit.base.clock import Clock, SystemClock
from services._kit.base.log_errors import (
    Ambiguous,
    Conflict,
    Duplicate,
    FenceLost,
    LogError,
    Refused,
    StreamFull,
    Unavailable,
)
from services._kit.leadership.write_guard import Guard
from services._kit.log.stream_port import MAX_BATCH, MAX_BATCH_BYTES, Appended, Fence, Log, Message, NewMessage
from services._kit.runtime.outbox import KeyedEvents, Piece, pack, split, stand_alone

K = TypeVar("K", bound=Hashable)

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0
APART_BYTES: Final = 256 << 10
"""More than this goes out as a batch: of messages that large one may be refused where another is stored."""


class AppendOutcome(Struct, Generic[K]):
    """What became of the keys: last positions per stream of those stored, and the reason of those refused."""

    stored: dict[K, dict[str, int]] = field(default_factory=dict)
    parked: dict[K, Refused] = field(default_factory=dict)
    scattered: dict[tuple[K, str], list[int]] = field(default_factory=dict)
    """Positions of every event of a key on a stream, where others' events may lie between them."""

    def position(self, key: K, stream: str, behind: int) -> int:
        """Where the event lies that so many of the same key and stream follow."""
        places = self.scattered.get((key, stream))
        return self.stored[key][stream] - behind if places is None else places[-1 - behind]


class AppendStats(Struct):
    """Counters for metrics and tests."""

    batches: int = 0
    events: int = 0
    parked: int = 0
    unrecorded: int = 0
    ambiguous: int = 0
    retries: int = 0


class Appender(Generic[K]):
    """Writes events of one service; `fence` gives the condition of every batch on FACTS (None: not the leader)."""

    def __init__(
        self,
        logs: Mapping[str, Log],
        service: str,
        fence: Callable[[], Fence | None] | None = None,
        *,
        instance: str = "",
        last_seq_of: Callable[[str], int] | None = None,
        clock: Clock | None = None,
        observe: Callable[[int, float], None] | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.stats = AppendStats()
        self.trouble = ""
        """Why appends are not getting through right now; empty when they are."""
        self._logs = logs
        self._service = service
        self.producer = f"{service}/{instance}" if instance else service
        """The producer in the headers of the events."""
        self._fence = fence
        self._last_seq_of = last_seq_of
        self._clock = clock or SystemClock()
        self._observe = observe
        self._guard = guard

    async def append(self, groups: Sequence[KeyedEvents[K]]) -> AppendOutcome[K]:
        """Store the events of many keys; returns once each is stored or parked.

        Waits as long as the log is unreachable or full. Raises FenceLost when another instance took over: what was not
        stored until then is the new leader's to decide.
        """
        outcome: AppendOutcome[K] = AppendOutcome()
        by_stream: dict[str, list[Piece[K]]] = {}
        for group in groups:
            for stream, pieces in split(group, self.producer, self._last_seq_of).items():
                by_stream.setdefault(stream, []).extend(pieces)
        for stream, pieces in by_stream.items():
            for batch in pack(pieces):
                await self._store(stream, batch, outcome)
        return outcome

    async def park(self, key: K, reason: str, position: int = 0, subject: str = "") -> None:
        """Record on stream PARKED that a key is set aside; best effort, because it changes nothing but the record."""
        self.stats.parked += 1
        log = self._logs.get("PARKED")
        if log is None:
            return
        event = KeyParked(
            service=self._service,
            key=str(key),
            reason=reason,
            position=position,
            subject=subject,
            at=self._clock.now(),
        )
        name = event_id(f"{self._service}/{reason}/{position}", 0, f"{subject}/{key}")
        headers = {HEADER_EVENT_ID: name, HEADER_PRODUCER: self.producer}
        try:
            await log.append([NewMessage(subject_of(event), encode(event), headers)])
        except LogError:
            self.stats.unrecorded += 1

    async def _store(self, stream: str, pieces: Sequence[Piece[K]], outcome: AppendOutcome[K]) -> None:
        """Store pieces as one batch; on a refusal store each half on its own."""
        pieces = [piece for piece in pieces if piece.key not in outcome.parked]
        if not pieces:
            return
        messages = [message for piece in pieces for message in piece.messages]
        if self._cheaper_apart(stream, pieces, outcome):
            await self._store_each(stream, pieces, messages, outcome)
            return
        try:
            appended = await self._send(stream, messages)
        except FenceLost:
            raise
        except Refused as error:
            if len(pieces) > 1:
                half = len(pieces) // 2
                await self._store(stream, pieces[:half], outcome)
                await self._store(stream, pieces[half:], outcome)
                return
            await self._set_aside(pieces[0], messages[0], error, outcome)
            return
        seq = appended.first - 1
        for piece in pieces:
            seq += len(piece.messages)
            outcome.stored.setdefault(piece.key, {})[stream] = seq

    def _cheaper_apart(self, stream: str, pieces: Sequence[Piece[K]], outcome: AppendOutcome[K]) -> bool:
        return (
            1 < sum(len(piece.messages) for piece in pieces) <= self._logs[stream].apart
            and sum(piece.size for piece in pieces) <= APART_BYTES
            and stand_alone(pieces)
            # The rest of a key that was too large for one batch.
            and not any(stream in outcome.stored.get(piece.key, ()) for piece in pieces)
        )

    async def _store_each(
        self, stream: str, pieces: Sequence[Piece[K]], messages: Sequence[NewMessage], outcome: AppendOutcome[K]
    ) -> None:
        """Store few messages one by one, all on their way at once; what got no answer of its own is sent again."""
        fence = self._current_fence(stream)
        began = self._clock.monotonic()
        await self._may_append(fence)
        fault_points.reach("before_append")
        results = await self._logs[stream].append_each(messages, fence)
        fault_points.reach("after_append")
        stored = sum(isinstance(result, Appended) for result in results)
        if stored:
            self._done(stored, began)
        answers = iter(results)
        for piece in pieces:
            places = outcome.scattered.setdefault((piece.key, stream), [])
            for message in piece.messages:
                try:
                    places.append(await self._stored(stream, message, next(answers)))
                except FenceLost:
                    raise
                except Refused as error:
                    if piece.key not in outcome.parked:
                        await self._set_aside(piece, message, error, outcome)
            if piece.key not in outcome.parked:
                outcome.stored.setdefault(piece.key, {})[stream] = max(places)

    async def _stored(self, stream: str, message: NewMessage, result: Appended | LogError) -> int:
        """Where a message is stored that was sent; sent again as often as needed."""
        if isinstance(result, LogError):
            result = await self._send(stream, [message], result)
        return result.last

    async def _set_aside(self, piece: Piece[K], message: NewMessage, error: Refused, outcome: AppendOutcome[K]) -> None:
        outcome.parked[piece.key] = error
        outcome.stored.pop(piece.key, None)
        await self.park(piece.key, str(error), piece.position, message.subject)

    async def _send(self, stream: str, messages: Sequence[NewMessage], before: LogError | None = None) -> Appended:
        """Store one batch, however often the log has to be asked; raises what is final.

        `before` is what an attempt already came to.
        """
        log = self._logs[stream]
        pause = FIRST_PAUSE
        unsure = False
        while True:
            fence = self._current_fence(stream)
            began = self._clock.monotonic()
            try:
                if unsure:
                    stored = await self._find(log, messages)
                    if stored is not None:
                        self._done(len(messages), began)
                        return stored
                if before is not None:
                    earlier, before = before, None
                    raise earlier
                await self._may_append(fence)
                fault_points.reach("before_append")
                appended = await log.append(messages, fence)
                fault_points.reach("after_append")
                self._done(len(messages), began)
                return appended
            except Duplicate:
                unsure = True
                self.trouble = ""
            except Conflict:
                # A first attempt without an answer may be what this one conflicts with.
                stored = await self._find(log, messages) if unsure else None
                if stored is not None:
                    self._done(len(messages), began)
                    return stored
                raise
            except Ambiguous as error:
                self.stats.ambiguous += 1
                unsure = True
                self.trouble = str(error)
            except (Unavailable, StreamFull) as error:
                self.trouble = str(error)
            self.stats.retries += 1
            # Jitter: instances that lost the same server must not return at the same moment.
            await asyncio.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _may_append(self, fence: Fence | None) -> None:
        if fence is None and self._guard is not None and not self._guard.holds:
            # No fence of the log stops a replaced leader from writing beside FACTS.
            await self._guard.wait()

    def _done(self, messages: int, began: float) -> None:
        self.trouble = ""
        self.stats.batches += 1
        self.stats.events += messages
        if self._observe is not None:
            self._observe(messages, self._clock.monotonic() - began)

    def _current_fence(self, stream: str) -> Fence | None:
        if self._fence is None or stream != "FACTS":
            return None
        fence = self._fence()
        if fence is None:
            raise FenceLost(0, f"{self._service} does not lead any more")
        return fence

    async def _find(self, log: Log, messages: Sequence[NewMessage]) -> Appended | None:
        """Where a batch of unknown fate is stored, None when it is not; its last and its first message decide.

        The last one alone may have been stored by an earlier batch: the same decision taken twice has the same id.
        """
        last = await log.last(messages[-1].subject)
        if not _is(last, messages[-1]):
            return None
        first = last.seq - len(messages) + 1
        if len(messages) > 1 and (first < 1 or not _is(await log.get(first), messages[0])):
            return None
        return Appended(first, last.seq)


def _is(found: Message | None, message: NewMessage) -> TypeGuard[Message]:
    return found is not None and found.headers.get(HEADER_EVENT_ID) == message.headers[HEADER_EVENT_ID]


__all__ = ["MAX_BATCH", "MAX_BATCH_BYTES", "AppendOutcome", "Appender", "KeyedEvents"]
