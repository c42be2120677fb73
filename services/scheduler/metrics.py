"""The catalogue of the scheduler's metrics; the runtime's own are in services/_kit/metrics.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from schemas.events.placement import PlacementDecided, PlacementFailed
from services._kit.metrics import STAGE_SECONDS, KitMetrics
from services.scheduler.state import SchedulerState

SCALED: Final = "the number of replicas changed"
"""The trigger of a placement that only divides another number of replicas."""


class DecisionCounts(Struct):
    """Decisions by room: with an estimate of members' nodes, and without one in time."""

    estimated: int = 0
    missed: int = 0

    def count(self, event: PlacementDecided | PlacementFailed) -> None:
        """Take one decision into account."""
        self.estimated += bool(event.estimates)
        self.missed += event.estimate_missed


def register(metrics: KitMetrics, state: SchedulerState, decisions: DecisionCounts, waiting: Callable[[], int]) -> None:
    """Offer what the scheduler has decided and how long it took; `waiting` counts objects that wait for a decision."""
    reads = metrics.reads

    def placed(kind: type[PlacementDecided | PlacementFailed]) -> int:
        return sum(1 for scheduled in state.objects.values() if isinstance(scheduled.placed, kind))

    reads.gauge("scheduler_clusters", "Clusters known", lambda: len(state.clusters.by_name))
    reads.gauge("scheduler_bindings", "Objects by outcome", lambda: placed(PlacementDecided), outcome="placed")
    reads.gauge("scheduler_bindings", "", lambda: placed(PlacementFailed), outcome="failed")
    about = "Decisions by room, by whether the estimator answered in time"
    reads.counter("scheduler_estimates", about, lambda: decisions.estimated, answer="used")
    reads.counter("scheduler_estimates", "", lambda: decisions.missed, answer="missed")
    reads.table(
        "scheduler_pending_bindings",
        "Objects without a placement that satisfies them",
        ("queue",),
        lambda: [(("active",), waiting()), (("unschedulable",), placed(PlacementFailed))],
    )
    attempts = reads.tally(
        "karmada_scheduler_schedule_attempts", "Placements decided, by outcome", "result", "schedule_type"
    )
    scheduling = metrics.timings(
        "karmada_scheduler_e2e_scheduling_duration_seconds",
        "Time from what called for a placement until it was on the log",
        ("result", "schedule_type"),
        STAGE_SECONDS,
    )

    def stored(events: Sequence[object], seconds: float) -> None:
        for event in events:
            if isinstance(event, PlacementDecided | PlacementFailed):
                result = "scheduled" if isinstance(event, PlacementDecided) else "error"
                kind = "ScaleSchedule" if event.trigger == SCALED else "ReconcileSchedule"
                attempts.add(result, kind)
                scheduling.observe(seconds, result, kind)

    metrics.on_stored(stored)
    metrics.on_failed(lambda _: attempts.add("error", "ReconcileSchedule"))
