"""Decides whether the FederatedResourceQuotas of its namespace let an object have the placement found for it.

A refused object keeps the placement it has, and the requests that were admitted with it (docs/sources.md#quota).
"""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from schemas.events.binding import BindingRequested
from schemas.events.placement import PlacementDecided, PlacementFailed, QuotaRefusal
from services._rules.generations import changes_of, generation_of
from services._rules.kubernetes.quantity import Quantity
from services._rules.quota.binding_usage import is_counted, recorded
from services._rules.quota.enforcement import QUOTA_EXCEEDED, change, refusal_words
from services.scheduler.decision_trace import Considered
from services.scheduler.namespace_quotas import NamespaceQuotas
from services.scheduler.repeated_decisions import fails_alike
from services.scheduler.state import Scheduled, SchedulerState

REQUESTS_CHANGED: Final = "the requests of its pods changed"
"""The trigger of a decision that moves nothing, and only admits what pods take from now on."""


def enforced(event: PlacementDecided | PlacementFailed) -> bool:
    """Whether quotas were enforced on an object when this was decided."""
    return event.requests is not None or (isinstance(event, PlacementFailed) and event.refusal is not None)


def asked_requests(state: SchedulerState, scheduled: Scheduled) -> dict[str, str] | None:
    """The requests that a placement decided now names; None where none are counted."""
    spec = scheduled.spec
    binding = scheduled.binding
    if state.quotas is None or spec is None or binding is None or not binding.key.namespace:
        return None
    return scheduled.requests.texts() if is_counted(spec) else None


def requests_changed(state: SchedulerState, scheduled: Scheduled) -> str | None:
    """The trigger of an object whose pods take something else than its placement names; None where they do not."""
    placed = scheduled.placed
    if placed is None or not placed.clusters or placed.requests == asked_requests(state, scheduled):
        return None
    return REQUESTS_CHANGED


def with_new_requests(
    binding: BindingRequested, scheduled: Scheduled, scheduler: str, asked: dict[str, str] | None
) -> PlacementDecided:
    """The placement that stands, with what pods take from now on."""
    placed = scheduled.placed
    assert placed is not None
    changes = changes_of(placed, binding.uid)
    return PlacementDecided(
        key=binding.key,
        uid=binding.uid,
        clusters=scheduled.targets,
        binding_generation=binding.generation,
        placement=placed.placement,
        replicas=placed.replicas,
        affinity_name=placed.affinity_name,
        trigger=REQUESTS_CHANGED,
        scheduler=scheduler,
        scheduled_at=placed.scheduled_at,
        requests=asked,
        changes=changes,
        observed_generation=generation_of(binding, None, scheduled.eviction, scheduled.descheduling) + changes,
        since=(placed.since or placed.scheduled_at) if isinstance(placed, PlacementDecided) else placed.failed_at,
    )


def admitted(
    quotas: NamespaceQuotas | None,
    scheduled: Scheduled,
    event: PlacementDecided | PlacementFailed | None,
    considered: Considered | None,
    now: float,
) -> tuple[PlacementDecided | PlacementFailed | None, Considered | None, dict[str, Quantity] | None]:
    """The event if every quota lets it pass, else the refusal that leaves everything as it is; None for one on record.

    The last of the answer is by how much usage would have changed, where a quota refused that.
    """
    placed, lack = scheduled.placed, None
    if event is not None and event.requests is not None and quotas is not None:
        after = recorded(event.requests, sets=scheduled.requests.sets).on(event.clusters)
        before = quotas.usage.of(event.key)
        refusal = quotas.book.refusal(event.key, quotas.usage, before, after)
        if refusal is not None:
            event, lack = _refused(scheduled, event, refusal, now), change(after, before)
    if isinstance(event, PlacementFailed) and isinstance(placed, PlacementFailed) and fails_alike(placed, event):
        # Clusters that an eviction gave back are left by a new fact only.
        return (event if scheduled.targets != placed.clusters else None), considered, lack
    return event, considered, lack


def _refused(
    scheduled: Scheduled, event: PlacementDecided | PlacementFailed, refusal: QuotaRefusal, now: float
) -> PlacementFailed:
    placed = scheduled.placed
    return PlacementFailed(
        key=event.key,
        uid=event.uid,
        reason=QUOTA_EXCEEDED,
        message=refusal_words(event.key, refusal),
        clusters=scheduled.targets,
        binding_generation=event.binding_generation,
        placement=placed.placement if placed is not None else UNSET,
        replicas=placed.replicas if placed is not None else event.replicas,
        affinity_name=placed.affinity_name if placed is not None else event.affinity_name,
        trigger=event.trigger,
        scheduler=event.scheduler,
        scheduled_at=placed.scheduled_at if placed is not None else 0.0,
        failed_at=now,
        estimates=event.estimates,
        estimate_missed=event.estimate_missed,
        requests=scheduled.in_force.texts(),
        refusal=refusal,
        changes=changes_of(placed, event.uid),
        observed_generation=placed.observed_generation if placed is not None else 0,
        since=(placed.since or placed.failed_at) if isinstance(placed, PlacementFailed) else now,
    )
