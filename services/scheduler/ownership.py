"""Which scheduler owns a binding, and since when: one subject has one writer at a time (docs/sources.md#scheduling)."""

from __future__ import annotations

from typing import Final

from schemas.events.binding import BindingRequested
from schemas.keys import ObjectKey
from services.scheduler.binding_spec import scheduler_of
from services.scheduler.state import Scheduled, SchedulerState

HANDOVER_SECONDS: Final = 2.0
"""How long a scheduler waits that takes over an object from another: what that one has under way arrives meanwhile."""


def is_ours(scheduled: Scheduled, scheduler: str) -> bool:
    """Whether a scheduler of this name owns the binding (docs/sources.md#scheduling)."""
    binding, spec = scheduled.binding, scheduled.spec
    if not isinstance(binding, BindingRequested) or spec is None:
        return False
    if binding.everywhere or scheduler_of(spec) != scheduler:
        return False
    if (spec.get("suspension") or {}).get("scheduling"):
        return False
    return binding.policy is not None


def handed_over_until(state: SchedulerState, key: ObjectKey, now: float, scheduler: str) -> float | None:
    """Until when an object is left to the scheduler that placed it before; None where it need not be (any more).

    One subject has one writer at a time: the new scheduler waits until the previous one has seen the change of owner.
    """
    scheduled = state.objects.get(key)
    if scheduled is None or not is_ours(scheduled, scheduler):
        return None
    last = scheduled.unreleased
    foreign = last is not None and last.scheduler != scheduler
    # Who did not see it change hands takes the last fact for that.
    at = state.watch.handed.get(key, scheduled.touched if foreign else 0.0)
    until = at + HANDOVER_SECONDS
    return until if now < until <= now + HANDOVER_SECONDS else None
