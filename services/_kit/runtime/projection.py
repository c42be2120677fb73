"""Folds deliveries into a service's state and remembers which keys became dirty, and why.

Usable alone: feed it deliveries, ask for `state`, `position` and `wait_for`. It never decides and never writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Generic

from msgspec import Struct

from schemas.codec import DecodeError, Known
from schemas.envelope import HEADER_CORRELATION, HEADER_TRACEPARENT
from schemas.shard_groups import WHOLE, ShardGroup
from schemas.subjects import UNPARKED
from schemas.topology import FACTS, OBSERVED
from services._kit.log.stream_port import Delivery, Message
from services._kit.runtime.interning import decoded
from services._kit.runtime.service import BaseService, K, S

MAX_CAUSES = 3
_OF_THE_RUNTIME = ("lease.", "restore.", UNPARKED)


class Cause(Struct):
    """Why a key is dirty: one to three positions, and the trace of the first.

    Positions in stream OBSERVED are negative, which keeps the order within each stream and separates the two.
    """

    seqs: tuple[int, ...] = ()
    correlation: str = ""
    traceparent: str = ""
    since: float = 0.0
    attempts: int = 0

    @property
    def facts(self) -> tuple[int, ...]:
        """Positions in FACTS."""
        return tuple(seq for seq in self.seqs if seq > 0)

    @property
    def observed(self) -> tuple[int, ...]:
        """Positions in OBSERVED."""
        return tuple(-seq for seq in self.seqs if seq < 0)

    def add(self, seq: int) -> None:
        """Remember one more cause; the first and the two latest are kept, each once."""
        if seq in self.seqs:
            return
        if len(self.seqs) < MAX_CAUSES:
            self.seqs = (*self.seqs, seq)
        else:
            self.seqs = (self.seqs[0], self.seqs[-1], seq)


class PriorityKeys(dict[K, Cause], Generic[K]):
    """The causes of dirty keys; going through it yields the smallest rank first, and among equals the oldest key.

    The rank of a key is asked for when it becomes dirty; a later one counts only once the key was taken out.
    """

    def __init__(self, rank: Callable[[K], float]) -> None:
        super().__init__()
        self._rank = rank
        self._heap: list[tuple[float, int, K]] = []
        self._numbers = count()
        self._entries: dict[K, int] = {}

    def __setitem__(self, key: K, cause: Cause) -> None:
        """Remember why a key is dirty, and its place among the others."""
        if key not in self:
            number = self._entries[key] = next(self._numbers)
            heappush(self._heap, (self._rank(key), number, key))
        super().__setitem__(key, cause)

    def __delitem__(self, key: K) -> None:
        """The key is not dirty any more."""
        super().__delitem__(key)
        self._drop(key)

    def pop(self, key: K, *default: Any) -> Any:
        """The cause of a key that is not dirty any more."""
        cause = super().pop(key, *default)
        self._drop(key)
        return cause

    def clear(self) -> None:
        """No key is dirty."""
        super().clear()
        self._heap.clear()
        self._entries.clear()

    def __iter__(self) -> Iterator[K]:
        """Keys by rank; a caller that stops early pays only for the keys it read."""
        seen: list[tuple[float, int, K]] = []
        heap, entries = self._heap, self._entries
        try:
            while heap:
                entry = heappop(heap)
                if entries.get(entry[2]) == entry[1]:
                    seen.append(entry)
                    yield entry[2]
        finally:
            for entry in seen:
                heappush(heap, entry)

    def _drop(self, key: K) -> None:
        self._entries.pop(key, None)
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._entries):
            # Rebuilt in place: an iteration may be under way.
            self._heap[:] = [entry for entry in self._heap if self._entries.get(entry[2]) == entry[1]]
            heapify(self._heap)


class ProjectionStats(Struct):
    """Counters for metrics: messages folded, unreadable ones, events whose predecessor was never seen."""

    folded: int = 0
    unknown: int = 0
    malformed: int = 0
    failed: int = 0
    gaps: int = 0


class Projection(Generic[S, K]):
    """The state of one service, its position in every stream it reads, and its dirty keys: those of its shard group."""

    def __init__(
        self,
        service: BaseService[S, K],
        streams: Iterable[str] = (FACTS.name,),
        on_problem: Callable[[Message, Exception], None] | None = None,
        decode: Callable[[Message, str], Known] | None = None,
        group: ShardGroup = WHOLE,
    ) -> None:
        self.service = service
        self._group = group
        self._decode = decode or _decode
        self.state = service.new_state()
        self.position: dict[str, int] = dict.fromkeys(streams, 0)
        self.caught_up: dict[str, bool] = dict.fromkeys(self.position, False)
        self.dirty: dict[K, Cause] = {}
        self.marking = True
        self.blocked: dict[K, set[str]] = {}
        self.stats = ProjectionStats()
        self.on_marked: Callable[[], None] | None = None
        self._unread: dict[str, frozenset[K]] = {}
        self._on_problem = on_problem
        # These concern the runtime, which reads them beside what the service asked for.
        asked = {pattern.partition(".")[0] for pattern in service.filters}
        self._skipped = tuple(family for family in _OF_THE_RUNTIME if family[:-1] not in asked)
        self._waiters: list[tuple[int, int, str, asyncio.Future[None]]] = []
        self._numbers = count()

    @property
    def ready(self) -> bool:
        """Whether every stream was read to its end."""
        return all(self.caught_up.values())

    def feed(self, delivery: Delivery, stream: str = FACTS.name) -> None:
        """Fold a delivery and mark what it touches; one broken event never stops the rest."""
        state, fold = self.state, self.service.fold
        sign = -1 if stream == OBSERVED.name else 1
        marked = False
        for message in delivery.messages:
            if message.subject.startswith(self._skipped):
                continue
            try:
                event = self._decode(message, stream)
                if self._unread:
                    self._readable(message.subject)
                known = state.last_seq(message.subject)
                if known and event.prev > 0 and event.prev > known:
                    self.stats.gaps += 1
                keys = fold(state, message, event)
                if self.marking:
                    for key in keys:
                        if self._ours(key):
                            self._mark(key, message, sign * message.seq)
                            marked = True
                elif keys is not None:
                    # A fold may be a generator: it works only while it is consumed.
                    for _ in keys:
                        pass
                self.stats.folded += 1
            except DecodeError as error:
                self._unreadable(message, error)
            except Exception as error:  # noqa: BLE001 - a bug in a fold concerns one message, not the service
                self.stats.failed += 1
                self._problem(message, error)
        self.caught_up[stream] = delivery.caught_up
        self.position[stream] = max(self.position[stream], delivery.position)
        self._wake()
        if marked and self.on_marked is not None:
            self.on_marked()

    def mark(self, keys: Iterable[K], cause: Cause | None = None, since: float = 0.0) -> None:
        """Mark keys dirty for a reason outside the log that came up at `since` (0: time not known)."""
        if not self.marking:
            return
        marked = False
        for key in keys:
            if not self._ours(key):
                continue
            marked = True
            if key not in self.dirty:
                self.dirty[key] = Cause(since=since) if cause is None else cause
        if marked and self.on_marked is not None:
            self.on_marked()

    async def wait_for(self, seq: int, stream: str = FACTS.name) -> None:
        """Return once a position was folded; callers bound it with `asyncio.timeout`."""
        if self.position[stream] >= seq:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiters, (seq, next(self._numbers), stream, future))
        await future

    def _wake(self) -> None:
        if not self._waiters:
            return
        later: list[tuple[int, int, str, asyncio.Future[None]]] = []
        top = max(self.position.values())
        while self._waiters and self._waiters[0][0] <= top:
            item = heappop(self._waiters)
            if item[0] > self.position[item[2]]:
                later.append(item)
            elif not item[3].done():
                item[3].set_result(None)
        for item in later:
            heappush(self._waiters, item)

    def _mark(self, key: K, message: Message, seq: int) -> None:
        cause = self.dirty.get(key)
        if cause is None:
            headers = message.headers
            self.dirty[key] = Cause(
                (seq,),
                headers.get(HEADER_CORRELATION, ""),
                headers.get(HEADER_TRACEPARENT, ""),
                message.time,
            )
        else:
            cause.add(seq)

    def _ours(self, key: K) -> bool:
        return self._group.count == 1 or self._group.owns(self.service.unit_of(key))

    def _readable(self, subject: str) -> None:
        for key in self._unread.pop(subject, ()):
            subjects = self.blocked[key]
            subjects.discard(subject)
            if not subjects:
                del self.blocked[key]

    def _unreadable(self, message: Message, error: DecodeError) -> None:
        if error.unknown_tag:
            self.stats.unknown += 1
        else:
            self.stats.malformed += 1
        self._readable(message.subject)
        keys = frozenset(self.service.unreadable(self.state, message))
        self._unread[message.subject] = keys
        for key in keys:
            self.blocked.setdefault(key, set()).add(message.subject)
        self._problem(message, error)

    def _problem(self, message: Message, error: Exception) -> None:
        if self._on_problem is not None:
            self._on_problem(message, error)


def _decode(message: Message, _: str) -> Known:
    return decoded(message.subject, message.data)
