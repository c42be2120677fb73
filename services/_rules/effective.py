"""Folds requests, placements, evictions and deschedulings of one object into the clusters that hold it; the only fold.

An eviction stays in force, finished or not, until a placement exists that was decided with it in view (`as_of` at or
after the eviction): a restart in between can neither resurrect a copy nor lose one. Until then, a cluster that need not
be left any more holds what it held before. Replicas that were taken back stay so until any later placement.

Sources: docs/sources.md#rendering, #failover, #descheduler.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from schemas.events.binding import BindingEvent, BindingRequested
from schemas.events.descheduling import DeschedulingEvent
from schemas.events.eviction import EvictionEvent, EvictionRequested, EvictionTask
from schemas.events.placement import PlacementDecided, PlacementEvent, PlacementFailed, TargetCluster
from schemas.manifest import Manifest

REMOVED_AT_ONCE: Final = frozenset({"Directly", "Immediately"})
"""Purge modes that let go of a copy before its replacement is there."""


class Effective(Struct, frozen=True):
    """Clusters of an object: `targets` get the present manifest, `kept` hold on to the copy they have."""

    targets: tuple[TargetCluster, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def occupied(self) -> tuple[str, ...]:
        """Names of all clusters that may hold a copy, sorted."""
        return tuple(sorted({target.name for target in self.targets} | set(self.kept)))


NOWHERE = Effective()


def effective(
    binding: BindingEvent | None,
    placement: PlacementEvent | None,
    eviction: EvictionEvent | None = None,
    *,
    eviction_seq: int = 0,
    descheduling: DeschedulingEvent | None = None,
    placement_seq: int = 0,
    clusters: Iterable[str] = (),
    required_by: Iterable[TargetCluster] = (),
) -> Effective:
    """The target clusters of a binding.

    `clusters` are the members known now: cluster-wide requests (`everywhere`) go to all of them, and a cluster that
    is no member holds nothing. `required_by` are the clusters of the bindings that depend on this one. A facet of
    another uid counts as absent, and so does a descheduling of a placement that is not the one at `placement_seq`.
    """
    if not isinstance(binding, BindingRequested):
        return NOWHERE
    known = set(clusters)
    if binding.everywhere:
        return Effective(targets=tuple(TargetCluster(name) for name in sorted(known)))
    targets: dict[str, TargetCluster] = {}
    placed_as_of = 0
    if isinstance(placement, PlacementDecided | PlacementFailed) and placement.uid == binding.uid:
        targets = {target.name: target for target in with_descheduling(placement, placement_seq, descheduling)}
        placed_as_of = placement.provenance.as_of
    kept: set[str] = set()
    if eviction is not None and eviction.uid == binding.uid:
        if placed_as_of < eviction_seq:
            targets = {target.name: target for target in _after_eviction(targets.values(), eviction)}
        kept = {name for name in _holding_on(eviction) if name not in targets}
    for target in required_by:
        targets.setdefault(target.name, target)
    return Effective(
        targets=tuple(target for name, target in sorted(targets.items()) if name in known),
        kept=tuple(sorted(name for name in kept if name in known and name not in targets)),
    )


def current_targets(
    placement: PlacementDecided | PlacementFailed | None,
    eviction: EvictionEvent | None,
    eviction_seq: int,
    descheduling: DeschedulingEvent | None = None,
    placement_seq: int = 0,
) -> tuple[TargetCluster, ...]:
    """The clusters of a placement less what was taken away since.

    Those of an eviction that it was not decided in view of are gone; those that were lowered have fewer replicas.
    """
    if placement is None:
        return ()
    targets = with_descheduling(placement, placement_seq, descheduling)
    if eviction is None or eviction.uid != placement.uid or placement.provenance.as_of >= eviction_seq:
        return targets
    return _after_eviction(targets, eviction)


def _after_eviction(targets: Iterable[TargetCluster], eviction: EvictionEvent) -> tuple[TargetCluster, ...]:
    """The targets of a placement that has not seen an eviction, sorted by name."""
    gone = evicted_clusters(eviction)
    found = {target.name: target for target in targets if target.name not in gone}
    for target in eviction.returned:
        found.setdefault(target.name, target)
    return tuple(found[name] for name in sorted(found))


def with_descheduling(
    placement: PlacementDecided | PlacementFailed, placement_seq: int, descheduling: DeschedulingEvent | None
) -> tuple[TargetCluster, ...]:
    """The clusters of the placement at a position, with the replicas that a descheduling of it left them."""
    if descheduling is None or not lowers(descheduling, placement.uid, placement_seq):
        return placement.clusters
    left = {item.name: item.replicas for item in descheduling.clusters}
    return tuple(
        TargetCluster(target.name, min(target.replicas, left[target.name]))
        if target.replicas is not None and target.name in left
        else target
        for target in placement.clusters
    )


def lowers(descheduling: DeschedulingEvent | None, uid: str, placement_seq: int) -> bool:
    """Whether a descheduling is in force: it speaks of this uid and of the placement at this position."""
    return descheduling is not None and descheduling.uid == uid and descheduling.placement == placement_seq > 0


def tasks_of(eviction: EvictionEvent | None, uid: str) -> tuple[EvictionTask, ...]:
    """The tasks under way of the object with this uid."""
    return eviction.tasks if isinstance(eviction, EvictionRequested) and eviction.uid == uid else ()


def spec_with_targets(spec: Manifest, targets: Iterable[TargetCluster], tasks: tuple[EvictionTask, ...]) -> Manifest:
    """A binding's spec with the clusters that run the object and those it is leaving."""
    now = {**spec, "clusters": [{"name": target.name, "replicas": target.replicas or 0} for target in targets]}
    if tasks:
        now["gracefulEvictionTasks"] = [{"fromCluster": task.from_cluster} for task in tasks]
    return now


def evicted_clusters(eviction: EvictionEvent) -> frozenset[str]:
    """Clusters that the object has left or has to leave, as far as no placement has seen it."""
    tasks = eviction.tasks if isinstance(eviction, EvictionRequested) else ()
    return frozenset((*(task.from_cluster for task in tasks), *eviction.left, *eviction.unseen))


def removed_at_once(tasks: Iterable[EvictionTask]) -> tuple[EvictionTask, ...]:
    """The tasks whose cluster loses its copy before the object may start elsewhere."""
    return tuple(task for task in tasks if task.purge_mode in REMOVED_AT_ONCE)


def _holding_on(eviction: EvictionEvent) -> set[str]:
    """Clusters that keep the copy they have until their task is over."""
    tasks = eviction.tasks if isinstance(eviction, EvictionRequested) else ()
    return {task.from_cluster for task in tasks if task.purge_mode not in REMOVED_AT_ONCE}
