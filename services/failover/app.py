"""Runs the failover service: folds facts, decides evictions at the configured rate."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

import structlog
from msgspec.structs import replace

from schemas.keys import ObjectKey
from services._kit.runtime.service import Context, ObjectDecider
from services._rules.decision import Decision
from services.failover.decide import decide
from services.failover.eviction_rate import EvictionRate
from services.failover.metrics import register
from services.failover.settings import FailoverSettings
from services.failover.state import FailoverState, fold

_MOST_NAMED: Final = 20


def postponed_of(state: FailoverState) -> dict[str, str]:
    """What the first evictions that are put off wait for, by object and cluster."""
    found = (
        (f"{key} in {waiting.cluster}", waiting.reason)
        for key in islice(state.postponed, _MOST_NAMED)
        for waiting in state.objects[key].postponed
    )
    return dict(found)


class Failover(ObjectDecider[FailoverState]):
    """Taints and health in, evictions out."""

    name = "failover"
    states = FailoverState
    folds = staticmethod(fold)
    filters = ("binding.>", "placement.>", "rollup.>", "cluster.*", "eviction.>")
    patience = 0.2
    hurries = ("cluster.", "eviction.")

    def __init__(self, settings: FailoverSettings) -> None:
        self._rules = settings.rules()
        self._pace = EvictionRate(settings.resource_eviction_rate)
        self._log: Any = structlog.get_logger()

    async def start(self, context: Context[FailoverState, ObjectKey]) -> None:
        """Offer the metrics."""
        await super().start(context)
        state = context.projection.state
        register(context.metrics, state, self._pace)
        context.health.fact("postponed", lambda: postponed_of(state))

    async def on_following(self) -> None:
        """Another instance gives turns now."""
        self._pace.clear()

    def decide(self, state: FailoverState, key: ObjectKey, now: float) -> Decision:
        """Evictions of one object."""
        decision = decide(state, key, now, self._rules)
        if not decision.by_taint:
            self._pace.forget(key)
        elif (turn := self._pace.turn(key, now, state.last_eviction)) > now:
            decision = decide(state, key, now, self._rules, in_turn=False)
            decision = replace(decision, wake_at=turn if decision.wake_at is None else min(turn, decision.wake_at))
        for waiting in decision.postponed if decision.events else ():
            self._log.warning("eviction postponed", key=str(key), cluster=waiting.cluster, reason=waiting.reason)
        return decision
