"""The catalogue of the failover service's metrics; the runtime's own are in services/_kit/metrics.py."""

from __future__ import annotations

from collections.abc import Mapping

from schemas.keys import ObjectKey
from services._kit.metrics import ReadCollector
from services.failover.pace import Pace
from services.failover.state import FailoverState


def register(reads: ReadCollector, state: FailoverState, pace: Pace, problems: Mapping[ObjectKey, str]) -> None:
    """Offer what is on the move."""
    reads.gauge(
        "failover_evictions",
        "Clusters that objects are leaving",
        lambda: sum(len(moving.tasks) for moving in state.objects.values()),
    )
    reads.gauge(
        "failover_tainted_clusters",
        "Clusters with a NoExecute taint",
        lambda: sum(bool(taints) for taints in state.clusters.values()),
    )
    reads.gauge("failover_waiting", "Objects that wait for their turn to leave", lambda: pace.waiting)
    reads.gauge("failover_postponed", "Objects that should leave but cannot be moved yet", lambda: len(problems))
