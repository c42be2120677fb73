"""Runs the scheduler: folds facts, decides placements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from schemas.codec import Known
from schemas.envelope import Provenance
from schemas.events.lease import LeaseTaken
from schemas.events.placement import PlacementFailed, PlacementReleased
from schemas.hints import Purged
from schemas.keys import ObjectKey
from schemas.subjects import object_key
from schemas.topology import EXPLAINED
from services._kit.log import Message
from services._kit.service import NOTHING, BaseService, Context, Decision
from services.scheduler.decide import decide_and_tell, waits_until
from services.scheduler.explain import Changed
from services.scheduler.explain_writer import ExplanationWriter
from services.scheduler.metrics import DecisionCounts, register
from services.scheduler.settings import SchedulerSettings
from services.scheduler.state import SchedulerState, fold, forget

RETRY_SECONDS: Final = 5.0


class Scheduler(BaseService[SchedulerState, ObjectKey]):
    """Bindings in, placements out."""

    name = "scheduler"
    filters = ("binding.>", "cluster.*", "estimate.>", "eviction.>", "placement.>", "rollup.>", "lease.estimator")

    def __init__(self, settings: SchedulerSettings) -> None:
        self._scheduler_name = settings.scheduler_name
        self._timeout = settings.scheduler_estimator_timeout if settings.enable_scheduler_estimator else 0.0
        self._context: Context[SchedulerState, ObjectKey] | None = None
        self._leading_since = 0.0
        self._decisions = DecisionCounts()
        self._explanations: ExplanationWriter | None = None

    async def start(self, context: Context[SchedulerState, ObjectKey]) -> None:
        """Offer the metrics."""
        self._context = context
        projection = context.projection
        log = context.logs.get(EXPLAINED.name)
        if log is not None:
            self._explanations = ExplanationWriter(log)
        register(context.metrics, projection.state, self._decisions, lambda: len(projection.dirty))

    async def on_leading(self) -> None:
        """Answers to what was asked meanwhile may still be on their way."""
        assert self._context is not None
        self._leading_since = self._context.clock.now()

    async def on_following(self) -> None:
        """What was on its way may never arrive: the next leader says what is placed."""
        assert self._context is not None
        self._context.projection.state.ledger.withdraw_all()

    async def perform(self, effects: Sequence[object]) -> None:
        """Explain what was decided, beside the decisions."""
        if self._explanations is not None:
            self._explanations.offer(item for item in effects if isinstance(item, Changed))

    async def stop(self) -> None:
        """Write the explanations that are still waiting."""
        if self._explanations is not None:
            await self._explanations.close()

    def new_state(self) -> SchedulerState:
        """An empty projection."""
        return SchedulerState()

    def fold(self, state: SchedulerState, message: Message, event: Known) -> Iterable[ObjectKey]:
        """Apply one fact."""
        if isinstance(event, LeaseTaken) and not self._timeout:
            return ()
        return fold(state, message.seq, message.subject, event, message.time)

    def forget(self, state: SchedulerState, purged: Purged) -> None:
        """Drop the tombstones of what is gone."""
        forget(state, purged)

    def last_seq(self, state: SchedulerState, subject: str) -> int:
        """Position of the last placement of a subject."""
        return state.subjects.get(subject, 0)

    def unreadable(self, state: SchedulerState, message: Message) -> Iterable[ObjectKey]:
        """The object whose facet a newer version wrote."""
        return () if message.subject.startswith(("cluster.", "lease.")) else (object_key(message.subject),)

    def recover(self, state: SchedulerState) -> Iterable[ObjectKey]:
        """Objects whose placement has not seen their latest facets, or that a cluster change may move."""
        return list(state.objects)

    def decide(self, state: SchedulerState, key: ObjectKey, now: float) -> Decision:
        """The placement of one object."""
        ledger = state.ledger
        ledger.withdraw(key)
        ledger.expire(now)
        later = waits_until(state, key, now, self._scheduler_name, self._timeout, self._leading_since)
        if later is not None:
            return Decision(wake_at=later)
        event, considered = decide_and_tell(state, key, now, self._scheduler_name)
        if event is None:
            return Decision(wake_at=_again(ledger.next_end(), now)) if key in state.failed else NOTHING
        scheduled = state.objects[key]
        own = {"binding": scheduled.binding_seq}
        if scheduled.eviction_seq:
            own["eviction"] = scheduled.eviction_seq
        if not isinstance(event, PlacementReleased):
            self._decisions.count(event)
            if event.estimates:
                own["estimate"] = scheduled.estimate_seq
            ledger.promise(key, event.clusters, now)
        wake = _again(ledger.next_end(), now) if isinstance(event, PlacementFailed) else None
        effects: tuple[Changed, ...] = ()
        if considered is not None and not isinstance(event, PlacementReleased):
            effects = (Changed(key, event, considered),)
        return Decision(events=(replace(event, provenance=Provenance(own=own)),), wake_at=wake, effects=effects)


def _again(end: float | None, now: float) -> float | None:
    """When an object without room looks again: once a reservation ends, and not all the time."""
    return max(end, now + RETRY_SECONDS) if end is not None else None
