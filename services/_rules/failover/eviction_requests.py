"""Evicts an object from a cluster: removes the target, and adds a task with the state to preserve."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from msgspec.structs import replace

from schemas.events.eviction import EvictionTask
from schemas.events.placement import TargetCluster as Target
from schemas.events.rollup import Cleared
from services._rules.effective import REMOVED_AT_ONCE

__all__ = ["Target", "awaits_removal", "carried_labels", "evict", "removed"]


def evict(
    targets: Sequence[Target], tasks: Sequence[EvictionTask], task: EvictionTask
) -> tuple[tuple[Target, ...], tuple[EvictionTask, ...]]:
    """Targets without the task's cluster, and the tasks with it.

    Nothing happens where the cluster is no target; a cluster that has a task gets no second one. The replicas it had
    are noted in the task.
    """
    leaving = next((target for target in targets if target.name == task.from_cluster), None)
    if leaving is None:
        return tuple(targets), tuple(tasks)
    left = tuple(target for target in targets if target is not leaving)
    if any(known.from_cluster == task.from_cluster for known in tasks):
        return left, tuple(tasks)
    return left, (*tasks, replace(task, replicas=leaving.replicas or None))


def carried_labels(tasks: Sequence[EvictionTask], cluster: str, target_count: int) -> Mapping[str, str]:
    """Preserved state that the copy in a cluster gets as labels (docs/sources.md#application-failover).

    Only where the object runs in one cluster, its last eviction removed the old copy at once, and the cluster is new to
    the object.
    """
    if target_count != 1 or not tasks:
        return {}
    last = tasks[-1]
    return last.preserved_state if last.purge_mode in REMOVED_AT_ONCE and cluster not in last.clusters_before else {}


def removed(tasks: Sequence[EvictionTask], cleared: Sequence[Cleared]) -> tuple[EvictionTask, ...]:
    """The tasks, with those noted as removed whose cluster was reported clear of the copy."""
    gone = {(report.cluster, report.since) for report in cleared}
    return tuple(
        replace(task, removed=True)
        if task.purge_mode in REMOVED_AT_ONCE and (task.from_cluster, task.created_at) in gone
        else task
        for task in tasks
    )


def awaits_removal(tasks: Sequence[EvictionTask], held: Container[str]) -> bool:
    """Whether a copy that goes before the object may start elsewhere is still there (docs/sources.md#rendering).

    `held` are the clusters that ever got a copy.
    """
    return any(task.purge_mode in REMOVED_AT_ONCE and not task.removed and task.from_cluster in held for task in tasks)
