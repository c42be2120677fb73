"""The catalogue of the scheduler's metrics; the runtime's own are in services/_kit/base/metrics.py."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from time import perf_counter
from typing import Final

from msgspec import Struct, field
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from schemas.events.placement import PlacementDecided, PlacementFailed
from services._kit.base.metrics import STAGE_SECONDS, KitMetrics, Tally
from services.scheduler.state import SchedulerState

NAME: Final = "karmada_scheduler_scheduling_algorithm_duration_seconds"
STEPS: Final = ("Filter", "Score", "Select", "AssignReplicas")
SCALED: Final = "the number of replicas changed"
"""The trigger of a placement that only divides another number of replicas."""
_KEPT: Final = frozenset({"Unschedulable", "SchedulerError", "QuotaExceeded"})
"""Reasons of failures that count as errors: that no cluster fits is an answer (docs/sources.md#metrics)."""


class StepTimes(Collector):
    """A histogram by step, of plain counts, since several are taken per decision (docs/sources.md#metrics).

    Called with the name of each step as it ends, and with "" as the first one begins."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._since = 0.0
        self._counts = {step: [0] * (len(STAGE_SECONDS) + 1) for step in STEPS}
        self._sums = dict.fromkeys(STEPS, 0.0)

    def __call__(self, step: str) -> None:
        """A step is over, and the next one begins."""
        now = self._clock()
        if step:
            lasted = now - self._since
            self._counts[step][bisect_left(STAGE_SECONDS, lasted)] += 1
            self._sums[step] += lasted
        self._since = now

    def describe(self) -> list[Metric]:
        """Nothing to check at registration."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The histograms as they are now."""
        family = HistogramMetricFamily(NAME, "Time of one step of the algorithm", labels=["schedule_step"])
        bounds = [*(str(bound) for bound in STAGE_SECONDS), "+Inf"]
        for step, counts in self._counts.items():
            buckets = list(zip(bounds, accumulate(counts), strict=True))
            family.add_metric([step], buckets, self._sums[step])
        yield family


class DecisionCounts(Struct):
    """Decisions by room: with an estimate of members' nodes, and without one in time; attempts that changed nothing."""

    estimated: int = 0
    missed: int = 0
    attempts: Tally = field(default_factory=Tally)
    """Attempts by result and type of schedule."""
    incoming: Tally = field(default_factory=Tally)
    """Objects that were enqueued, by cause."""

    def count(self, event: PlacementDecided | PlacementFailed) -> None:
        """Take one decision into account."""
        self.estimated += bool(event.estimates)
        self.missed += event.estimate_missed

    def came(self, cause: str, objects: int = 1) -> None:
        """Count enqueued objects by cause: BindingAdd, BindingUpdate, ClusterChanged or ScheduleAttemptFailure."""
        if objects:
            self.incoming.add(cause, count=objects)

    def attempted(self, trigger: str, failure: str) -> None:
        """The algorithm ran for a trigger and failed so (empty: not); types as of docs/sources.md#scheduling."""
        result = "error" if failure in _KEPT else "scheduled"
        self.attempts.add(result, schedule_type(trigger))


def schedule_type(trigger: str) -> str:
    """Which of Karmada's two types of schedule a trigger belongs to."""
    return "ScaleSchedule" if trigger == SCALED else "ReconcileSchedule"


def register(
    metrics: KitMetrics,
    state: SchedulerState,
    decisions: DecisionCounts,
    waiting: Callable[[], int],
    backing_off: Callable[[], int] = lambda: 0,
) -> None:
    """Offer what the scheduler has decided and how long it took.

    `waiting` counts objects that wait for a decision, `backing_off` those that wait to be tried again after an error.
    """
    reads = metrics.reads

    def placed() -> int:
        return sum(1 for scheduled in state.objects.values() if isinstance(scheduled.placed, PlacementDecided))

    def failed() -> int:
        # Counted incrementally: reading every object at each scrape would delay decisions.
        return len(state.watch.failed)

    reads.gauge("scheduler_clusters", "Clusters known", lambda: len(state.clusters.by_name))
    reads.gauge("scheduler_bindings", "Objects by outcome", placed, outcome="placed")
    reads.gauge("scheduler_bindings", "", failed, outcome="failed")
    refused = lambda: state.quotas.waiting if state.quotas is not None else 0  # noqa: E731 - a number asked for later
    reads.gauge("scheduler_quota_refused", "Objects that a FederatedResourceQuota refused", refused)
    about = "Decisions by room, by whether the estimator answered in time"
    reads.counter("scheduler_estimates", about, lambda: decisions.estimated, answer="used")
    reads.counter("scheduler_estimates", "", lambda: decisions.missed, answer="missed")
    reads.table(
        "scheduler_pending_bindings",
        "Objects without a placement that satisfies them",
        ("queue",),
        lambda: [
            (("active",), waiting()),
            (("backoff",), backing_off()),
            (("unschedulable",), failed()),
        ],
    )
    reads.table(
        "karmada_scheduler_schedule_attempts",
        "Placements decided, by outcome",
        ("result", "schedule_type"),
        decisions.attempts.rows,
        "counter",
    )
    reads.table(
        "karmada_scheduler_queue_incoming_bindings",
        "Objects that came to be looked at, by what called for it",
        ("event",),
        decisions.incoming.rows,
        "counter",
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
                failure = event.reason if isinstance(event, PlacementFailed) else ""
                decisions.attempted(event.trigger, failure)
                result = "error" if failure in _KEPT else "scheduled"
                scheduling.observe(seconds, result, schedule_type(event.trigger))

    metrics.on_stored(stored)
    metrics.on_failed(lambda _: decisions.attempts.add("error", "ReconcileSchedule"))
