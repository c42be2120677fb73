"""The catalogue of the executor's metrics; the runtime's own are in services/_kit/metrics.py."""

from __future__ import annotations

from services._kit.delivery.lane import Lane
from services._kit.metrics import ReadCollector


def register_lane(reads: ReadCollector, lane: Lane) -> None:
    """Offer what one cluster's lane does, from its opening on."""
    cluster, stats = lane.cluster, lane.stats
    reads.gauge("lane_backlog", "Objects not yet in line", lambda: lane.backlog, cluster=cluster)
    reads.gauge("lane_up", "1 while the cluster answers", lambda: not lane.trouble, cluster=cluster)
    writes = "Writes to members by what they did"
    reads.counter("lane_writes", writes, lambda: stats.created, cluster=cluster, operation="create")
    reads.counter("lane_writes", writes, lambda: stats.updated, cluster=cluster, operation="update")
    reads.counter("lane_writes", writes, lambda: stats.deleted, cluster=cluster, operation="delete")
    reads.counter("lane_unchanged", "Objects found as they should be", lambda: stats.unchanged, cluster=cluster)
    reads.counter("lane_failures", "Deliveries that were refused", lambda: stats.failed, cluster=cluster)
    breaks = "Times the cluster stopped answering"
    reads.counter("lane_interruptions", breaks, lambda: stats.unreachable, cluster=cluster)
