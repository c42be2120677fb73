"""Takes one cluster from an object's targets and notes the task that lets its copy go (reference 03 §7.3)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from schemas.events.eviction import EvictionTask
from schemas.events.placement import TargetCluster as Target

__all__ = ["Target", "evict"]


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
