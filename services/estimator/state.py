"""Projects the bindings divided by capacity, their placements, the clusters, and the estimates already made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Raw, field
from msgspec.structs import replace

from schemas.codec import Known
from schemas.envelope import NO_PROVENANCE
from schemas.events.binding import BindingReleased, BindingRequested
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.estimate import CapacityEstimated
from schemas.events.placement import PlacementDecided, PlacementFailed, PlacementReleased
from schemas.events.rollup import StatusRolledUp
from schemas.hints import Purged
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules.capacity.reservations import ReservationLedger
from services._rules.capacity.reserved import Needs, needs_of
from services._rules.delivery.member_address import Access, access_of
from services._rules.facets import ObjectFacets, ObjectStates, is_of_facet
from services._rules.kubernetes.quantity import QuantityError
from services._rules.scheduling.decoding import cluster_view
from services._rules.scheduling.estimate_requests import answers, asked_at, divides_by_room
from services._rules.scheduling.index import ClusterIndex

_NO_SPEC: Final = Raw(b"{}")


class Asked(ObjectFacets):
    """Facets of one object that decide whether and what to estimate; its binding is kept without the spec."""

    spec: Manifest | None = None
    """What is asked for; None where no estimate is."""

    @property
    def unplaced(self) -> bool:
        """Whether an estimate is wanted whenever there is news: what should run does not."""
        return self.spec is not None and isinstance(self.placed, PlacementFailed)

    def position(self, leaving: dict[str, int]) -> int:
        """The position up to which an estimate must have read."""
        return asked_at(self.binding_seq, self.placed, self.eviction, self.eviction_seq, leaving, self.lowered_seq)


class EstimatorState(ObjectStates[Asked]):
    """The projection of the estimator."""

    kind = Asked
    writes = "estimate"
    unplaced: set[ObjectKey] = field(default_factory=set)
    clusters: ClusterIndex = field(default_factory=lambda: ClusterIndex(()))
    leaving: dict[str, int] = field(default_factory=dict)
    access: dict[str, Access] = field(default_factory=dict)
    pull: set[str] = field(default_factory=set)
    """Pull members that are ready."""
    ledger: ReservationLedger = field(default_factory=ReservationLedger)

    def forget(self, purged: Purged) -> None:
        """Drop what is gone from the log, unless newer facts of it exist."""
        for key, _ in self.drop(purged):
            self.ledger.forget(key)
            self.unplaced.discard(key)
        for name in purged.clusters:
            if name not in self.clusters.by_name:
                self.leaving.pop(name, None)

    def is_due(self, asked: Asked) -> bool:
        """Whether an estimate is asked for and no present one answers."""
        return asked.spec is not None and not answers(asked.estimate, asked.uid, asked.position(self.leaving))

    def due(self) -> Iterator[ObjectKey]:
        """Objects that wait for an estimate."""
        return (key for key, asked in self.objects.items() if self.is_due(asked))


def fold(state: EstimatorState, seq: int, subject: str, event: Known, stored: float = 0.0) -> Iterable[ObjectKey]:
    """Apply one fact, `stored` at a time, and return the objects to decide again."""
    if isinstance(event, ClusterChanged | ClusterRemoved):
        return _cluster(state, seq, event)
    if isinstance(event, StatusRolledUp):
        freed = state.ledger.shown(event.key, event.uid, event.items, stored, seq)
        return list(state.unplaced) if freed else ()
    if not is_of_facet(event):
        return ()
    asked = state.take(seq, subject, event)
    freed = False
    match event:
        case BindingRequested() | BindingReleased():
            asked.spec = None
            needs: Needs = ()
            if isinstance(event, BindingRequested):
                asked.binding = replace(event, spec=_NO_SPEC, provenance=NO_PROVENANCE)
                if not event.everywhere:
                    spec = msgspec.json.decode(event.spec)
                    asked.spec = spec if event.policy is not None and divides_by_room(spec) else None
                    needs = _needs(spec)
            state.ledger.requested(event.key, event.uid, needs, seq)
        case PlacementDecided() | PlacementFailed():
            freed = state.ledger.placed(event.key, event.uid, event.clusters, event.scheduled_at, seq)
        case PlacementReleased():
            freed = state.ledger.placed(event.key, event.uid, (), stored, seq)
        case CapacityEstimated():
            return ()
        case _:
            pass
    if asked.unplaced:
        state.unplaced.add(event.key)
    else:
        state.unplaced.discard(event.key)
    concerned = [event.key] if asked.spec is not None else []
    return [*concerned, *state.unplaced] if freed else concerned


def _cluster(state: EstimatorState, seq: int, event: ClusterChanged | ClusterRemoved) -> Iterable[ObjectKey]:
    """A cluster changed: objects that run in one that leaves, and those that could not be placed."""
    name = event.name
    if isinstance(event, ClusterRemoved):
        state.clusters = state.clusters.without(name)
        state.access.pop(name, None)
        state.pull.discard(name)
        state.ledger.removed(name)
        state.leaving[name] = seq
    else:
        manifest: Manifest = msgspec.json.decode(event.manifest)
        view = cluster_view(manifest)
        if event.deleting:
            view = msgspec.structs.replace(view, deleting=True)
        state.clusters = state.clusters.with_cluster(view)
        access = _access(event, manifest)
        if access is None or access.mode != "Push":
            state.access.pop(name, None)
        else:
            state.access[name] = access
        if access is not None and access.mode == "Pull":
            state.pull.add(name)
        else:
            state.pull.discard(name)
        if event.deleting:
            state.leaving[name] = seq
        else:
            state.leaving.pop(name, None)
    if name not in state.leaving:
        return list(state.unplaced)
    return [*state.running_in(name), *state.unplaced]


def _access(event: ClusterChanged, manifest: Manifest) -> Access | None:
    """Access to a member that is ready; any other cannot be estimated."""
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    ready = any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)
    access = access_of(event)
    return access if ready else None


def _needs(spec: Manifest) -> Needs:
    try:
        return needs_of(spec, detailed=True)
    except (QuantityError, ValueError, TypeError):
        # The scheduler reports what is wrong with it.
        return ()
