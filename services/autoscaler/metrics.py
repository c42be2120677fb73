"""The catalogue of the autoscaler's metrics; the runtime's own are in services/_kit/base/metrics.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from services._kit.base.metrics import KitMetrics, exponential
from services.autoscaler.reading.member_pods import MemberPods
from services.autoscaler.state import AutoscalerState

_HPA = "horizontal_pod_autoscaler_controller"
_TYPES: Mapping[str, str] = {
    "Resource": "ResourceMetric",
    "ContainerResource": "ResourceMetric",
    "Pods": "RawMetric",
    "Object": "ObjectMetric",
    "External": "ExternalMetric",
}


class AutoscalerMetrics:
    """Counts decisions of autoscalers and runs of schedules; times in seconds."""

    def __init__(
        self,
        metrics: KitMetrics,
        state: AutoscalerState,
        members: Mapping[str, MemberPods],
        requests: Callable[[], float],
    ) -> None:
        reads = metrics.reads
        reads.gauge("autoscaler_autoscalers", "FederatedHPAs that were decided", lambda: len(state.scaling))
        reads.gauge("autoscaler_schedules", "CronFederatedHPAs", lambda: len(state.schedules))
        reads.gauge("autoscaler_members", "Members whose pods are followed", lambda: len(members))
        reads.gauge(
            "autoscaler_pods", "Pods that are followed", lambda: sum(len(each.index) for each in members.values())
        )
        reads.counter("autoscaler_sample_lists", "Lists of samples that members were asked for", requests)
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


def _result(*, succeeded: bool) -> str:
    return "success" if succeeded else "error"
