"""The decision loop of one term: decides dirty keys, appends, and keeps keys in flight until their events come back.

What makes a key dirty while it is in flight makes it decided again afterwards. A key that fails is tried again later
and parked in the end; the others go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Final, Generic

from msgspec import Struct

from schemas.codec import subject_of
from schemas.topology import FACTS
from services._kit.base.clock import Clock
from services._kit.base.log_errors import FenceLost
from services._kit.base.metrics import KitMetrics
from services._kit.concurrency.tasks import child
from services._kit.log.stream_port import match
from services._kit.runtime.appender import Appender, AppendOutcome
from services._kit.runtime.failure_tracker import FailureTracker
from services._kit.runtime.outbox import KeyedEvents, stream_of
from services._kit.runtime.projection import Cause, Projection
from services._kit.runtime.restore_progress import Restoration
from services._kit.runtime.service import Decider, K, S
from services._kit.runtime.timers import Timers
from services._rules.decision import Decision

IDLE: Final = 1.0  # seconds between two checks of the clock when no deadline is near
SOONEST: Final = 0.05  # seconds until a key is decided again whose decision named a time that has passed
SET_BACK: Final = 1.0  # a wall clock that goes back by more seconds than that was set
ON_PURPOSE: Final = 1.0  # a decision put off for longer waits because of a rule, not because we are slow


class LoopOptions(Struct, frozen=True, kw_only=True):
    """How much at once and how patiently; times in seconds."""

    batch_keys: int = 200
    appends: int = 2
    """Batches under way at the same time: the next is decided while the log stores the one before."""
    slice: float = 0.03
    """Longest stretch of deciding before what was decided is sent off."""
    attempts: int = 5
    """Failures of one key in a row before it is parked."""
    backoff: float = 0.1
    longest_backoff: float = 30.0
    brake_ratio: float = 0.5
    brake_sample: int = 40
    """The brake evaluates at least that many latest outcomes."""
    brake_pause: float = 30.0
    window: int = 1024
    """Messages that wait for a slow fold, per stream."""
    heartbeat: float = 0.3
    takeover_after: float = 2.0


class DecideStats(Struct):
    """Counters for metrics and tests."""

    decisions: int = 0
    failures: int = 0
    parked: int = 0


class DecisionLoop(Generic[S, K]):
    """The loop of a leader; `run` ends when it is cancelled or the fence is lost."""

    def __init__(
        self,
        service: Decider[S, K],
        projection: Projection[S, K],
        appender: Appender[K],
        *,
        options: LoopOptions,
        clock: Clock,
        stats: DecideStats,
        on_problem: Callable[[str, K, str], None],
        metrics: KitMetrics,
        restoration: Restoration,
    ) -> None:
        self.in_flight: set[K] = set()
        self.braked = False
        self.troubles: FailureTracker[K] = FailureTracker(options)
        self.timers: Timers[K] = Timers()
        self._service = service
        self._projection = projection
        self._appender = appender
        self._options = options
        self._clock = clock
        self._stats = stats
        self._on_problem = on_problem
        self._metrics = metrics
        self._restoration = restoration
        self._deferred: dict[K, Cause] = {}
        """Why keys are waiting: for a deadline that a decision set, or for what its effects fetch."""
        self._acting: dict[K, Cause] = {}
        """Why keys are in flight of which there are only effects."""
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._forgive_at = 0.0
        """When the brake is released, in monotonic seconds."""
        self._wall = 0.0

    def wake(self) -> None:
        """Look again for something to do."""
        self._wake.set()

    async def run(self) -> None:
        """Decide and append until cancelled; raises FenceLost when another instance took over."""
        try:
            while True:
                if self._failure is not None:
                    raise self._failure
                self._ring()
                free = len(self._tasks) < self._options.appends
                held = not self._restoration.may_decide
                keys = self._take() if free and not self.braked and not held else []
                if not keys:
                    if not (held or self.in_flight or self._projection.dirty):
                        await self._restoration.idle(self._unsettled)
                    await self._pause()
                    continue
                groups, effects = self._decide(keys)
                if groups or effects:
                    task = child(self._finish(groups, effects))
                    self._tasks.add(task)
                    task.add_done_callback(self._ended)
                # Folding, heartbeats and answers get their turn between two slices.
                await asyncio.sleep(0)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _unsettled(self) -> str:
        """What is left before everything is decided, in words; asked when no key is dirty."""
        if self.troubles.parked or self.troubles.next() is not None:
            return f"keys that cannot be decided: {_some(self.troubles.parked) or 'they are tried again'}"
        if self._projection.blocked:
            return f"keys that only a newer version reads: {_some(self._projection.blocked)}"
        return self._service.unsettled(self._projection.state, self._clock.now())

    async def _pause(self) -> None:
        """Wait for news or the next deadline."""
        nearest = IDLE
        at = self.timers.next()
        if at is not None:
            nearest = min(nearest, max(0.0, at - self._clock.now()))
        now = self._clock.monotonic()
        for pause_ends in (self.troubles.next(), self._forgive_at if self.braked else None):
            if pause_ends is not None:
                nearest = min(nearest, max(0.0, pause_ends - now))
        if not self._wake.is_set():
            handle = asyncio.get_running_loop().call_later(nearest, self._wake.set)
            await self._wake.wait()
            handle.cancel()
        self._wake.clear()

    def _ring(self) -> None:
        """Deadlines that passed make their keys dirty; backoff and brake last as long on any wall clock."""
        wall = self._clock.now()
        # Deadlines are wall time. After the clock was set back, those computed before may be far away: the keys are
        # decided again, and name their deadlines by the clock of now.
        waiting = self.timers.keys() if wall < self._wall - SET_BACK else self.timers.due(wall)
        self._wall = wall
        for key in waiting:
            self._projection.mark((key,), self._deferred.get(key))
        now = self._clock.monotonic()
        self._projection.mark(self.troubles.due(now))
        if self.braked and now >= self._forgive_at:
            self.braked = False
            self._projection.mark(self.troubles.forgive())
        elif not self.braked and self.troubles.too_many:
            self.braked = True
            self._forgive_at = now + self._options.brake_pause

    def _take(self) -> list[K]:
        """Dirty keys that may be decided now, oldest first unless the service ranks them."""
        projection = self._projection
        keys: list[K] = []
        blocked: list[K] = []
        for key in projection.dirty:
            if key in self.in_flight or self.troubles.waits(key):
                continue
            if key in projection.blocked:
                # A readable successor of what blocks it will mark it again.
                blocked.append(key)
                continue
            keys.append(key)
            if len(keys) == self._options.batch_keys:
                break
        for key in blocked:
            del projection.dirty[key]
        return keys

    def _decide(self, keys: Sequence[K]) -> tuple[list[KeyedEvents[K]], list[tuple[K, Sequence[object]]]]:
        """Decide keys for one slice of time; the rest stays dirty."""
        projection, decide, state = self._projection, self._service.decide, self._projection.state
        as_of = projection.position.get(FACTS.name, 0)
        groups: list[KeyedEvents[K]] = []
        effects: list[tuple[K, Sequence[object]]] = []
        now = self._clock.now()
        began = before = self._clock.monotonic()
        for key in keys:
            cause = self._cause_of(key, projection.dirty.pop(key))
            self._stats.decisions += 1
            try:
                decision = decide(state, key, now)
            except Exception as error:  # noqa: BLE001 - a bug concerns one key, not the service
                self._failed(key, f"{type(error).__name__}: {error}", cause, now)
                decision = None
            after = self._clock.monotonic()
            self._metrics.decided(after - before)
            before = after
            if decision is not None:
                self._accept(key, cause, decision, as_of, now, groups, effects)
            if after - began > self._options.slice:
                break
        return groups, effects

    def _cause_of(self, key: K, cause: Cause) -> Cause:
        """The cause of a decision, with that of an earlier one which put it off."""
        earlier = self._deferred.pop(key, None)
        if earlier is None or earlier is cause:
            return cause
        for seq in cause.seqs:
            earlier.add(seq)
        earlier.since = earlier.since or cause.since
        return earlier

    def _accept(
        self,
        key: K,
        cause: Cause,
        decision: Decision,
        as_of: int,
        now: float,
        groups: list[KeyedEvents[K]],
        effects: list[tuple[K, Sequence[object]]],
    ) -> None:
        # A decision that is due at once would be taken without end, and nothing else beside it.
        past = decision.wake_at is not None and decision.wake_at <= now
        self.timers.set(key, now + SOONEST if past else decision.wake_at)
        if decision.also:
            self._projection.mark(decision.also)
        if decision.wake_at is not None and not decision.events:
            self._deferred[key] = cause
            if decision.wake_at - now > ON_PURPOSE:
                cause.since = 0.0
        if not decision.events and not decision.effects:
            self.troubles.succeeded(key)
            return
        self.in_flight.add(key)
        if decision.events:
            groups.append(
                KeyedEvents(
                    key,
                    decision.events,
                    cause.facts,
                    cause.correlation,
                    cause.traceparent,
                    as_of,
                    now,
                    cause.observed,
                    cause.since,
                    decision.together,
                )
            )
        else:
            self._acting[key] = cause
        if decision.effects:
            effects.append((key, decision.effects))

    async def _finish(self, groups: Sequence[KeyedEvents[K]], effects: Sequence[tuple[K, Sequence[object]]]) -> None:
        """Append what was decided, wait until it came back, carry out effects, and let the keys go."""
        try:
            outcome = await self._append(groups)
            self._tell(groups, outcome)
            for key, error in outcome.parked.items():
                self._parked(key, str(error))
            await self._perform([(key, items) for key, items in effects if key not in outcome.parked])
            self._keep_causes(effects)
            for stream, seq in self._to_await(groups, outcome).items():
                await self._projection.wait_for(seq, stream)
            for key in outcome.stored:
                self.troubles.succeeded(key)
            for key in {key for key, _ in effects} - {group.key for group in groups}:
                self.troubles.succeeded(key)
        finally:
            for group in groups:
                self.in_flight.discard(group.key)
            for key, _ in effects:
                self.in_flight.discard(key)
            self._wake.set()

    def _tell(self, groups: Sequence[KeyedEvents[K]], outcome: AppendOutcome[K]) -> None:
        """Count what was stored or refused, and how long after its cause."""
        now = self._clock.now()
        for group in groups:
            if group.key in outcome.stored:
                self._metrics.stored(group.events, _lasted(group.since, now))
            elif group.key in outcome.parked:
                self._metrics.failed(_lasted(group.since, now))

    def _keep_causes(self, effects: Sequence[tuple[K, Sequence[object]]]) -> None:
        """A key that its own effects marked (what it lacked is here now) is decided for the reason it had before."""
        for key, _ in effects:
            cause = self._acting.pop(key, None)
            if cause is not None and key in self._projection.dirty:
                self._deferred.setdefault(key, cause)

    async def _append(self, groups: Sequence[KeyedEvents[K]]) -> AppendOutcome[K]:
        """Append; when a group cannot even be encoded, each is appended alone and the guilty one fails."""
        if not groups:
            return AppendOutcome()
        try:
            return await self._appender.append(groups)
        except FenceLost:
            raise
        except (TypeError, ValueError, OverflowError) as error:
            if len(groups) == 1:
                cause = Cause(groups[0].causes)
                self._failed(groups[0].key, f"{type(error).__name__}: {error}", cause, self._clock.now())
                return AppendOutcome()
        outcome: AppendOutcome[K] = AppendOutcome()
        for group in groups:
            part = await self._append([group])
            outcome.stored.update(part.stored)
            outcome.parked.update(part.parked)
        return outcome

    async def _perform(self, effects: Sequence[tuple[K, Sequence[object]]]) -> None:
        if not effects:
            return
        try:
            await self._service.perform([item for _, items in effects for item in items])
        except Exception as error:  # noqa: BLE001 - effects are repeatable; their failure must not stop decisions
            self._stats.failures += 1
            self._on_problem("effects failed", effects[0][0], f"{type(error).__name__}: {error}")

    def _to_await(self, groups: Sequence[KeyedEvents[K]], outcome: AppendOutcome[K]) -> dict[str, int]:
        """Positions at which the projection has seen all that was stored of what it reads."""
        highest: dict[str, int] = {}
        for group in groups:
            positions = outcome.stored.get(group.key)
            if positions is None:
                continue
            behind: dict[str, int] = {}
            for event in reversed(group.events):
                subject = subject_of(event)
                stream = stream_of(subject)
                offset = behind.get(stream, 0)
                behind[stream] = offset + 1
                if stream in positions and any(match(pattern, subject) for pattern in self._service.filters):
                    highest[stream] = max(highest.get(stream, 0), outcome.position(group.key, stream, offset))
                    break
        return highest

    def _failed(self, key: K, reason: str, cause: Cause, now: float) -> None:
        self._stats.failures += 1
        self._metrics.failed(_lasted(cause.since, now))
        first = not self.troubles.seen(key)
        parked = self.troubles.failed(key, reason, self._clock.monotonic())
        if parked:
            self._parked(key, reason, abs(cause.seqs[-1]) if cause.seqs else 0, record=True)
        elif first:
            self._on_problem("decision failed", key, reason)

    def _parked(self, key: K, reason: str, position: int = 0, record: bool = False) -> None:
        self._stats.parked += 1
        self._on_problem("key parked", key, reason)
        if record:
            task = child(self._appender.park(key, reason, position))
            self._tasks.add(task)
            task.add_done_callback(self._ended)
        else:
            self.troubles.park(key, reason)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
        self._wake.set()


def _lasted(since: float, now: float) -> float:
    """Seconds from a cause until now, -1 when its time is not known."""
    return max(0.0, now - since) if since else -1.0


def _some(keys: Collection[object]) -> str:
    """The first few keys by name."""
    named = ", ".join(str(key) for key in list(keys)[:3])
    return f"{named} and {len(keys) - 3} more" if len(keys) > 3 else named
