"""Projects the input of eviction: bindings, placements, health, taints of clusters, and the evictions so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from schemas.codec import Known
from schemas.events.binding import BindingEvent, BindingReleased, BindingRequested
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.eviction import EvictionEvent, EvictionFinished, EvictionRequested, EvictionTask
from schemas.events.placement import PlacementDecided, PlacementEvent, PlacementFailed, PlacementReleased
from schemas.events.rollup import StatusRolledUp
from schemas.hints import Purged
from schemas.keys import ObjectKey
from schemas.subjects import eviction as eviction_subject
from services._rules.effective import tasks_of
from services._rules.failover.application_failover import UNHEALTHY
from services._rules.failover.taint_eviction import no_execute
from services._rules.history.retention import all_closed
from services._rules.kubernetes.taints import Taint


class Moving(Struct):
    """Every facet of one object that decides whether it has to move."""

    binding: BindingEvent | None = None
    binding_seq: int = 0
    placement: PlacementEvent | None = None
    placement_seq: int = 0
    eviction: EvictionEvent | None = None
    eviction_seq: int = 0
    rollup: StatusRolledUp | None = None
    rollup_seq: int = 0
    unhealthy_since: Mapping[str, float] = {}
    """When each cluster was first seen unhealthy, in seconds since 1970, without a good report since."""
    cares_for_health: bool = False
    """Whether its policy asks to leave clusters where it is unhealthy."""

    @property
    def tasks(self) -> tuple[EvictionTask, ...]:
        """Evictions under way for the present uid."""
        return tasks_of(self.eviction, self.binding.uid) if self.binding is not None else ()

    @property
    def placed(self) -> PlacementDecided | PlacementFailed | None:
        """The placement in force for the present uid."""
        placement, binding = self.placement, self.binding
        if isinstance(placement, PlacementDecided | PlacementFailed) and binding is not None:
            return placement if placement.uid == binding.uid else None
        return None


class FailoverState(Struct):
    """The projection; `clusters` has the NoExecute taints of every member."""

    objects: dict[ObjectKey, Moving] = field(default_factory=dict)
    clusters: dict[str, tuple[Taint, ...]] = field(default_factory=dict)
    subjects: dict[str, int] = field(default_factory=dict)
    last_eviction: float = 0.0
    """When the latest eviction was requested, in seconds since 1970."""

    def of(self, key: ObjectKey) -> Moving:
        """Facets of one object, made on first mention."""
        moving = self.objects.get(key)
        if moving is None:
            moving = self.objects[key] = Moving()
        return moving


class _Spec(Struct, frozen=True):
    taints: list[Taint] | None = None


class _Cluster(Struct, frozen=True):
    spec: _Spec = _Spec()


class _Failover(Struct, frozen=True):
    application: dict[str, Any] | None = None


class _Binding(Struct, frozen=True):
    failover: _Failover | None = None


_cluster = msgspec.json.Decoder(_Cluster).decode
_binding = msgspec.json.Decoder(_Binding).decode


def fold(state: FailoverState, seq: int, subject: str, event: Known) -> Iterable[ObjectKey]:
    """Apply one fact and name the objects that may have to move by it."""
    match event:
        case BindingRequested() | BindingReleased():
            moving = state.of(event.key)
            moving.binding, moving.binding_seq = event, seq
            cared, moving.cares_for_health = (
                moving.cares_for_health,
                isinstance(event, BindingRequested) and _cares(event),
            )
            return (event.key,) if cared or _may_move(state, moving) else ()
        case PlacementDecided() | PlacementFailed() | PlacementReleased():
            moving = state.of(event.key)
            moving.placement, moving.placement_seq = event, seq
            return (event.key,) if _may_move(state, moving) else ()
        case StatusRolledUp():
            return _rolled_up(state, seq, event)
        case EvictionRequested() | EvictionFinished():
            moving = state.of(event.key)
            moving.eviction, moving.eviction_seq = event, seq
            state.subjects[subject] = seq
            if isinstance(event, EvictionRequested):
                state.last_eviction = max(state.last_eviction, event.provenance.decided_at)
            return (event.key,)
        case ClusterChanged():
            taints = no_execute(_cluster(event.manifest).spec.taints or ())
            before = state.clusters.get(event.name)
            state.clusters[event.name] = taints
            return () if before == taints else _concerned(state, event.name)
        case ClusterRemoved():
            state.clusters.pop(event.name, None)
            return _concerned(state, event.name)
        case _:
            return ()


def _may_move(state: FailoverState, moving: Moving) -> bool:
    """Whether a decision can come to anything: it was evicted before, its health counts, or some cluster is tainted."""
    return moving.eviction is not None or moving.cares_for_health or any(state.clusters.values())


def _cares(event: BindingRequested) -> bool:
    # Most policies have no failover section: those need no decoding.
    if b'"failover"' not in bytes(event.spec):
        return False
    failover = _binding(event.spec).failover
    return failover is not None and failover.application is not None


def _rolled_up(state: FailoverState, seq: int, event: StatusRolledUp) -> Iterable[ObjectKey]:
    moving = state.of(event.key)
    moving.rollup, moving.rollup_seq = event, seq
    at = event.provenance.decided_at
    moving.unhealthy_since = {
        item.cluster: moving.unhealthy_since.get(item.cluster, at) for item in event.items if item.health == UNHEALTHY
    }
    return (event.key,) if moving.tasks or moving.cares_for_health else ()


def _concerned(state: FailoverState, cluster: str) -> list[ObjectKey]:
    """Objects that run in a cluster, or that have to leave it."""
    return [
        key
        for key, moving in state.objects.items()
        if any(task.from_cluster == cluster for task in moving.tasks)
        or ((placed := moving.placed) is not None and any(target.name == cluster for target in placed.clusters))
    ]


def forget(state: FailoverState, purged: Purged) -> None:
    """Drop objects that are gone from the log, unless newer facts of them exist."""
    for key in (gone.key for gone in purged.objects):
        moving = state.objects.get(key)
        if moving is not None and all_closed(moving.binding, moving.placement, moving.eviction, moving.rollup):
            del state.objects[key]
            state.subjects.pop(eviction_subject(key), None)
