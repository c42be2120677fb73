"""Projects the replicas that every Deployment was assigned, those ready, and those already descheduled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from schemas.codec import Known
from schemas.events.binding import BindingRequested
from schemas.events.descheduling import LoweredCluster
from schemas.keys import ObjectKey
from services._rules.facets import ObjectFacets, ObjectStates, is_of_facet
from services._rules.scheduling.descheduling import Share, follows_room, shares


class Answers(Struct, frozen=True):
    """Replicas without a node by cluster, and the positions of the facets that the question was made from."""

    seen: tuple[int, ...]
    unschedulable: Mapping[str, int]


class Given(ObjectFacets):
    """Every facet of one Deployment that decides whether replicas are taken back."""

    @property
    def standing(self) -> tuple[LoweredCluster, ...]:
        """Clusters of the placement in force that were lowered already."""
        return self.descheduling.clusters if self.descheduling is not None and self.lowered_seq else ()

    @property
    def asked_from(self) -> tuple[int, ...]:
        """Positions that a query refers to: once one changed, its answer is outdated."""
        return (self.placement_seq, self.eviction_seq, self.descheduling_seq)

    def short(self) -> tuple[Share, ...]:
        """What each cluster was given, when replicas may be taken back at all and some cluster lacks ready ones."""
        placed, binding = self.placed, self.binding
        if placed is None or not isinstance(binding, BindingRequested):
            return ()
        if not follows_room(binding.api_version, binding.kind, placed.placement):
            return ()
        rollup = self.rollup
        found = shares(self.targets, rollup.items if rollup is not None and rollup.uid == binding.uid else ())
        return found if any(share.short for share in found) else ()


class DeschedulerState(ObjectStates[Given]):
    """The projection of the descheduler."""

    kind = Given
    writes = "descheduling"


def fold(state: DeschedulerState, seq: int, subject: str, event: Known) -> Iterable[ObjectKey]:
    """Apply one fact and name the object that may have to give replicas back by it."""
    if not is_of_facet(event):
        return ()
    state.take(seq, subject, event)
    return (event.key,)
