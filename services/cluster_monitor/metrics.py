"""The catalogue of the cluster monitor's metrics; the runtime's own are in services/_kit/metrics.py."""

from __future__ import annotations

from services._kit.metrics import ReadCollector
from services.cluster_monitor.readiness import find_condition
from services.cluster_monitor.state import MonitorState


def register(reads: ReadCollector, state: MonitorState) -> None:
    """Offer how the members are."""

    def clusters(*, ready: bool) -> int:
        count = 0
        for cluster in state.clusters.values():
            if cluster.manifest is None:
                continue
            status = cluster.manifest.get("status") or {}
            condition = find_condition(status.get("conditions") or [], "Ready")
            count += (condition is not None and condition.get("status") == "True") == ready
        return count

    reads.gauge("monitor_clusters", "Members by readiness", lambda: clusters(ready=True), ready="true")
    reads.gauge("monitor_clusters", "", lambda: clusters(ready=False), ready="false")
