"""Projects the bindings divided by capacity, their placements, the clusters, and the estimates already made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct, field

from schemas.codec import Known
from schemas.events.binding import BindingReleased, BindingRequested
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.descheduling import DeschedulingEvent, ReplicasDescheduled
from schemas.events.estimate import CapacityEstimated
from schemas.events.eviction import EvictionEvent, EvictionFinished, EvictionRequested
from schemas.events.placement import PlacementDecided, PlacementFailed, PlacementReleased, TargetCluster
from schemas.events.rollup import StatusRolledUp
from schemas.hints import Purged
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from schemas.subjects import estimate as estimate_subject
from services._rules.capacity.replica_estimate import Answers
from services._rules.capacity.reservations import ReservationLedger
from services._rules.capacity.reserved import Needs, needs_of
from services._rules.delivery.member_address import Access, access_of
from services._rules.effective import current_targets, lowers
from services._rules.kubernetes.quantity import QuantityError
from services._rules.scheduling.decoding import cluster_view
from services._rules.scheduling.estimate_requests import answers, asked_at, divides_by_room
from services._rules.scheduling.index import ClusterIndex
from services.estimator.remote import Remote


class Asked(Struct):
    """Facets of one object that decide whether and what to estimate; `spec` is None without a request."""

    uid: str = ""
    spec: Manifest | None = None
    binding_seq: int = 0
    placement: PlacementDecided | PlacementFailed | None = None
    placement_seq: int = 0
    eviction: EvictionEvent | None = None
    eviction_seq: int = 0
    descheduling: DeschedulingEvent | None = None
    descheduling_seq: int = 0
    estimate: CapacityEstimated | None = None

    @property
    def placed(self) -> PlacementDecided | PlacementFailed | None:
        """The placement in force for the present uid."""
        return self.placement if self.placement is not None and self.placement.uid == self.uid else None

    @property
    def targets(self) -> tuple[TargetCluster, ...]:
        """Clusters that run it, without what was evicted or taken back."""
        return current_targets(self.placed, self.eviction, self.eviction_seq, self.descheduling, self.placement_seq)

    @property
    def unplaced(self) -> bool:
        """Whether an estimate is wanted whenever there is news: what should run does not."""
        return self.spec is not None and isinstance(self.placed, PlacementFailed)

    def position(self, leaving: dict[str, int]) -> int:
        """The position up to which an estimate must have read."""
        lowered = self.descheduling_seq if lowers(self.descheduling, self.uid, self.placement_seq) else 0
        return asked_at(self.binding_seq, self.placed, self.eviction, self.eviction_seq, leaving, lowered)


class EstimatorState(Struct):
    """The projection of the estimator, and the views of members that its shell keeps in step."""

    objects: dict[ObjectKey, Asked] = field(default_factory=dict)
    unplaced: set[ObjectKey] = field(default_factory=set)
    clusters: ClusterIndex = field(default_factory=lambda: ClusterIndex(()))
    leaving: dict[str, int] = field(default_factory=dict)
    access: dict[str, Access] = field(default_factory=dict)
    subjects: dict[str, int] = field(default_factory=dict)
    pull: set[str] = field(default_factory=set)
    """Pull members that are ready."""
    ledger: ReservationLedger = field(default_factory=ReservationLedger)
    answers: dict[str, Answers] = field(default_factory=dict)
    remotes: dict[str, Remote] = field(default_factory=dict)
    opening: dict[str, float] = field(default_factory=dict)
    """Members whose first lists are on their way, and until when they are waited for (seconds since 1970)."""

    def of(self, key: ObjectKey) -> Asked:
        """What is known of one object, made on first mention."""
        asked = self.objects.get(key)
        if asked is None:
            asked = self.objects[key] = Asked()
        return asked

    def is_due(self, asked: Asked) -> bool:
        """Whether an estimate is asked for and no present one answers."""
        return asked.spec is not None and not answers(asked.estimate, asked.uid, asked.position(self.leaving))

    def due(self) -> Iterator[ObjectKey]:
        """Objects that wait for an estimate."""
        return (key for key, asked in self.objects.items() if self.is_due(asked))


def fold(state: EstimatorState, seq: int, subject: str, event: Known, stored: float = 0.0) -> Iterable[ObjectKey]:
    """Apply one fact, `stored` at a time, and return the objects to decide again."""
    freed = False
    match event:
        case BindingRequested() | BindingReleased():
            asked = state.of(event.key)
            asked.uid, asked.binding_seq, asked.spec = event.uid, seq, None
            needs: Needs = ()
            if isinstance(event, BindingRequested) and not event.everywhere:
                spec = msgspec.json.decode(event.spec)
                asked.spec = spec if event.policy is not None and divides_by_room(spec) else None
                needs = _needs(spec)
            state.ledger.requested(event.key, event.uid, needs, seq)
        case PlacementDecided() | PlacementFailed():
            asked = state.of(event.key)
            asked.placement, asked.placement_seq = event, seq
            freed = state.ledger.placed(event.key, event.uid, event.clusters, event.scheduled_at, seq)
        case PlacementReleased():
            asked = state.of(event.key)
            asked.placement, asked.placement_seq = None, seq
            freed = state.ledger.placed(event.key, event.uid, (), stored, seq)
        case StatusRolledUp():
            freed = state.ledger.shown(event.key, event.uid, event.items, stored, seq)
            return list(state.unplaced) if freed else ()
        case EvictionRequested() | EvictionFinished():
            asked = state.of(event.key)
            asked.eviction, asked.eviction_seq = event, seq
        case ReplicasDescheduled():
            asked = state.of(event.key)
            asked.descheduling, asked.descheduling_seq = event, seq
        case CapacityEstimated():
            state.of(event.key).estimate = event
            state.subjects[subject] = seq
            return ()
        case ClusterChanged() | ClusterRemoved():
            return _cluster(state, seq, event)
        case _:
            return ()
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
    concerned = [
        key
        for key, asked in state.objects.items()
        if asked.placed is not None and any(target.name == name for target in asked.placed.clusters)
    ]
    return [*concerned, *state.unplaced]


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


def forget(state: EstimatorState, purged: Purged) -> None:
    """Drop objects that are gone from the log, unless newer facts of them exist."""
    for gone in purged.objects:
        asked = state.objects.get(gone.key)
        if asked is not None and asked.spec is None and asked.binding_seq <= gone.position:
            del state.objects[gone.key]
            state.ledger.forget(gone.key)
            state.unplaced.discard(gone.key)
            state.subjects.pop(estimate_subject(gone.key), None)
    for name in purged.clusters:
        if name not in state.clusters.by_name:
            state.leaving.pop(name, None)
