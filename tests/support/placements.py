"""Decisions of the scheduler without what it read to come to them."""

from __future__ import annotations

from schemas.events.placement import PlacementEvent
from schemas.keys import ObjectKey
from services.scheduler.decide import Rules, decide_with_trace
from services.scheduler.state import SchedulerState

_RULES = Rules()


def decide(
    state: SchedulerState, key: ObjectKey, now: float, scheduler: str, rules: Rules = _RULES
) -> PlacementEvent | None:
    """The placement that should become the latest of an object, or None when the present one stands."""
    return decide_with_trace(state, key, now, scheduler, rules=rules)[0]
