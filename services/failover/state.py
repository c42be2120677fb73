"""Projects the input of eviction: bindings, placements, health, taints of clusters, and the evictions so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from schemas.codec import Known
from schemas.events.binding import BindingReleased, BindingRequested
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.eviction import EvictionFinished, EvictionRequested, Postponed
from schemas.events.rollup import StatusRolledUp
from schemas.keys import ObjectKey
from services._rules.facets import FacetEvent, ObjectFacets, ObjectStates, is_of_facet
from services._rules.failover.application_failover import UNHEALTHY
from services._rules.failover.taint_eviction import no_execute
from services._rules.kubernetes.taints import Taint


class Moving(ObjectFacets):
    """Every facet of one object that decides whether it has to move."""

    unhealthy_since: Mapping[str, float] = {}
    """When each cluster was first seen unhealthy, in seconds since 1970, without a good report since."""
    cares_for_health: bool = False
    """Whether its policy asks to leave clusters where it is unhealthy."""

    @property
    def postponed(self) -> tuple[Postponed, ...]:
        """Clusters that are on record as left as soon as something arrives."""
        eviction = self.eviction
        return eviction.postponed if isinstance(eviction, EvictionRequested) and eviction.uid == self.uid else ()


class FailoverState(ObjectStates[Moving]):
    """The projection; `clusters` has the NoExecute taints of every member."""

    kind = Moving
    writes = "eviction"
    clusters: dict[str, tuple[Taint, ...]] = field(default_factory=dict)
    postponed: set[ObjectKey] = field(default_factory=set)
    """Objects that should leave a cluster and cannot be moved yet."""
    last_eviction: float = 0.0
    """When the latest eviction was requested, in seconds since 1970."""


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
    if is_of_facet(event):
        return (event.key,) if _concerns(state, state.take(seq, subject, event), event) else ()
    match event:
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


def _concerns(state: FailoverState, moving: Moving, event: FacetEvent) -> bool:
    """Take in what else a fact says about an object; whether a decision can come to anything by it."""
    match event:
        case BindingRequested() | BindingReleased():
            cared = moving.cares_for_health
            moving.cares_for_health = isinstance(event, BindingRequested) and _cares(event)
            return cared or _may_move(state, moving)
        case StatusRolledUp():
            at, since = event.provenance.decided_at, moving.unhealthy_since
            moving.unhealthy_since = {
                item.cluster: since.get(item.cluster, at) for item in event.items if item.health == UNHEALTHY
            }
            return bool(moving.tasks or moving.postponed) or moving.cares_for_health
        case EvictionRequested() | EvictionFinished():
            (state.postponed.add if moving.postponed else state.postponed.discard)(event.key)
            if isinstance(event, EvictionRequested) and event.tasks:
                state.last_eviction = max(state.last_eviction, event.provenance.decided_at)
            return True
        case _:
            return _may_move(state, moving)


def _may_move(state: FailoverState, moving: Moving) -> bool:
    """Whether a decision can come to anything: it was evicted before, its health counts, or some cluster is tainted."""
    return moving.eviction is not None or moving.cares_for_health or any(state.clusters.values())


def _cares(event: BindingRequested) -> bool:
    # Most policies have no failover section: those need no decoding.
    if b'"failover"' not in bytes(event.spec):
        return False
    failover = _binding(event.spec).failover
    return failover is not None and failover.application is not None


def _concerned(state: FailoverState, cluster: str) -> list[ObjectKey]:
    """Objects that run in a cluster, or that have to leave it."""
    return [
        key
        for key, moving in state.objects.items()
        if moving.runs_in(cluster) or any(task.from_cluster == cluster for task in moving.tasks)
    ]
