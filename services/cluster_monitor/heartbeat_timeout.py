"""Decides when a cluster's heartbeats have timed out, and the Ready condition then (docs/sources.md#clusters).

A pull cluster is silent when its agent is, a push cluster when there are no probes of it any more.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import Struct

from schemas.manifest import Manifest
from services.cluster_monitor.readiness import Observed

STOPPED: Final = Observed(
    "Unknown", "ClusterStatusUnknown", "Cluster status controller stopped posting cluster status."
)
NEVER: Final = Observed(
    "Unknown", "ClusterStatusNeverUpdated", "Cluster status controller never posted cluster status."
)


class Graces(Struct, frozen=True):
    """Seconds an agent may be silent: once it has reported, and before its first report."""

    running: float = 40.0
    starting: float = 60.0


def silent_at(published: Manifest | None, created: str, heard_at: float, graces: Graces) -> float:
    """Time at which an agent with its last heartbeat at `heard_at` counts as silent; seconds since 1970.

    Before its first report that is counted from the Cluster's creation, at the earliest from this instance's start.
    """
    if published is not None:
        return heard_at + graces.running
    return max(_seconds(created), heard_at) + graces.starting


def silence(published: Manifest | None) -> Observed | None:
    """The Ready condition of a cluster whose agent is silent; None when it is Unknown already."""
    if published is None:
        return NEVER
    return None if published.get("status") == "Unknown" else STOPPED


def _seconds(time: str) -> float:
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return 0.0
