"""Runs the scheduler: folds facts, decides placements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from schemas.codec import Known
from schemas.events.binding import BindingRequested
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.descheduling import ReplicasDescheduled
from schemas.events.eviction import EvictionRequested
from schemas.events.lease import LeaseTaken
from schemas.events.placement import PlacementDecided, PlacementFailed
from schemas.keys import ObjectKey
from schemas.topology import EXPLAINED
from services._kit.log.stream_port import Message
from services._kit.runtime.service import Context, ObjectDecider
from services._rules.decision import Decision
from services._rules.quota.specification import KIND
from services._rules.scheduling.outcome import outcome
from services.scheduler.decide import schedule, waits_until
from services.scheduler.decision_trace import Changed, Considered
from services.scheduler.metrics import DecisionCounts, StepTimes, register
from services.scheduler.namespace_quotas import NamespaceQuotas, is_waiting_key
from services.scheduler.ownership import is_ours
from services.scheduler.queue.retry_backoff import Retries
from services.scheduler.settings import SchedulerSettings
from services.scheduler.state import SETTLE_SECONDS, SchedulerState, fold
from services.scheduler.trace_writer import ExplanationWriter

RETRY_SECONDS: Final = 5.0
ROOM: Final = ObjectKey("fleetlog", "reservations", "", "ending")
"""The key of all expiring reservations: decided while objects wait for the capacity they hold."""


class Scheduler(ObjectDecider[SchedulerState]):
    """Bindings in, placements out."""

    name = "scheduler"
    filters = (
        "binding.>",
        "cluster.*",
        "estimate.>",
        "eviction.>",
        "descheduling.>",
        "placement.>",
        "rollup.>",
        "lease.estimator",
        f"policy.{KIND}.>",
    )

    def __init__(self, settings: SchedulerSettings) -> None:
        self.name = settings.service_name
        self._scheduler_name = settings.scheduler_name
        self._steps = StepTimes()
        self._rules = replace(settings.rules(), stepped=self._steps)
        by_priority = settings.gates()["PriorityBasedScheduling"]
        self._enforces_quotas = settings.gates()["FederatedQuotaEnforcement"]
        self.rank = _by_priority if by_priority else None
        self._retries = Retries(settings.limits(), by_priority=by_priority)
        self._looks_for_room = False
        self._timeout = settings.scheduler_estimator_timeout if settings.enable_scheduler_estimator else 0.0
        self._leading_since = 0.0
        self._decisions = DecisionCounts()
        self._explanations: ExplanationWriter | None = None

    async def start(self, context: Context[SchedulerState, ObjectKey]) -> None:
        """Offer the metrics."""
        await super().start(context)
        projection = context.projection
        log = context.logs.get(EXPLAINED.name)
        if log is not None:
            self._explanations = ExplanationWriter(log)
        waiting, backing_off = (lambda: len(projection.dirty)), (lambda: len(self._retries))
        register(context.metrics, projection.state, self._decisions, waiting, backing_off)
        context.metrics.registry.register(self._steps)

    async def on_leading(self) -> None:
        """Answers to what was asked meanwhile may still be on their way."""
        self._leading_since = self.context.clock.now()
        self._looks_for_room = False
        self._retries.clear()
        self.state.watch.begin()

    async def on_following(self) -> None:
        """Drop reservations: decisions in flight may be lost, and the next leader decides."""
        state = self.state
        state.ledger.withdraw_all()
        state.peers.withdraw_all()
        if state.quotas is not None:
            state.quotas.usage.withdraw_all()
        state.watch.end()

    async def perform(self, effects: Sequence[object]) -> None:
        """Explain what was decided, beside the decisions."""
        if self._explanations is not None:
            self._explanations.offer(item for item in effects if isinstance(item, Changed))

    async def stop(self) -> None:
        """Write the explanations that are still waiting."""
        if self._explanations is not None:
            await self._explanations.close()

    def new_state(self) -> SchedulerState:
        """An empty projection of an instance that does not lead yet."""
        state = SchedulerState()
        state.watch.active = False
        state.watch.options = self._rules.options
        state.quotas = NamespaceQuotas() if self._enforces_quotas else None
        return state

    def fold(self, state: SchedulerState, message: Message, event: Known) -> Iterable[ObjectKey]:
        """Apply one fact."""
        if isinstance(event, LeaseTaken) and not self._timeout:
            return ()
        if self._context is None or not self._context.projection.marking:
            return fold(state, message.seq, message.subject, event, message.time)
        known = isinstance(event, BindingRequested) and self._owns(state, event.key)
        found = fold(state, message.seq, message.subject, event, message.time)
        match event:
            case BindingRequested() if self._owns(state, event.key):
                self._decisions.came("BindingUpdate" if known else "BindingAdd")
            case EvictionRequested() | ReplicasDescheduled():
                self._decisions.came("BindingUpdate")
            case ClusterChanged() | ClusterRemoved():
                found = list(found)
                self._decisions.came("ClusterChanged", len(found))
            case _:
                pass
        return found

    def _owns(self, state: SchedulerState, key: ObjectKey) -> bool:
        scheduled = state.objects.get(key)
        return scheduled is not None and is_ours(scheduled, self._scheduler_name)

    def unsettled(self, state: SchedulerState, now: float) -> str:
        """Objects whose placement waits for an estimate."""
        name, since = self._scheduler_name, self._leading_since
        waiting = [
            key for key in state.objects if waits_until(state, key, now, name, self._timeout, since, self._rules)
        ]
        return f"{len(waiting)} objects wait for estimates" if waiting else ""

    def recover(self, state: SchedulerState) -> Iterable[ObjectKey]:
        """Objects whose placement has not seen their latest facets, or that a cluster change may move."""
        self._decisions.came("BindingAdd", sum(is_ours(item, self._scheduler_name) for item in state.objects.values()))
        return super().recover(state)

    def decide(self, state: SchedulerState, key: ObjectKey, now: float) -> Decision:
        """The placement of one object."""
        if key == ROOM:
            return self._look_for_room(state, now)
        if is_waiting_key(key):
            return Decision(also=state.quotas.fitting(key.namespace) if state.quotas is not None else ())
        helped = state.reopen(key, now)
        name, timeout, since = self._scheduler_name, self._timeout, self._leading_since
        made = schedule(state, key, now, name, timeout=timeout, since=since, rules=self._rules)
        if made.wake_at is not None:
            return Decision(wake_at=made.wake_at, also=helped)
        considered = made.considered
        wake = self._tries_again(key, considered, now)
        if made.failed:
            state.tried(key)
        if state.quotas is not None:
            state.quotas.decided(key, made.lack)
        if self._waits_for_room(state, considered):
            helped.append(ROOM)
        if not made.events and considered is not None:
            self._decisions.attempted(considered.trigger, outcome(considered.attempt.decision).reason)
        for event in made.events:
            if isinstance(event, PlacementDecided | PlacementFailed):
                self._decisions.count(event)
                state.promise(event, now)
        return Decision(made.events, wake, made.effects, helped) if wake is not None or helped else made

    def _tries_again(self, key: ObjectKey, considered: Considered | None, now: float) -> float | None:
        """When an attempt that ended in an error is made again; what no cluster or no room stops waits for those."""
        if considered is None or considered.attempt.decision.error != "Error":
            self._retries.over(key)
            return None
        self._decisions.came("ScheduleAttemptFailure")
        return self._retries.failed(key, now)

    def _waits_for_room(self, state: SchedulerState, considered: Considered | None) -> bool:
        """True if reservations may expire and no expiry timer is set."""
        if self._looks_for_room or considered is None or considered.attempt.decision.error is None:
            return False
        self._looks_for_room = state.ledger.next_end() is not None
        return self._looks_for_room

    def _look_for_room(self, state: SchedulerState, now: float) -> Decision:
        """Expire reservations: the objects to requeue, and the time of the next expiry."""
        helped = state.expire(now)
        end = state.ledger.next_end()
        self._looks_for_room = end is not None
        wake = max(now + RETRY_SECONDS, min(end, now + SETTLE_SECONDS)) if end is not None else None
        return Decision(wake_at=wake, also=helped)


def _by_priority(state: SchedulerState, key: ObjectKey) -> float:
    """Rank of a key: the greater its priority the earlier (docs/sources.md#scheduling-queue)."""
    scheduled = state.objects.get(key)
    return -scheduled.priority if scheduled is not None else 0
