"""The catalogue of the autoscaler's metrics; the runtime's own are in services/_kit/base/metrics.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from services._kit.base.metrics import NAMESPACE, KitMetrics, exponential
from services._rules.autoscaling.gauge_rows import condition_rows, replica_rows, rule_rows
from services.autoscaler.reading.rounds import Rounds
from services.autoscaler.schedule_decision import MISSED
from services.autoscaler.state import AutoscalerState

_HPA: Final = "horizontal_pod_autoscaler_controller"
_TYPES: Final[Mapping[str, str]] = {
    "Resource": "ResourceMetric",
    "ContainerResource": "ResourceMetric",
    "Pods": "RawMetric",
    "Object": "ObjectMetric",
    "External": "ExternalMetric",
}
_SUCCESS: Final = "success"
_ERROR: Final = "error"
_ACTIONS: Final = ("none", "scale_up", "scale_down")


class RoundTimer:
    """How long rounds of all FederatedHPAs take; `clock` in seconds. Only the instance that leads has any."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began: float | None = None
        self._last = 0.0

    def begin(self) -> None:
        """A round begins."""
        self._began = self._clock()

    def end(self, *, whole: bool) -> float:
        """The round is over, and was one of all FederatedHPAs (`whole`) or of some; its seconds."""
        took = self._clock() - self._began if self._began is not None else 0.0
        self._began = None
        if whole:
            self._last = took
        return took

    def forget(self) -> None:
        """Another instance makes rounds now."""
        self._began, self._last = None, 0.0

    @property
    def seconds(self) -> float:
        """Those of the last whole round, or of the one under way where that takes longer already."""
        running = self._clock() - self._began if self._began is not None else 0.0
        return max(self._last, running)


class AutoscalerMetrics:
    """Counts decisions of autoscalers and runs of schedules; times in seconds."""

    def __init__(
        self, metrics: KitMetrics, state: AutoscalerState, reader: Rounds, timer: RoundTimer, period: float
    ) -> None:
        reads, members = metrics.reads, reader.members
        reads.gauge("autoscaler_autoscalers", "FederatedHPAs that were decided", lambda: len(state.scaling))
        reads.gauge("autoscaler_schedules", "CronFederatedHPAs", lambda: len(state.schedules))
        reads.gauge("autoscaler_members", "Members whose pods are followed", lambda: len(members))
        reads.gauge(
            "autoscaler_pods", "Pods that are followed", lambda: sum(len(each.index) for each in members.values())
        )
        reads.gauge("autoscaler_period_seconds", "Time from one round to the next", lambda: period)
        reads.gauge(
            "autoscaler_round_seconds",
            "Time of the last round of all FederatedHPAs, or of the one under way where that takes longer",
            lambda: timer.seconds,
        )
        reads.counter(
            "autoscaler_sample_lists", "Lists of samples that members were asked for", lambda: reader.samples.requests
        )
        reads.table(
            f"{NAMESPACE}_autoscaler_source_answers",
            "Answers of metric sources; samples and scales are asked of each member",
            ("source", "result"),
            lambda: reader.answers.items(),
            "counter",
        )
        reads.table(
            f"{NAMESPACE}_autoscaler_member_samples",
            "1 while a member answers with samples",
            ("member_cluster",),
            lambda: (((cluster,), float(not problem)) for cluster, problem in reader.samples.problems.items()),
        )
        reads.table(
            f"{NAMESPACE}_autoscaler_replicas",
            "Replicas of a FederatedHPA's target: now, recommended by its metrics, desired, and its limits",
            ("namespace", "name", "of"),
            lambda: replica_rows(state.scaling.values()),
        )
        reads.table(
            f"{NAMESPACE}_autoscaler_conditions",
            "FederatedHPAs by condition",
            ("condition", "status", "reason"),
            lambda: condition_rows(state.scaling.values()),
        )
        reads.table(
            f"{NAMESPACE}_autoscaler_rules",
            "Rules of CronFederatedHPAs by what they do",
            ("state",),
            lambda: rule_rows(state.schedules.values()),
        )
        self._missed = reads.tally(
            f"{NAMESPACE}_autoscaler_rules_missed", "Runs of rules that were due and left out", "why"
        )
        self._reconciled = reads.tally(f"{_HPA}_reconciliations", "Decisions of FederatedHPAs", "action", "error")
        self._computed = reads.tally(
            f"{_HPA}_metric_computation", "Metrics that were evaluated", "action", "error", "metric_type"
        )
        self._reconciling = metrics.timings(
            f"{_HPA}_reconciliation_duration_seconds",
            "Time that a round took for one FederatedHPA, reading included",
            ("action", "error"),
            exponential(0.001, 2, 15),
        )
        self._rounds = metrics.timings(
            "federatedhpa_process_duration_seconds",
            "Time that a round of all FederatedHPAs took",
            ("result",),
            exponential(0.01, 2, 12),
        )
        self._pulls = metrics.timings(
            "federatedhpa_pull_metrics_duration_seconds",
            "Time until all metrics of a round were read",
            ("result", "metricType"),
            exponential(0.01, 2, 12),
        )
        self._rules = metrics.timings(
            "cronfederatedhpa_rule_process_duration_seconds",
            "Time that a run of a rule took",
            ("result",),
            exponential(0.001, 2, 12),
        )
        # Alerts look at increases: the first failure of all counts only where there was a zero before it.
        for why in MISSED:
            self._missed.add(why, count=0)
        for action in _ACTIONS:
            self._reconciled.add(action, "none", count=0)
        for result in (_SUCCESS, _ERROR):
            self._rounds.offer(result)
            self._rules.offer(result)

    def decided(self, action: str, error: str, kinds: Mapping[str, bool], seconds: float) -> None:
        """One decision; `kinds` says by type of metric whether all of them could be read."""
        self._reconciled.add(action, error)
        self._reconciling.observe(seconds, action, error)
        for kind, known in kinds.items():
            self._computed.add(action, "none" if known else "internal", kind)

    def round_ended(self, seconds: float, *, succeeded: bool) -> None:
        """A round of all FederatedHPAs."""
        self._rounds.observe(seconds, _result(succeeded=succeeded))

    def pulled(self, kinds: Mapping[str, bool], seconds: float) -> None:
        """All metrics of a round were read; `kinds` as in `decided`."""
        for kind, known in kinds.items():
            self._pulls.observe(seconds, _result(succeeded=known), _TYPES.get(kind, kind))

    def ran(self, seconds: float, *, succeeded: bool) -> None:
        """A rule of a schedule."""
        self._rules.observe(seconds, _result(succeeded=succeeded))

    def missed(self, why: str) -> None:
        """A run of a rule was left out."""
        self._missed.add(why)


def _result(*, succeeded: bool) -> str:
    return _SUCCESS if succeeded else _ERROR
