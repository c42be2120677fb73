"""The catalogue of the scheduler's metrics; the runtime's own are in services/_kit/metrics.py."""

from __future__ import annotations

from schemas.events.placement import PlacementDecided, PlacementFailed
from services._kit.metrics import ReadCollector
from services.scheduler.state import SchedulerState


def register(reads: ReadCollector, state: SchedulerState) -> None:
    """Offer what the scheduler has decided."""

    def placed(kind: type[PlacementDecided | PlacementFailed]) -> int:
        return sum(1 for scheduled in state.objects.values() if isinstance(scheduled.placed, kind))

    reads.gauge("scheduler_clusters", "Clusters known", lambda: len(state.clusters.by_name))
    reads.gauge("scheduler_bindings", "Objects by outcome", lambda: placed(PlacementDecided), outcome="placed")
    reads.gauge("scheduler_bindings", "", lambda: placed(PlacementFailed), outcome="failed")
