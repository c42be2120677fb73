"""The catalogue of the failover service's metrics; the runtime's own are in services/_kit/base/metrics.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from schemas.events.eviction import EvictionFinished, EvictionRequested
from services._kit.base.metrics import KitMetrics, exponential
from services.failover.eviction_rate import EvictionRate
from services.failover.state import FailoverState


def register(metrics: KitMetrics, state: FailoverState, pace: EvictionRate) -> None:
    """Offer what is on the move."""
    reads, name = metrics.reads, metrics.service
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
    reads.gauge("failover_postponed", "Objects that should leave but cannot be moved yet", lambda: len(state.postponed))

    def kinds() -> Iterable[tuple[tuple[str, ...], float]]:
        count = Counter(
            (task.from_cluster, key.resource) for key, moving in state.objects.items() for task in moving.tasks
        )
        return count.items()

    reads.table(
        "eviction_queue_depth", "Objects that wait for their turn", ("name",), lambda: [((name,), pace.waiting)]
    )
    reads.table("eviction_kind_total", "Evictions under way", ("member_cluster", "resource_kind"), kinds)
    processed = reads.tally("eviction_processing", "Evictions decided", "name", "result")
    lasted = metrics.timings(
        "eviction_processing_latency_seconds",
        "Time from what called for an eviction until it was on the log",
        ("name",),
        exponential(0.001, 2, 15),
    )

    def stored(events: Sequence[object], seconds: float) -> None:
        if any(isinstance(event, EvictionRequested | EvictionFinished) for event in events):
            processed.add(name, "success")
            lasted.observe(seconds, name)

    metrics.on_stored(stored)
    metrics.on_failed(lambda _: processed.add(name, "error"))
