"""Counts the changes of a binding's spec: the metadata.generation that its projection is shown with.

Source: docs/sources.md#bindings.
"""

from __future__ import annotations

from schemas.events.binding import BindingRequested
from schemas.events.descheduling import DeschedulingEvent
from schemas.events.eviction import EvictionEvent
from schemas.events.placement import PlacementDecided, PlacementEvent, PlacementFailed


def generation_of(
    binding: BindingRequested,
    placement: PlacementEvent | None,
    eviction: EvictionEvent | None,
    descheduling: DeschedulingEvent | None,
) -> int:
    """What was asked for, and each change of clusters and eviction tasks since; a facet of another uid counts nothing.

    Each service counts its own changes in its facts, so that the number is the same wherever it is added up.
    """
    changes = changes_of(placement, binding.uid)
    for facet in (eviction, descheduling):
        if facet is not None and facet.uid == binding.uid:
            changes += facet.changes
    return binding.generation + changes


def changes_of(placement: PlacementEvent | None, uid: str) -> int:
    """How often placements of this uid changed the clusters of their binding."""
    if isinstance(placement, PlacementDecided | PlacementFailed) and placement.uid == uid:
        return placement.changes
    return 0


def next_change(before: EvictionEvent | DeschedulingEvent | None, uid: str) -> int:
    """The number of the next change by a facet, after its last event."""
    return (before.changes if before is not None and before.uid == uid else 0) + 1
