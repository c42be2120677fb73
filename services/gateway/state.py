"""Projects the input of the served bindings and works: the facets of every object, and every copy by cluster.

Snapshots are immutable, so that an answer under way and the changes kept for watches go on showing one state.
Templates are not read: nothing that is shown depends on more of them than their binding repeats.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from msgspec import Struct, UnsetType, field
from msgspec.structs import replace

from schemas.codec import Known
from schemas.envelope import NO_PROVENANCE, Event, Provenance
from schemas.events.binding import BindingReleased, BindingRequested
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.descheduling import DeschedulingEvent, ReplicasDescheduled
from schemas.events.eviction import EvictionEvent, EvictionFinished, EvictionRequested
from schemas.events.observed import WorkObserved
from schemas.events.placement import PlacementDecided, PlacementFailed, PlacementReleased
from schemas.events.rollup import StatusRolledUp
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.hints import Purged
from schemas.keys import ObjectKey
from services._rules.facets import ServiceState
from services._rules.history.retention import all_closed

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


class Bound(Struct, frozen=True):
    """The facets of one object that its binding is shown from; `revision` is the highest of their positions.

    `observed_generation` is the binding generation of the last successful placement, 0 when it is not known.
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
    facts: int = 0
    observations: int = 0

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
            for copies in self.copies.values():
                copy = copies.get(key)
                if copy is not None and all_closed(copy.work):
                    del copies[key]
        for name in purged.clusters:
            if name in self.removed and all(all_closed(copy.work) for copy in self.copies.get(name, {}).values()):
                self.copies.pop(name, None)
                self.removed.discard(name)


def fold(state: GatewayState, seq: int, time: float, event: Known) -> Iterable[Place]:
    """Apply one event; `seq` is its position in its stream, `time` when it was stored."""
    if isinstance(event, WorkObserved):
        state.observations = seq
        return _observed(state, event)
    state.facts = seq
    match event:
        case BindingRequested() | BindingReleased():
            binding = _lean(event) if isinstance(event, BindingRequested) else None
            return _bound(state, event.key, seq, binding=binding)
        case PlacementDecided() | PlacementFailed() | PlacementReleased():
            return _placed(state, seq, time, event)
        case EvictionRequested() | EvictionFinished():
            return _bound(state, event.key, seq, eviction=_lean(event), eviction_seq=seq)
        case ReplicasDescheduled():
            return _bound(state, event.key, seq, descheduling=_lean(event))
        case StatusRolledUp():
            before = state.objects.get(event.key, _NOTHING).applied
            since = Since(event.fully_applied, time)
            applied = since if before is None else before.now(event.fully_applied, time)
            return _bound(state, event.key, seq, rollup=_lean(event), applied=applied)
        case WorkRendered() | WorkWithdrawn():
            return _worked(state, seq, time, event)
        case ClusterChanged():
            return _membership(state, event.name, removed=False)
        case ClusterRemoved():
            return _membership(state, event.name, removed=True)
        case _:
            return ()


_NOTHING: Final = Bound()
_EMPTY: Final = Copy()


def _bound(state: GatewayState, key: ObjectKey, seq: int, **facets: object) -> Iterable[Place]:
    state.objects[key] = replace(state.objects.get(key, _NOTHING), revision=seq, **facets)
    return _mark(state, Place("", key), seq)


def _mark(state: GatewayState, place: Place, revision: int) -> tuple[Place]:
    state.changed[place] = revision
    return (place,)


def _placed(
    state: GatewayState, seq: int, time: float, event: PlacementDecided | PlacementFailed | PlacementReleased
) -> Iterable[Place]:
    if isinstance(event, PlacementReleased):
        return _bound(state, event.key, seq, placement=None, placement_seq=seq, scheduled=None, observed_generation=0)
    before = state.objects.get(event.key, _NOTHING)
    good = isinstance(event, PlacementDecided)
    at = (event.scheduled_at if isinstance(event, PlacementDecided) else event.failed_at) or time
    same = before.scheduled if before.placement is not None and before.placement.uid == event.uid else None
    observed = before.observed_generation if same is not None else 0
    return _bound(
        state,
        event.key,
        seq,
        placement=_lean(event, Provenance(as_of=event.provenance.as_of)),
        placement_seq=seq,
        scheduled=Since(good, at) if same is None else same.now(good, at),
        observed_generation=event.binding_generation if good else observed,
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
    applied = before.applied.now(event.applied, event.at) if before.applied and same else Since(event.applied, event.at)
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
