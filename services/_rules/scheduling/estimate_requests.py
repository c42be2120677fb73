"""When a division needs the room of members, up to which position an estimate must have looked, and of which clusters.

The scheduler, which waits for an answer, and the estimator, which gives it, work this out alike from the same facts, so
that no question has to be written down.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from schemas.events.estimate import CapacityEstimated
from schemas.events.eviction import EvictionEvent
from schemas.events.placement import PlacementDecided, PlacementFailed
from schemas.manifest import Manifest
from services._rules.effective import current_targets
from services._rules.scheduling.compiled_placement import compile_placement
from services._rules.scheduling.filters import filter_table
from services._rules.scheduling.index import ClusterIndex
from services._rules.scheduling.scheduling_views import BindingView

_BY_ROOM: Final = frozenset({"DynamicWeight", "Aggregated"})


def divides_by_room(spec: Manifest) -> bool:
    """Whether the replicas of a binding's spec are divided by what clusters have room for.

    A set of components goes where it fits whole, if it goes to one cluster.
    Source: docs/sources.md#replica-division.
    """
    scheduling = (spec.get("placement") or {}).get("replicaScheduling") or {}
    components = bool(spec.get("components"))
    if scheduling.get("replicaSchedulingType") != "Divided" or not (components or spec.get("replicas")):
        return False
    try:
        placement = compile_placement(spec["placement"])
    except msgspec.ValidationError:
        return False
    return placement.strategy in _BY_ROOM and (placement.single_cluster or not components)


def asked_at(
    binding: int,
    placed: PlacementDecided | PlacementFailed | None,
    eviction: EvictionEvent | None,
    eviction_seq: int,
    leaving: Mapping[str, int],
    lowered: int = 0,
) -> int:
    """Position of the newest fact that may cause a rescheduling of an object: only a later estimate answers.

    `binding` is the position of the request, `placed` the placement in force, `leaving` the positions at which
    clusters were seen to be deleted or gone, `lowered` that of the descheduling of this placement (0: none).
    """
    newest = binding
    if placed is None:
        return newest
    newest = max(newest, lowered)
    if eviction is not None and current_targets(placed, eviction, eviction_seq) != placed.clusters:
        newest = max(newest, eviction_seq)
    for target in placed.clusters if leaving else ():
        newest = max(newest, leaving.get(target.name, 0))
    return newest


def answers(estimate: CapacityEstimated | None, uid: str, position: int) -> bool:
    """Whether an estimate is of this object and saw everything up to a position."""
    return estimate is not None and estimate.uid == uid and estimate.provenance.as_of >= position


def candidates(index: ClusterIndex, view: BindingView) -> list[str]:
    """Clusters that some affinity of a binding admits, by name; a question about others would be idle."""
    names: set[str] = set()
    for observed in view.placement.affinity_names or ("",):
        table = filter_table(index, view, observed)
        names.update(cluster.name for cluster in table.passed)
        names.update(table.kept_if_target.keys() & {target.name for target in view.clusters})
    return sorted(names - view.evicting)
