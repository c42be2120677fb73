"""The catalogue of the cluster monitor's metrics; the runtime's own are in services/_kit/base/metrics.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import Histogram

from schemas.manifest import Manifest
from services._kit.base.clock import Clock
from services._kit.base.metrics import KitMetrics, ReadCollector, Rows, Timings
from services._rules.kubernetes.quantity import QuantityError, parse
from services.cluster_monitor.readiness import find_condition
from services.cluster_monitor.state import MonitorState

_LABELS: Final = ("member_cluster",)
_AMOUNTS: Final = (
    ("memory_allocatable_bytes", "allocatable", "memory"),
    ("cpu_allocatable_number", "allocatable", "cpu"),
    ("pod_allocatable_number", "allocatable", "pods"),
    ("memory_allocated_bytes", "allocated", "memory"),
    ("cpu_allocated_number", "allocated", "cpu"),
    ("pod_allocated_number", "allocated", "pods"),
)


def probe_times(metrics: KitMetrics) -> Timings:
    """What probes of push members are recorded in, by member."""
    return metrics.timings(
        "cluster_sync_status_duration_seconds",
        "Time that a probe of a push member took which the member answered",
        _LABELS,
        Histogram.DEFAULT_BUCKETS,
    )


def register(reads: ReadCollector, state: MonitorState, clock: Clock) -> None:
    """Register gauges of the members, read from the status of their Cluster objects."""

    def statuses() -> Iterator[tuple[str, Manifest]]:
        for name, cluster in state.clusters.items():
            if cluster.manifest is not None:
                yield name, cluster.manifest.get("status") or {}

    def clusters(*, ready: bool) -> int:
        return sum(_ready(status) == ready for _, status in statuses())

    def each(value: Callable[[Manifest], float]) -> Rows:
        return lambda: [((name,), value(status)) for name, status in statuses()]

    held = "Objects that are missing and do not count as deleted"
    reads.gauge("withdrawals_held", held, lambda: state.guard.count, scope=state.guard.scope)
    reads.table(
        "cluster_identity_changed",
        "1 while another cluster answers at the member's address",
        _LABELS,
        _strangers(state),
    )
    reads.gauge("monitor_clusters", "Members by readiness", lambda: clusters(ready=True), ready="true")
    reads.gauge("monitor_clusters", "", lambda: clusters(ready=False), ready="false")
    reads.table("cluster_ready_state", "1 while the member is Ready", _LABELS, each(_ready))
    reads.table("cluster_node_number", "Nodes of the member", _LABELS, each(_nodes("totalNum")))
    reads.table("cluster_ready_node_number", "Ready nodes of the member", _LABELS, each(_nodes("readyNum")))
    reads.table(
        "fleetlog_member_credentials_expire_seconds",
        "Seconds until the credentials of the member expire, where these say when; below zero once they have",
        _LABELS,
        lambda: [
            ((name,), cluster.probe.expiry.at - clock.now())
            for name, cluster in state.clusters.items()
            if cluster.probe is not None and cluster.probe.expiry is not None
        ],
    )
    for name, part, resource in _AMOUNTS:
        reads.table(f"cluster_{name}", f"Sum over nodes: {part} {resource}", _LABELS, each(_amount(part, resource)))


def _strangers(state: MonitorState) -> Rows:
    return lambda: [((name,), float(cluster.held is not None)) for name, cluster in state.clusters.items()]


def _ready(status: Manifest) -> bool:
    condition = find_condition(status.get("conditions") or [], "Ready")
    return condition is not None and condition.get("status") == "True"


def _nodes(name: str) -> Callable[[Manifest], float]:
    return lambda status: float((status.get("nodeSummary") or {}).get(name) or 0)


def _amount(part: str, resource: str) -> Callable[[Manifest], float]:
    def amount(status: Manifest) -> float:
        text = ((status.get("resourceSummary") or {}).get(part) or {}).get(resource)
        try:
            return parse(text).nano / 1e9 if text is not None else 0.0
        except QuantityError:
            return 0.0

    return amount
