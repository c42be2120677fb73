"""Turns decided events into atomic batches, and every answer of the log into what it means for each key.

Events of many keys share a batch. When the log refuses one, it is halved until the guilty key is alone: that key is set
aside with the reason on stream PARKED, the others go through. When no answer came, the last event of the subject tells
by its id whether the batch was stored; if not, the same batch is sent again. Only the loss of the fence is raised: then
another instance leads.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, Generic, TypeVar

from msgspec import Struct, field

from schemas.codec import encode, subject_of
from schemas.envelope import HEADER_EVENT_ID, HEADER_PRODUCER, event_id
from schemas.events.parked import KeyParked
from services._kit import fault_points
from services._kit.clock import Clock, SystemClock
from services._kit.errors import Ambiguous, Conflict, Duplicate, FenceLost, LogError, Refused, StreamFull, Unavailable
from services._kit.guard import Guard
from services._kit.log import MAX_BATCH, MAX_BATCH_BYTES, Appended, Fence, Log, NewMessage
from services._kit.outbox import KeyedEvents, Piece, pack, split

K = TypeVar("K", bound=Hashable)

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0


class Outcome(Struct, Generic[K]):
    """What became of the keys: last positions per stream of those stored, and the reason of those refused."""

    stored: dict[K, dict[str, int]] = field(default_factory=dict)
    parked: dict[K, Refused] = field(default_factory=dict)


class AppendStats(Struct):
    """Counters for metrics and tests."""

    batches: int = 0
    events: int = 0
    halved: int = 0
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
        """Who the events' headers say wrote them."""
        self._fence = fence
        self._last_seq_of = last_seq_of
        self._clock = clock or SystemClock()
        self._observe = observe
        self._guard = guard

    async def append(self, groups: Sequence[KeyedEvents[K]]) -> Outcome[K]:
        """Store the events of many keys; returns once each is stored or parked.

        Waits as long as the log is unreachable or full. Raises FenceLost when another instance took over: what was not
        stored until then is the new leader's to decide.
        """
        outcome: Outcome[K] = Outcome()
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

    async def _store(self, stream: str, pieces: Sequence[Piece[K]], outcome: Outcome[K]) -> None:
        """Store pieces as one batch; on a refusal store each half on its own."""
        pieces = [piece for piece in pieces if piece.key not in outcome.parked]
        if not pieces:
            return
        messages = [message for piece in pieces for message in piece.messages]
        try:
            appended = await self._send(stream, messages)
        except FenceLost:
            raise
        except Refused as error:
            if len(pieces) > 1:
                self.stats.halved += 1
                half = len(pieces) // 2
                await self._store(stream, pieces[:half], outcome)
                await self._store(stream, pieces[half:], outcome)
                return
            outcome.parked[pieces[0].key] = error
            outcome.stored.pop(pieces[0].key, None)
            await self.park(pieces[0].key, str(error), pieces[0].position, messages[0].subject)
            return
        seq = appended.first - 1
        for piece in pieces:
            seq += len(piece.messages)
            outcome.stored.setdefault(piece.key, {})[stream] = seq

    async def _send(self, stream: str, messages: Sequence[NewMessage]) -> Appended:
        """Store one batch, however often the log has to be asked; raises what is final."""
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
                        return self._done(messages, stored, began)
                if fence is None and self._guard is not None and not self._guard.holds:
                    # No fence of the log stops what a leader that was replaced says beside FACTS.
                    await self._guard.wait()
                fault_points.reach("before_append")
                appended = await log.append(messages, fence)
                fault_points.reach("after_append")
                return self._done(messages, appended, began)
            except Duplicate:
                unsure = True
                self.trouble = ""
            except Conflict:
                # A first attempt without an answer may be what this one conflicts with.
                stored = await self._find(log, messages) if unsure else None
                if stored is not None:
                    return self._done(messages, stored, began)
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

    def _done(self, messages: Sequence[NewMessage], appended: Appended, began: float) -> Appended:
        self.trouble = ""
        self.stats.batches += 1
        self.stats.events += len(messages)
        if self._observe is not None:
            self._observe(len(messages), self._clock.monotonic() - began)
        return appended

    def _current_fence(self, stream: str) -> Fence | None:
        if self._fence is None or stream != "FACTS":
            return None
        fence = self._fence()
        if fence is None:
            raise FenceLost(0, f"{self._service} does not lead any more")
        return fence

    async def _find(self, log: Log, messages: Sequence[NewMessage]) -> Appended | None:
        """Where a batch of unknown fate is stored, None when it is not; its last message decides."""
        last = await log.last(messages[-1].subject)
        if last is None or last.headers.get(HEADER_EVENT_ID) != messages[-1].headers[HEADER_EVENT_ID]:
            return None
        return Appended(last.seq - len(messages) + 1, last.seq)


__all__ = ["MAX_BATCH", "MAX_BATCH_BYTES", "Appender", "KeyedEvents", "Outcome"]
