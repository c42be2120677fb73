"""Projects bindings, clusters, estimates and evictions, and the placements already decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from schemas.codec import Known
from schemas.events.binding import BindingReleased, BindingRequested
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.descheduling import ReplicasDescheduled
from schemas.events.estimate import CapacityEstimated
from schemas.events.eviction import EvictionFinished, EvictionRequested
from schemas.events.lease import LeaseTaken
from schemas.events.placement import PlacementDecided, PlacementEvent, PlacementFailed, PlacementReleased, TargetCluster
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.events.rollup import StatusRolledUp
from schemas.hints import Purged
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules.capacity.reservations import ReservationLedger
from services._rules.facets import ObjectFacets, ObjectStates
from services._rules.quota.binding_usage import NO_REQUESTS, Requests, in_force, readable_requests, recorded
from services._rules.scheduling.compiled_placement import CompiledPlacement
from services._rules.scheduling.decoding import cluster_view
from services._rules.scheduling.estimate_requests import answers, asked_at, divides_by_room
from services._rules.scheduling.index import ClusterIndex
from services._rules.scheduling.shared_values import shared_raw, spec_of
from services.scheduler.binding_spec import compiled_of, needs_in, priority_of, scheduler_of
from services.scheduler.namespace_quotas import NamespaceQuotas
from services.scheduler.peers import PeerIndex
from services.scheduler.queue.queueing_hints import NO_CLUSTER, interest_of
from services.scheduler.queue.unschedulable_queue import UnschedulableIndex

SETTLE_SECONDS: Final = 15.0
"""How long a summary may lag behind a status: one probe interval of ten seconds, and its append to the log."""


class Scheduled(ObjectFacets):
    """Every facet of one object that placing it reads."""

    spec: Manifest | None = None
    """The binding's spec, decoded once per binding fact."""
    by_room: bool = False
    """Whether its replicas are divided by what clusters have room for."""
    touched: float = 0.0
    """When the log stored the latest request or eviction, in seconds since 1970."""
    compiled: CompiledPlacement | None = None
    """The placement asked for; None where it cannot be read."""
    priority: int = 0
    requests: Requests = NO_REQUESTS
    """What one replica takes by the binding, as quotas count it; nothing where none are enforced."""

    @property
    def in_force(self) -> Requests:
        """What one replica takes by the placement in force: requests count once they were admitted."""
        return in_force(self.placed, self.requests)

    def answered(self, leaving: Mapping[str, int]) -> bool:
        """Whether the latest estimate saw all that may cause the object to be scheduled again."""
        position = asked_at(self.binding_seq, self.placed, self.eviction, self.eviction_seq, leaving, self.lowered_seq)
        return answers(self.estimate, self.uid, position)


class _Change(Struct, frozen=True):
    """The fields of a cluster whose changes make the scheduler decide again (docs/sources.md#scheduling)."""

    labels: Any
    spec: Any
    deleting: bool


class SchedulerState(ObjectStates[Scheduled]):
    """The projection of the scheduler."""

    kind = Scheduled
    writes = "placement"
    clusters: ClusterIndex = field(default_factory=lambda: ClusterIndex(()))
    shapes: dict[str, _Change] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    leaving: dict[str, int] = field(default_factory=dict)
    """Positions at which clusters were seen to be deleted or gone."""
    left_at: dict[str, float] = field(default_factory=dict)
    has_estimator: bool = False
    """Whether an estimator ever led here: without one, no decision waits for estimates."""
    watch: UnschedulableIndex = field(default_factory=UnschedulableIndex)
    """The objects to requeue when clusters change."""
    peers: PeerIndex = field(default_factory=PeerIndex)
    """Where the workloads of each affinity group run."""
    ledger: ReservationLedger = field(default_factory=lambda: ReservationLedger(SETTLE_SECONDS))
    rooms: ClusterIndex = field(default_factory=lambda: ClusterIndex(()))
    """The clusters without reserved capacity, as of the last `refresh`."""
    quotas: NamespaceQuotas | None = None
    """What quotas limit; None where they are not enforced."""

    def with_room(self) -> ClusterIndex:
        """The clusters without the room that placements took and that their summaries do not show yet.

        What `refresh` keeps; where something changed since, all of it is worked out and nothing is kept.
        """
        ledger = self.ledger
        if not ledger.changed:
            return self.rooms
        return ClusterIndex(
            msgspec.structs.replace(view, capacity=ledger.left_of(view.name, view.capacity))
            for view in self.clusters.clusters
        )

    def refresh(self) -> ClusterIndex:
        """Bring `rooms` in line with what changed since the last time; see `with_room`."""
        ledger, clusters = self.ledger, self.clusters.by_name
        if ledger.changed:
            names, ledger.changed = ledger.changed, set()
            self.watch.changes += 1
            if self.watch.active and self.watch.short:
                self.watch.unreviewed |= names
            for name in names - clusters.keys():
                self.rooms = self.rooms.without(name)
            self.rooms = self.rooms.with_clusters(
                msgspec.structs.replace(view, capacity=ledger.left_of(name, view.capacity))
                for name in names
                if (view := clusters.get(name)) is not None
            )
        return self.rooms

    def pulls(self, cluster: str) -> bool:
        """Whether a member fetches its work itself."""
        shape = self.shapes.get(cluster)
        return shape is not None and (shape.spec or {}).get("syncMode") == "Pull"

    def helped(self) -> list[ObjectKey]:
        """Who may be placed now that clusters have more room than when it was tried."""
        if not (self.watch.active and self.watch.short):
            return []
        rooms = self.refresh()
        names, self.watch.unreviewed = self.watch.unreviewed, set()
        return self.watch.roomier(names, self.clusters.by_name, rooms.by_name) if names else []

    def regrouped(self, key: ObjectKey, scheduled: Scheduled, seq: int) -> list[ObjectKey]:
        """Who of its affinity groups may be placed now that an object changed by a fact at a position."""
        if not self.peers.concerns(key, scheduled.spec):
            return []
        peers = self.peers.follow(key, scheduled.spec, (target.name for target in scheduled.targets))
        if peers:
            self.watch.moved = seq
        return [peer for peer in peers if peer in self.watch.failed]

    def reopen(self, key: ObjectKey, now: float) -> list[ObjectKey]:
        """An object is decided again at a time: what was promised to it is void, and what ends by then has ended.

        Names the objects that may be placed by that. What deciding this one reads is up to date afterwards.
        """
        self.ledger.withdraw(key)
        self.peers.withdraw(key)
        found = self.expire(now)
        if self.quotas is not None and self.quotas.usage.withdraw(key):
            found += self.quotas.freed(key.namespace)
        scheduled = self.objects.get(key)
        if scheduled is not None and scheduled.by_room:
            self.refresh()
        return found

    def expire(self, now: float) -> list[ObjectKey]:
        """Reservations end by themselves until a time; the objects that may be placed by that."""
        return self.helped() if self.ledger.expire(now) else []

    def promise(self, event: PlacementDecided | PlacementFailed, now: float) -> None:
        """A placement was decided and is on its way to the log: what it takes counts from now on."""
        key, targets = event.key, event.clusters
        self.ledger.promise(key, targets, now)
        self.peers.promise(key, (target.name for target in targets))
        if self.quotas is not None and event.requests is not None:
            requests = recorded(event.requests, sets=self.objects[key].requests.sets)
            self.quotas.usage.promise(key, requests, targets)

    def tried(self, key: ObjectKey, count: bool = True) -> None:
        """An object did not fit into all present capacity; `count` that of its group, unless it was counted."""
        if self.watch.active and self.watch.short:
            rooms = self.refresh()
            self.watch.tried(
                key, self.clusters.by_name, rooms.by_name, self.watch.unreviewed, self.watch.changes, count
            )

    def forget(self, purged: Purged) -> None:
        """Drop what is gone from the log, unless newer facts of it exist."""
        for key, _ in self.drop(purged):
            self.watch.file(key, None)
            self.watch.handed.pop(key, None)
            self.ledger.forget(key)
            if self.quotas is not None:
                self.quotas.settled(key)
                self.quotas.usage.forget(key)
        for name in purged.clusters:
            if name not in self.clusters.by_name:
                self.leaving.pop(name, None)
                self.left_at.pop(name, None)

    def came_free(self, released: bool, seq: int) -> list[ObjectKey]:
        """Who may be placed now that room was given back by a fact at a position."""
        if not released:
            return []
        self.watch.moved = seq
        return self.helped()


def fold(state: SchedulerState, seq: int, subject: str, event: Known, stored: float = 0.0) -> Iterable[ObjectKey]:
    """Apply one fact, `stored` at a time, and return the objects to decide again."""
    found = _fold(state, seq, subject, event, stored)
    return found if state.quotas is None else [*found, *_counted(state, state.quotas, event)]


def _counted(state: SchedulerState, quotas: NamespaceQuotas, event: Known) -> list[ObjectKey]:
    """Follow a fact in what namespaces use and what limits them; who may be tried again by it."""
    match event:
        case PolicyChanged() | PolicyDeleted():
            return quotas.take(event)
        case BindingRequested() | BindingReleased():
            scheduled = state.objects[event.key]
            scheduled.requests = readable_requests(scheduled.spec)
        case (
            PlacementDecided()
            | PlacementFailed()
            | PlacementReleased()
            | EvictionRequested()
            | EvictionFinished()
            | ReplicasDescheduled()
        ):
            scheduled = state.objects[event.key]
        case _:
            return []
    if isinstance(scheduled.binding, BindingRequested):
        less = quotas.usage.stands(event.key, scheduled.in_force, scheduled.targets)
    else:
        quotas.settled(event.key)
        less = quotas.usage.stands(event.key, NO_REQUESTS, ())
    return quotas.freed(event.key.namespace) if less else []


def _fold(state: SchedulerState, seq: int, subject: str, event: Known, stored: float) -> Iterable[ObjectKey]:
    match event:
        case BindingRequested() | BindingReleased():
            scheduled = state.take(seq, subject, event)
            needed = (scheduled.spec or {}).get("replicaRequirements")
            _read_request(state, scheduled, event, stored)
            scheduled.by_room = scheduled.spec is not None and divides_by_room(scheduled.spec)
            scheduled.touched = stored
            state.ledger.requested(event.key, event.uid, needs_in(scheduled.spec), seq)
            state.watch.file(event.key, interest_of(scheduled))
            # What held room holds less of it, or none.
            smaller = needed is not None and (scheduled.spec or {}).get("replicaRequirements") != needed
            return [event.key, *state.came_free(smaller, seq), *state.regrouped(event.key, scheduled, seq)]
        case PlacementDecided() | PlacementFailed() | PlacementReleased():
            before = state.of(event.key).placement
            scheduled = state.take(seq, subject, _slim(event))
            where, at = ((), stored) if isinstance(event, PlacementReleased) else (event.clusters, event.scheduled_at)
            missed = isinstance(event, PlacementFailed) and state.watch.moved > event.provenance.as_of
            released = state.ledger.placed(event.key, event.uid, where, at, seq)
            # Room that a move gave back was given back already when the move was decided.
            found = state.came_free(released or _takes_less(before, where), seq)
            found += state.regrouped(event.key, scheduled, seq)
            state.watch.file(event.key, interest_of(scheduled))
            if isinstance(event, PlacementFailed):
                state.tried(event.key, count=False)
            # Capacity that came while the failure was being written found no waiting object yet.
            return [*found, event.key] if missed else found
        case StatusRolledUp():
            return state.came_free(state.ledger.shown(event.key, event.uid, event.items, stored, seq), seq)
        case EvictionRequested() | EvictionFinished():
            scheduled = state.take(seq, subject, event)
            scheduled.touched = stored
            state.watch.file(event.key, interest_of(scheduled))
            return [event.key, *state.regrouped(event.key, scheduled, seq)]
        case ReplicasDescheduled():
            scheduled = state.take(seq, subject, event)
            scheduled.touched = stored
            return [event.key, *state.regrouped(event.key, scheduled, seq)]
        case CapacityEstimated():
            state.take(seq, subject, event)
            return (event.key,)
        case LeaseTaken():
            state.has_estimator = state.has_estimator or event.service == "estimator"
            return ()
        case ClusterChanged():
            if event.deleting:
                state.leaving[event.name], state.left_at[event.name] = seq, stored
            else:
                state.leaving.pop(event.name, None)
                state.left_at.pop(event.name, None)
            state.watch.moved = seq
            return _cluster_changed(state, event, stored)
        case ClusterRemoved():
            state.clusters = state.clusters.without(event.name)
            state.ledger.removed(event.name)
            state.watch.describe(event.name)
            state.shapes.pop(event.name, None)
            state.leaving[event.name], state.left_at[event.name] = seq, stored
            # Those that could not be placed say how many clusters there are, and why each of them does not fit.
            unfit = [key for key in state.watch.failed if _fits_nowhere(state.objects[key])]
            return list(dict.fromkeys([*state.running_in(event.name), *unfit]))
        case _:
            return ()


def _fits_nowhere(scheduled: Scheduled) -> bool:
    placed = scheduled.placed
    return isinstance(placed, PlacementFailed) and placed.reason == NO_CLUSTER


def _slim(event: PlacementEvent) -> PlacementEvent:
    """The same, with what other placements have alike shared with them."""
    if isinstance(event, PlacementReleased) or isinstance(event.placement, msgspec.UnsetType):
        return event
    return msgspec.structs.replace(event, placement=shared_raw(event.placement))


def _takes_less(before: PlacementEvent | None, after: Iterable[TargetCluster]) -> bool:
    """Whether a placement leaves room in some cluster that the one before it took."""
    if not isinstance(before, PlacementDecided | PlacementFailed) or not before.clusters:
        return False
    now = {target.name: _units(target) for target in after}
    return any(_units(target) > now.get(target.name, 0) for target in before.clusters)


def _units(target: TargetCluster) -> int:
    return 1 if target.replicas is None else target.replicas


def _read_request(
    state: SchedulerState, scheduled: Scheduled, event: BindingRequested | BindingReleased, stored: float
) -> None:
    """Decode the request and the name of its scheduler."""
    before, named = scheduled.spec, scheduler_of(scheduled.spec)
    spec: Manifest | None = spec_of(event.spec) if isinstance(event, BindingRequested) else None
    scheduled.spec, scheduled.compiled = spec, compiled_of(spec)
    scheduled.priority = priority_of(spec)
    if before is not None and spec is not None and named != scheduler_of(spec):
        state.watch.handed[event.key] = stored


def _cluster_changed(state: SchedulerState, event: ClusterChanged, stored: float) -> Iterable[ObjectKey]:
    manifest: Manifest = msgspec.json.decode(event.manifest)
    before = state.clusters.by_name.get(event.name)
    view = cluster_view(manifest)
    if event.deleting:
        view = msgspec.structs.replace(view, deleting=True)
    state.clusters = state.clusters.with_cluster(view)
    state.ledger.changed.add(event.name)
    if before is None or before.capacity.differs(view.capacity):
        state.ledger.summarised(event.name, stored)
    shape = _Change(manifest["metadata"].get("labels"), manifest.get("spec"), event.deleting)
    known = state.shapes.get(event.name)
    state.shapes[event.name] = shape
    found: list[ObjectKey] = []
    if before is None or known != shape or view.apis != before.apis:
        state.watch.describe(event.name)

    def stands_there(key: ObjectKey) -> bool:
        there = any(target.name == event.name for target in state.objects[key].targets)
        return there and not state.peers.concerns(key, None)

    if before is None or known != shape:
        found += state.watch.changed(before, view, stands_there)
    elif gained := view.apis - before.apis:
        found += state.watch.changed(before, view, stands_there, gained)
    if event.deleting and (known is None or not known.deleting):
        found += state.running_in(event.name)
    return [*found, *state.helped()]
