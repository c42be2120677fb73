"""Decides whether replacement copies are up: healthy, and as many as desired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct, UnsetType

from schemas.events.placement import TargetCluster
from schemas.events.rollup import ClusterStatusItem
from services._rules.failover.eviction_tasks import HEALTHY

CATCHING_UP: Final = "Unknown"


class _Counts(Struct, rename="camel"):
    replicas: int | None = None
    ready_replicas: int | None = None
    available_replicas: int | None = None


_counts = msgspec.json.Decoder(_Counts).decode


def health_by_cluster(items: Sequence[ClusterStatusItem], targets: Sequence[TargetCluster]) -> dict[str, str]:
    """What each cluster reports of its copy.

    A good report of a copy that just got more replicas may be older than they are: until as many are ready, it counts
    as unknown.
    """
    wanted = {target.name: target.replicas or 0 for target in targets}
    return {
        item.cluster: CATCHING_UP
        if item.health == HEALTHY and _short(item, wanted.get(item.cluster, 0))
        else item.health
        for item in items
    }


def _short(item: ClusterStatusItem, wanted: int) -> bool:
    """Whether a status counts replicas, and fewer than wanted are ready."""
    if not wanted or isinstance(item.status, UnsetType):
        return False
    try:
        counts = _counts(item.status)
    except msgspec.MsgspecError:
        # A status of another shape counts no replicas.
        return False
    if counts.replicas is None and counts.ready_replicas is None and counts.available_replicas is None:
        return False
    return max(counts.ready_replicas or 0, counts.available_replicas or 0) < wanted
