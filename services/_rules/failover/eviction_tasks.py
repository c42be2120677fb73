"""Assesses eviction tasks: which of them are over, and when to assess them again (docs/sources.md#failover)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from schemas.events.eviction import EvictionTask

HEALTHY: Final = "Healthy"


class Assessment(Struct, frozen=True):
    """Tasks that stay, in order, the clusters of those that ended, and whether replacements are up."""

    kept: tuple[EvictionTask, ...] = ()
    ended: tuple[str, ...] = ()
    replaced: bool = False


def assess(
    tasks: Sequence[EvictionTask],
    now: float,
    *,
    timeout: float,
    scheduled: bool,
    targets: Collection[str],
    health: Mapping[str, str],
) -> Assessment:
    """Which tasks stay and which are over.

    A task without creation time gets `now` and stays for this round. `scheduled`: whether the scheduler has answered to
    everything known so far, `targets` are the target clusters of the object, `health` what each of them
    reports; `timeout` (seconds) is for tasks without a grace period of their own.
    """
    replaced = scheduled and all(health.get(name) == HEALTHY for name in targets)
    kept: list[EvictionTask] = []
    ended: list[str] = []
    for task in tasks:
        if not task.created_at:
            kept.append(replace(task, created_at=now))
        elif _stays(task, now, timeout, replaced=replaced):
            kept.append(task)
        else:
            ended.append(task.from_cluster)
    return Assessment(tuple(kept), tuple(ended), replaced)


def _stays(task: EvictionTask, now: float, timeout: float, *, replaced: bool) -> bool:
    if task.suppress_deletion is not None:
        return task.suppress_deletion
    return not replaced and now <= expires_at(task, timeout)


def expires_at(task: EvictionTask, timeout: float) -> float:
    """When the grace of a task ends, in seconds since 1970; `timeout` is for tasks without one of their own."""
    grace = task.grace_period_seconds
    return task.created_at + (timeout if grace is None else grace)


def next_look(tasks: Sequence[EvictionTask], timeout: float) -> float | None:
    """When the next task expires, in seconds since 1970; None when no time ends any of them."""
    ends = [expires_at(task, timeout) for task in tasks if task.suppress_deletion is None]
    return min(ends, default=None)
