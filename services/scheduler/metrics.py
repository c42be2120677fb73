"""The catalogue of the scheduler's metrics; the runtime's own are in services/_kit/metrics.py."""

from __future__ import annotations

from msgspec import Struct

from schemas.events.placement import PlacementDecided, PlacementFailed
from services._kit.metrics import ReadCollector
from services.scheduler.state import SchedulerState


class DecisionCounts(Struct):
    """Decisions by room: with an estimate of members' nodes, and without one in time."""

    estimated: int = 0
    missed: int = 0

    def count(self, event: PlacementDecided | PlacementFailed) -> None:
        """Take one decision into account."""
        self.estimated += bool(event.estimates)
        self.missed += event.estimate_missed


def register(reads: ReadCollector, state: SchedulerState, decisions: DecisionCounts) -> None:
    """Offer what the scheduler has decided."""

    def placed(kind: type[PlacementDecided | PlacementFailed]) -> int:
        return sum(1 for scheduled in state.objects.values() if isinstance(scheduled.placed, kind))

    reads.gauge("scheduler_clusters", "Clusters known", lambda: len(state.clusters.by_name))
    reads.gauge("scheduler_bindings", "Objects by outcome", lambda: placed(PlacementDecided), outcome="placed")
    reads.gauge("scheduler_bindings", "", lambda: placed(PlacementFailed), outcome="failed")
    about = "Decisions by room, by whether the estimator answered in time"
    reads.counter("scheduler_estimates", about, lambda: decisions.estimated, answer="used")
    reads.counter("scheduler_estimates", "", lambda: decisions.missed, answer="missed")
