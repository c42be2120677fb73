"""Projects the input of the served bindings and works: the facets of every object, and every copy by cluster.

Snapshots are immutable, so that an answer under way and the changes kept for watches go on showing one state.
Templates are not read: nothing that is shown depends on more of them than their binding repeats.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec
from msgspec import Struct, UnsetType, field
from msgspec.structs import replace

from schemas.codec import Known
from schemas.envelope import NO_PROVENANCE, Event, Provenance
from schemas.events.binding import BindingReleased, BindingRequested
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.descheduling import DeschedulingEvent, ReplicasDescheduled
from schemas.events.eviction import EvictionEvent, EvictionFinished, EvictionRequested
from schemas.events.observed import WorkObserved
from schemas.events.placement import PlacementDecided, PlacementFailed, PlacementReleased, TargetCluster
from schemas.events.rollup import StatusRolledUp
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.hints import Purged
from schemas.keys import ObjectKey
from services._rules.dependencies.dependency_index import DependencyIndex, Requirement
from services._rules.facets import ServiceState
from services._rules.history.retention import all_closed
from services.gateway.cluster_followers import Followed, Followers, followed_by
from services.gateway.measured_members import MeasuredMember, measured_member

FILTERS: Final = (
    "binding.>",
    "placement.>",
    "eviction.>",
    "descheduling.>",
    "rollup.>",
    "work.>",
    "cluster.*",
    "observed.>",
)

E_ = TypeVar("E_", bound=Event)


class Since(Struct, frozen=True, gc=False):
    """A condition's status and the time at which it took that value, in seconds since 1970."""

    status: bool
    at: float

    def now(self, status: bool, at: float) -> Since:
        """The condition after another report."""
        return self if status == self.status else Since(status, at)


class Owner(Struct, frozen=True):
    """A binding that depends on another: its namespace, name and permanent id, and the clusters of its object."""

    namespace: str
    name: str
    id: str
    clusters: tuple[TargetCluster, ...]


class Bound(Struct, frozen=True):
    """The facets of one object that its binding is shown from; `revision` is the highest of their positions.

    `observed_generation` is the generation of the binding at the last successful placement, 0 when it is not known.
    `owners` are some of the `owner_count` bindings that depend on this one; they are added when it is shown.
    `followed`: what of the clusters it is placed by again; `ran_at`: when a change of one of these did that last.
    """

    revision: int = 0
    binding: BindingRequested | None = None
    placement: PlacementDecided | PlacementFailed | None = None
    eviction: EvictionEvent | None = None
    eviction_seq: int = 0
    descheduling: DeschedulingEvent | None = None
    placement_seq: int = 0
    rollup: StatusRolledUp | None = None
    scheduled: Since | None = None
    applied: Since | None = None
    observed_generation: int = 0
    owners: tuple[Owner, ...] = ()
    owner_count: int = 0
    followed: Followed | None = None
    ran_at: float = 0.0

    @property
    def shown(self) -> bool:
        """Whether there is a binding to show: asked for, and not by rule in every cluster."""
        return self.binding is not None and not self.binding.everywhere


class Copy(Struct, frozen=True):
    """The work of one object in one cluster, and its observation.

    `withdrawn` is the time at which the work was withdrawn, 0 while it is rendered; `since` the time of the first known
    rendering.
    """

    work: WorkRendered | WorkWithdrawn | None = None
    work_seq: int = 0
    rendered: WorkRendered | None = None
    since: float = 0.0
    withdrawn: float = 0.0
    observed: WorkObserved | None = None
    dispatching: Since | None = None
    applied: Since | None = None

    @property
    def shown(self) -> bool:
        """Whether there is a work to show: wanted, or still seen in the cluster after it was withdrawn."""
        work, seen = self.work, self.observed
        if isinstance(work, WorkRendered):
            return True
        return work is not None and seen is not None and seen.uid == work.uid and seen.applied


class Place(Struct, frozen=True, array_like=True, gc=False):
    """What changed: the binding of an object (no cluster), or the copy of one in a cluster."""

    cluster: str
    key: ObjectKey


class GatewayState(ServiceState):
    """The projection. `changed` holds the places to serve again, with the revision at which each changed.

    `facts` and `observations` are the positions of the last messages folded from either stream.
    """

    objects: dict[ObjectKey, Bound] = field(default_factory=dict)
    copies: dict[str, dict[ObjectKey, Copy]] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    changed: dict[Place, int] = field(default_factory=dict)
    required: DependencyIndex = field(default_factory=DependencyIndex)
    facts: int = 0
    observations: int = 0
    followers: Followers = field(default_factory=Followers)
    shaped: dict[str, float] = field(default_factory=dict)
    """When the labels or the spec of each cluster changed last."""
    measured: dict[str, MeasuredMember] = field(default_factory=dict)
    """Members as they are asked for metrics."""

    @property
    def revision(self) -> int:
        """Revision of the works: it grows with every message of either stream."""
        return self.facts + self.observations

    def copy(self, cluster: str, key: ObjectKey) -> Copy | None:
        """What is shown of an object in a cluster; None for a cluster that is no member any more."""
        return None if cluster in self.removed else self.copies.get(cluster, {}).get(key)

    def forget(self, purged: Purged) -> None:
        """Drop what is shown no more and is gone from the log, unless newer facts of it exist."""
        for key in (gone.key for gone in purged.objects):
            bound = self.objects.get(key)
            if bound is not None and bound.binding is None and bound.placement is None and all_closed(bound.rollup):
                del self.objects[key]
                self.followers.file(key, None, "")
            for copies in self.copies.values():
                copy = copies.get(key)
                if copy is not None and all_closed(copy.work):
                    del copies[key]
        for name in purged.clusters:
            if name in self.removed and all(all_closed(copy.work) for copy in self.copies.get(name, {}).values()):
                self.copies.pop(name, None)
                self.shaped.pop(name, None)
                self.removed.discard(name)


def fold(state: GatewayState, seq: int, time: float, event: Known) -> Iterable[Place]:
    """Apply one event; `seq` is its position in its stream, `time` when it was stored."""
    if isinstance(event, WorkObserved):
        state.observations = seq
        return _observed(state, event)
    state.facts = seq
    match event:
        case BindingRequested() | BindingReleased():
            requires = event.requires if isinstance(event, BindingRequested) else ()
            return (*_requested(state, seq, event), *_required(state, event.key, seq, requires))
        case PlacementDecided() | PlacementFailed() | PlacementReleased():
            return _placed(state, seq, time, event)
        case EvictionRequested() | EvictionFinished():
            decided = Provenance(decided_at=event.provenance.decided_at)
            return _moved(state, event.key, seq, eviction=_lean(event, decided), eviction_seq=seq)
        case ReplicasDescheduled():
            return _moved(state, event.key, seq, descheduling=_lean(event))
        case StatusRolledUp():
            before = state.objects.get(event.key, _NOTHING)
            same = before.applied if before.rollup is not None and before.rollup.uid == event.uid else None
            at = event.provenance.decided_at or time
            applied = _since(same, event.fully_applied, event.since, at)
            return _bound(state, event.key, seq, rollup=_lean(event), applied=applied)
        case WorkRendered() | WorkWithdrawn():
            return _worked(state, seq, time, event)
        case ClusterChanged():
            state.measured[event.name] = measured_member(event)
            return [*_membership(state, event.name, removed=False), *_placed_again(state, seq, event)]
        case ClusterRemoved():
            state.measured.pop(event.name, None)
            return _membership(state, event.name, removed=True)
        case _:
            return ()


_NOTHING: Final = Bound()
_EMPTY: Final = Copy()


def _bound(state: GatewayState, key: ObjectKey, seq: int, **facets: object) -> Iterable[Place]:
    state.objects[key] = replace(state.objects.get(key, _NOTHING), revision=seq, **facets)
    return _mark(state, Place("", key), seq)


def _moved(state: GatewayState, key: ObjectKey, seq: int, **facets: object) -> Iterable[Place]:
    """Take in where an object runs: what it requires shows that, too."""
    places = _bound(state, key, seq, **facets)
    required = state.required.requires(key)
    return (*places, *_dependencies(state, required, seq)) if required else places


def _required(state: GatewayState, key: ObjectKey, seq: int, requires: tuple[ObjectKey, ...]) -> Iterable[Place]:
    """Take in what an object requires."""
    before = state.required.requires(key)
    if not before and not requires:
        return ()
    state.required.update(key, Requirement(requires))
    return _dependencies(state, dict.fromkeys((*before, *requires)), seq)


def _dependencies(state: GatewayState, keys: Iterable[ObjectKey], seq: int) -> Iterable[Place]:
    return [place for key in keys if key in state.objects for place in _mark(state, Place("", key), seq)]


def _requested(state: GatewayState, seq: int, event: BindingRequested | BindingReleased) -> Iterable[Place]:
    before = state.objects.get(event.key, _NOTHING)
    if isinstance(event, BindingReleased):
        state.followers.file(event.key, None, "")
        return _bound(state, event.key, seq, binding=None, followed=None)
    known = before.binding
    same = known is not None and known.uid == event.uid
    # Labels and annotations change without it.
    spec_stands = known is not None and same and known.generation == event.generation
    followed = before.followed if spec_stands else None if event.everywhere else followed_by(event.spec)
    placement = before.placement
    state.followers.file(event.key, followed, placement.affinity_name if placement is not None else "")
    at = known.provenance.decided_at if known is not None and spec_stands else event.provenance.decided_at
    binding = _lean(event, Provenance(decided_at=at))
    return _bound(state, event.key, seq, binding=binding, followed=followed, ran_at=before.ran_at if same else 0.0)


def _placed_again(state: GatewayState, seq: int, event: ClusterChanged) -> Iterable[Place]:
    """The objects that were placed again by a change of a cluster; there is a fact only where something came of it."""
    at = event.shaped_at
    if at <= state.shaped.get(event.name, 0.0):
        return []
    state.shaped[event.name] = at
    places: list[Place] = []
    for key in state.followers.of(msgspec.json.decode(event.manifest)):
        bound = state.objects[key]
        placement = bound.placement
        if isinstance(placement, PlacementDecided) and max(placement.scheduled_at, bound.ran_at) < at:
            places += _bound(state, key, seq, ran_at=at)
    return places


def _since(before: Since | None, status: bool, since: float, at: float) -> Since:
    """Since when a condition has its status: what the fact says, else what was shown before, else the fact's time."""
    if since:
        return Since(status, since)
    return Since(status, at) if before is None else before.now(status, at)


def _mark(state: GatewayState, place: Place, revision: int) -> tuple[Place]:
    state.changed[place] = revision
    return (place,)


def _placed(
    state: GatewayState, seq: int, time: float, event: PlacementDecided | PlacementFailed | PlacementReleased
) -> Iterable[Place]:
    if isinstance(event, PlacementReleased):
        return _moved(state, event.key, seq, placement=None, placement_seq=seq, scheduled=None, observed_generation=0)
    before = state.objects.get(event.key, _NOTHING)
    good = isinstance(event, PlacementDecided)
    at = (event.scheduled_at if isinstance(event, PlacementDecided) else event.failed_at) or time
    same = before.scheduled if before.placement is not None and before.placement.uid == event.uid else None
    observed = before.observed_generation if same is not None else 0
    if good or event.observed_generation:
        observed = event.observed_generation or event.binding_generation
    state.followers.file(event.key, before.followed, event.affinity_name)
    return _moved(
        state,
        event.key,
        seq,
        placement=_lean(event, Provenance(as_of=event.provenance.as_of)),
        placement_seq=seq,
        scheduled=_since(same, good, event.since, at),
        observed_generation=observed,
    )


def _worked(state: GatewayState, seq: int, time: float, event: WorkRendered | WorkWithdrawn) -> Iterable[Place]:
    copies = state.copies.setdefault(event.cluster, {})
    before = copies.get(event.key, _EMPTY)
    same = before if before.work is not None and before.work.uid == event.uid else _EMPTY
    # After a start the observation may have come before the work that it refers to.
    seen = before.applied if before.observed is not None and before.observed.uid == event.uid else None
    lean = _lean(event)
    if isinstance(lean, WorkRendered):
        dispatching = not lean.suspended
        copies[event.key] = replace(
            before,
            work=lean,
            work_seq=seq,
            rendered=lean,
            since=same.since or time,
            withdrawn=0.0,
            dispatching=same.dispatching.now(dispatching, time) if same.dispatching else Since(dispatching, time),
            applied=seen,
        )
    else:
        copies[event.key] = replace(
            before,
            work=lean,
            work_seq=seq,
            rendered=same.rendered,
            since=same.since or time,
            withdrawn=time,
            applied=seen,
        )
    return _mark(state, Place(lean.cluster, lean.key), state.revision)


def _observed(state: GatewayState, event: WorkObserved) -> Iterable[Place]:
    copies = state.copies.setdefault(event.cluster, {})
    before = copies.get(event.key, _EMPTY)
    same = before.observed is not None and before.observed.uid == event.uid
    applied = _since(before.applied if same else None, event.applied, event.since, event.at)
    lean = _lean(event)
    copies[lean.key] = replace(before, observed=lean, applied=applied)
    return _mark(state, Place(lean.cluster, lean.key), state.revision)


def _membership(state: GatewayState, cluster: str, *, removed: bool) -> Iterable[Place]:
    if removed == (cluster in state.removed):
        return ()
    (state.removed.add if removed else state.removed.discard)(cluster)
    places = [Place(cluster, key) for key in state.copies.get(cluster, ())]
    for place in places:
        state.changed[place] = state.revision
    return places


def _lean(event: E_, provenance: Provenance = NO_PROVENANCE) -> E_:
    """The event without what is never shown."""
    return replace(event, provenance=provenance)


def manifest_of(work: WorkRendered | None) -> bytes | None:
    """Bytes of a manifest that rides in its fact; None when it has to be fetched by digest."""
    if work is None or isinstance(work.manifest, UnsetType):
        return None
    return bytes(work.manifest)
