"""Decides which replicas are taken back because they found no node where they were placed.

Source: docs/sources.md#descheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, UnsetType

from schemas.events.descheduling import LoweredCluster, ReplicasDescheduled
from schemas.events.placement import TargetCluster
from schemas.events.rollup import ClusterStatusItem

UNKNOWN: Final = -1
"""Ready replicas of a cluster that has not reported any."""


class Share(Struct, frozen=True):
    """What one cluster was given of a workload, and how much of that is ready (UNKNOWN without a report)."""

    cluster: str
    placed: int
    ready: int

    @property
    def short(self) -> bool:
        """Whether fewer are ready than placed: only such clusters are asked about."""
        return self.ready < self.placed


class _Status(Struct, frozen=True, rename="camel"):
    ready_replicas: Any = None


_status = msgspec.json.Decoder(_Status)


def follows_room(api_version: str, kind: str, applied: Raw | UnsetType) -> bool:
    """Whether replicas may be taken back: a Deployment that was divided by the room that clusters have.

    What counts is the placement that was `applied`, not the one that is asked for now; one that cannot be read is none.
    """
    if api_version != "apps/v1" or kind != "Deployment" or isinstance(applied, UnsetType):
        return False
    return _divided_by_room(bytes(applied))


@lru_cache(maxsize=4096)
def _divided_by_room(applied: bytes) -> bool:
    try:
        scheduling = msgspec.json.decode(applied, type=dict[str, Any]).get("replicaScheduling")
    except msgspec.MsgspecError:
        return False
    if not isinstance(scheduling, dict) or scheduling.get("replicaSchedulingType") != "Divided":
        return False
    match scheduling.get("replicaDivisionPreference"):
        case "Aggregated":
            return True
        case "Weighted":
            preference = scheduling.get("weightPreference")
            return isinstance(preference, dict) and bool(preference.get("dynamicWeight"))
        case _:
            return False


def shares(targets: Iterable[TargetCluster], items: Iterable[ClusterStatusItem]) -> tuple[Share, ...]:
    """What every target was given and has ready; `items` is the summed status by cluster."""
    reported = {item.cluster: item for item in items}
    return tuple(Share(target.name, target.replicas or 0, _ready(reported.get(target.name))) for target in targets)


def _ready(item: ClusterStatusItem | None) -> int:
    if item is None or isinstance(item.status, UnsetType):
        return UNKNOWN
    try:
        ready = _status.decode(item.status).ready_replicas
    except msgspec.MsgspecError:
        return UNKNOWN
    return int(ready) if isinstance(ready, int | float) and not isinstance(ready, bool) else UNKNOWN


def taken_back(found: Sequence[Share], unschedulable: Mapping[str, int]) -> tuple[LoweredCluster, ...]:
    """Clusters that are left with fewer replicas, given how many of each have found no node for too long.

    Never less than what is ready; a cluster that reports more waiting than it was given is left alone.
    """
    lowered: list[LoweredCluster] = []
    for share in found:
        waiting = unschedulable.get(share.cluster, 0)
        if not share.short or waiting <= 0 or waiting > share.placed:
            continue
        left = max(share.placed - waiting, share.ready)
        if left < share.placed:
            lowered.append(LoweredCluster(share.cluster, left, share.placed))
    return tuple(lowered)


def joined(standing: Iterable[LoweredCluster], fresh: Iterable[LoweredCluster]) -> tuple[LoweredCluster, ...]:
    """All clusters that are lowered now, by name: those that were before, and the `fresh` ones."""
    merged = {item.name: LoweredCluster(item.name, item.replicas, item.replicas) for item in standing}
    merged.update((item.name, item) for item in fresh)
    return tuple(merged[name] for name in sorted(merged))


def descheduled_words(event: ReplicasDescheduled) -> str:
    """The text of the Event about a descheduling; empty when nothing was taken back."""
    parts = [(item.before - item.replicas, item.name) for item in event.clusters if item.before > item.replicas]
    if not parts:
        return ""
    each = ", ".join(f"{number} replica(s) in cluster({name})" for number, name in parts)
    total = sum(number for number, _ in parts)
    return f"Binding has been descheduled, {each}, {total} total descheduled replica(s)"
