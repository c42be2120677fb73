"""Runs the failover service: folds facts, decides evictions at the configured rate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import structlog

from schemas.codec import Known
from schemas.hints import Purged
from schemas.keys import ObjectKey
from schemas.subjects import object_key
from services._kit.log.stream_port import Message
from services._kit.runtime.service import BaseService, Context, Decision
from services.failover.decide import decide
from services.failover.eviction_rate import EvictionRate
from services.failover.metrics import register
from services.failover.settings import FailoverSettings
from services.failover.state import FailoverState, fold, forget


class Failover(BaseService[FailoverState, ObjectKey]):
    """Taints and health in, evictions out."""

    name = "failover"
    filters = ("binding.>", "placement.>", "rollup.>", "cluster.*", "eviction.>")
    patience = 0.2
    hurries = ("cluster.", "eviction.")

    def __init__(self, settings: FailoverSettings) -> None:
        self._rules = settings.rules()
        self._pace = EvictionRate(settings.resource_eviction_rate)
        self._problems: dict[ObjectKey, str] = {}
        self._log: Any = structlog.get_logger()

    async def start(self, context: Context[FailoverState, ObjectKey]) -> None:
        """Offer the metrics."""
        register(context.metrics, context.projection.state, self._pace, self._problems)

    async def on_following(self) -> None:
        """Another instance gives turns now."""
        self._pace.clear()

    def new_state(self) -> FailoverState:
        """An empty projection."""
        return FailoverState()

    def fold(self, state: FailoverState, message: Message, event: Known) -> Iterable[ObjectKey]:
        """Apply one fact."""
        return fold(state, message.seq, message.subject, event)

    def forget(self, state: FailoverState, purged: Purged) -> None:
        """Drop the tombstones of what is gone."""
        forget(state, purged)

    def last_seq(self, state: FailoverState, subject: str) -> int:
        """Position of the last eviction of a subject."""
        return state.subjects.get(subject, 0)

    def unreadable(self, state: FailoverState, message: Message) -> Iterable[ObjectKey]:
        """The object whose facet a newer version wrote."""
        return () if message.subject.startswith("cluster.") else (object_key(message.subject),)

    def recover(self, state: FailoverState) -> Iterable[ObjectKey]:
        """Every object: a taint may have been added, or a grace period ended, while no instance led."""
        return list(state.objects)

    def decide(self, state: FailoverState, key: ObjectKey, now: float) -> Decision:
        """Evictions of one object."""
        verdict = decide(state, key, now, self._rules)
        wake_at = verdict.wake_at
        if not verdict.by_taint:
            self._pace.forget(key)
        elif (turn := self._pace.turn(key, now, state.last_eviction)) > now:
            verdict = decide(state, key, now, self._rules, in_turn=False)
            wake_at = turn if verdict.wake_at is None else min(turn, verdict.wake_at)
        self._remember(key, verdict.problem)
        return Decision(events=() if verdict.event is None else (verdict.event,), wake_at=wake_at)

    def _remember(self, key: ObjectKey, problem: str) -> None:
        if not problem:
            self._problems.pop(key, None)
        elif self._problems.get(key) != problem:
            self._problems[key] = problem
            self._log.warning("eviction postponed", key=str(key), reason=problem)
