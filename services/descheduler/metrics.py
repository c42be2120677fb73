"""The catalogue of the descheduler's metrics; the runtime's own are in services/_kit/base/metrics.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schemas.events.descheduling import ReplicasDescheduled
from schemas.keys import ObjectKey
from services._kit.base.metrics import KitMetrics


class Questions:
    """How questions to the estimator went, and about which Deployments the last one failed."""

    def __init__(self) -> None:
        self.counts = {"success": 0, "error": 0}
        self.unanswered: set[ObjectKey] = set()

    def answered(self, key: ObjectKey) -> None:
        """There was an answer."""
        self.counts["success"] += 1
        self.unanswered.discard(key)

    def failed(self, key: ObjectKey) -> None:
        """There was none."""
        self.counts["error"] += 1
        self.unanswered.add(key)


def register(metrics: KitMetrics, turns: Mapping[ObjectKey, float], questions: Questions) -> None:
    """Register gauges: Deployments that lack replicas, outcomes of queries, and descheduled replicas."""
    reads = metrics.reads
    reads.gauge("descheduler_short", "Deployments with fewer ready replicas than placed", lambda: len(turns))
    reads.gauge(
        "descheduler_unanswered",
        "Deployments about which the estimator gave no answer when it was last asked",
        lambda: len(questions.unanswered),
    )
    for result in questions.counts:
        reads.counter(
            "descheduler_questions",
            "Questions to the estimator",
            lambda result=result: questions.counts[result],  # type: ignore[misc]  # bound now, not when it is read
            result=result,
        )
    taken: dict[str, int] = {}
    reads.table(
        "fleetlog_descheduled_replicas",
        "Replicas that were taken back",
        ("member_cluster",),
        lambda: [((name,), number) for name, number in list(taken.items())],
        "counter",
    )

    def stored(events: Sequence[object], seconds: float) -> None:
        del seconds
        for event in events:
            if isinstance(event, ReplicasDescheduled):
                for item in event.clusters:
                    taken[item.name] = taken.get(item.name, 0) + item.before - item.replicas

    metrics.on_stored(stored)
