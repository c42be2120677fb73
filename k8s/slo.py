"""The rules of the service level objectives: what is counted, over which windows, and how fast a budget may burn.

Series and labels are those that Sloth writes (docs/sources.md#metrics), so that dashboards made for it show these, too.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from k8s.shared import Manifest

DAYS: Final = 30
WINDOWS: Final = ("5m", "30m", "1h", "2h", "6h", "1d", "3d")
"""What ratios are computed over; the one over the whole period is the average of the shortest."""
MONTH: Final = f"{DAYS}d"
ID: Final = ("installation", "sloth_id", "sloth_service", "sloth_slo")


class Burn(NamedTuple):
    """A budget burns too fast where errors exceed `factor` times its share over a long and over a short window."""

    severity: Literal["page", "ticket"]
    factor: float
    long: str
    short: str


BURNS: Final = (
    Burn("page", 14.4, "1h", "5m"),
    Burn("page", 6, "6h", "30m"),
    Burn("ticket", 3, "1d", "2h"),
    Burn("ticket", 1, "3d", "6h"),
)
"""At these factors 2 %, 5 %, 10 % and 10 % of a budget are gone within the long window."""
SEVERITIES: Final = {"page": "critical", "ticket": "warning"}


class Objective(NamedTuple):
    """One objective: `bad` of `total` events may be `100 - percent` percent; both are selectors of counters.

    `fast` is a bucket of a histogram of which `bad` is the count: events outside of it are the bad ones. Such an
    objective is about times.
    """

    name: str
    component: str
    what: str
    bad: str
    total: str
    percent: float = 99.9
    fast: str = ""

    @property
    def budget(self) -> float:
        """The share of events that may be bad."""
        return round(1 - self.percent / 100, 6)

    @property
    def alert(self) -> str:
        """The name of its alert."""
        return f"Fleetlog{''.join(part.capitalize() for part in self.name.split('-'))}BurnRateHigh"

    @property
    def labels(self) -> dict[str, str]:
        """What tells its series from those of others."""
        return {"sloth_id": f"fleetlog-{self.name}", "sloth_service": "fleetlog", "sloth_slo": self.name}

    @property
    def selector(self) -> str:
        """The same as a matcher of series."""
        return "{" + ", ".join(f'{name}="{value}"' for name, value in self.labels.items()) + "}"

    def ratio(self, window: str) -> str:
        """The share of bad events within a window; none while nothing happens."""
        total = f"sum by (installation) (rate({self.total}[{window}]))"
        if self.fast:
            bad = f"{total} - sum by (installation) (rate({self.fast}[{window}]))"
        else:
            bad = f"sum by (installation) (rate({self.bad}[{window}])) or 0 * {total}"
        return f"clamp_min({bad}, 0) / clamp_min({total}, 1e-9)"


def _slow(
    name: str, component: str, what: str, histogram: str, le: str, labels: str = "", percent: float = 99.9
) -> Objective:
    """An objective about times: what takes longer than a bucket of a histogram holds is bad."""
    count = f"{histogram}_count" + (f"{{{labels}}}" if labels else "")
    matchers = ", ".join(filter(None, (labels, f'le="{le}"')))
    bucket = f"{histogram}_bucket{{{matchers}}}"
    return Objective(name, component, what, count, count, percent, bucket)


def _failed(name: str, component: str, what: str, counter: str, bad: str) -> Objective:
    """An objective about outcomes: what has the label of a failure is bad."""
    return Objective(name, component, what, f"{counter}{{{bad}}}", counter)


_POLICY: Final = "resource_apply_policy_duration_seconds"
_BINDING: Final = "binding_sync_work_duration_seconds"
_WORK: Final = "work_sync_workload_duration_seconds"
_ERROR: Final = 'result="error"'
_REFUSED: Final = 'code=~"5..|429"'
OBJECTIVES: Final = (
    _failed(
        "apiserver-availability",
        "control",
        "requests to the control plane are answered, not failed or refused for load",
        "fleetlog_apiserver_requests_total",
        _REFUSED,
    ),
    _slow(
        "apiserver-latency",
        "control",
        "requests to the control plane, watches left out, are answered within 0.4 s",
        "fleetlog_apiserver_request_seconds",
        "0.4",
    ),
    _failed(
        "gateway-availability",
        "gateway",
        "requests to the gateway are answered, not failed or refused for load",
        "fleetlog_gateway_requests_total",
        _REFUSED,
    ),
    _slow(
        "gateway-latency",
        "gateway",
        "requests to the gateway, watches left out, are answered within 0.5 s",
        "fleetlog_gateway_request_seconds",
        "0.5",
    ),
    _failed(
        "scheduler-availability",
        "scheduler",
        "objects that need a placement get one",
        "karmada_scheduler_schedule_attempts_total",
        _ERROR,
    ),
    _slow(
        "scheduler-latency",
        "scheduler",
        "placements are on the log within 0.512 s of what called for them",
        "karmada_scheduler_e2e_scheduling_duration_seconds",
        "0.512",
        'result="scheduled"',
    ),
    _failed(
        "scheduler-estimator-availability",
        "estimator",
        "decisions by capacity have an estimate in time",
        "fleetlog_scheduler_estimates_total",
        'answer="missed"',
    ),
    _slow(
        "scheduler-estimator-latency",
        "estimator",
        "estimates are on the log within 0.128 s of what called for them",
        "fleetlog_stage_seconds",
        "0.128",
        'component="estimator"',
    ),
    _failed(
        "policy-apply-availability",
        "detector",
        "policies can be applied to the objects that they match",
        "policy_apply_attempts_total",
        _ERROR,
    ),
    _slow(
        "policy-apply-latency",
        "detector",
        "bindings are on the log within 1.024 s of the news of an object or policy",
        _POLICY,
        "1.024",
        'result="success"',
    ),
    _failed(
        "binding-sync-work-availability",
        "override_renderer",
        "works can be rendered from bindings",
        f"{_BINDING}_count",
        _ERROR,
    ),
    _slow(
        "binding-sync-work-latency",
        "override_renderer",
        "works are on the log within 1.024 s of what changed them",
        _BINDING,
        "1.024",
        'result="success"',
    ),
    _failed(
        "work-sync-workload-availability",
        "executor",
        "members take the objects that are delivered",
        f"{_WORK}_count",
        _ERROR,
    ),
    _slow(
        "work-sync-workload-latency",
        "executor",
        "deliveries are reported within 2.048 s of the work",
        _WORK,
        "2.048",
        'result="success"',
        99.0,
    ),
    _slow(
        "cluster-sync-latency",
        "cluster_monitor",
        "probes of members that answer end within 1 s",
        "cluster_sync_status_duration_seconds",
        "1.0",
    ),
)
"""Karmada's, and two of the gateway's. Thresholds are bounds of buckets."""


def _record(name: str, expr: str, labels: dict[str, str]) -> Manifest:
    return {"record": name, "expr": expr, "labels": labels}


def _by_id(expr: str) -> str:
    return f"max by ({', '.join(ID)}) ({expr})"


def _ratios(objective: Objective) -> list[Manifest]:
    records = [
        _record(
            f"slo:sli_error:ratio_rate{window}", objective.ratio(window), {**objective.labels, "sloth_window": window}
        )
        for window in WINDOWS
    ]
    month = (
        f"sum_over_time(slo:sli_error:ratio_rate5m{objective.selector}[{MONTH}])\n"
        f"/ ignoring (sloth_window)\n"
        f"count_over_time(slo:sli_error:ratio_rate5m{objective.selector}[{MONTH}])"
    )
    return [
        *records,
        _record(f"slo:sli_error:ratio_rate{MONTH}", month, {**objective.labels, "sloth_window": MONTH}),
    ]


def _about(objective: Objective) -> list[Manifest]:
    """The numbers that dashboards and people ask for."""
    labels, select, budget = objective.labels, objective.selector, objective.budget
    # By installation, where it is measured at all.
    here = f"0 * {_by_id(f'slo:sli_error:ratio_rate5m{select}')}"
    spent = _by_id(f"slo:sli_error:ratio_rate{MONTH}{select}")
    return [
        _record("slo:objective:ratio", f"{here} + {round(1 - budget, 6)}", labels),
        _record("slo:error_budget:ratio", f"{here} + {budget}", labels),
        _record("slo:time_period:days", f"{here} + {DAYS}", labels),
        _record("slo:current_burn_rate:ratio", f"{_by_id(f'slo:sli_error:ratio_rate5m{select}')} / {budget}", labels),
        _record("slo:period_burn_rate:ratio", f"{spent} / {budget}", labels),
        _record("slo:period_error_budget_remaining:ratio", f"1 - {spent} / {budget}", labels),
        _record(
            "sloth_slo_info",
            f"{here} + 1",
            {
                **labels,
                "sloth_version": "fleetlog",
                "sloth_mode": "generated",
                "sloth_spec": "k8s/slo.py",
                "sloth_objective": f"{objective.percent:g}",
            },
        ),
    ]


def _burning(objective: Objective, severity: Literal["page", "ticket"]) -> Manifest:
    """The alert of one severity: either pair of windows exceeds its factor."""

    def above(window: str, factor: float) -> str:
        limit = f"({factor:g} * {objective.budget})"
        return f"{_by_id(f'slo:sli_error:ratio_rate{window}{objective.selector}')} > {limit}"

    pairs = [
        f"({above(burn.short, burn.factor)} and {above(burn.long, burn.factor)})"
        for burn in BURNS
        if burn.severity == severity
    ]
    return {
        "alert": objective.alert,
        "expr": "\nor\n".join(pairs),
        "labels": {
            "severity": SEVERITIES[severity],
            "sloth_severity": severity,
            "category": "latency" if objective.fast else "availability",
            "component": objective.component,
        },
        "annotations": {
            "summary": f"The error budget of {objective.name} burns too fast",
            "description": (
                f"Objective: {objective.percent:g} % of the time {objective.what}. "
                f"{{{{ $value | humanizePercentage }}}} did not, lately. See docs/monitoring.md#objectives."
            ),
        },
    }


def rules() -> Manifest:
    """Everything as a file of rules: by objective, ratios, numbers about them, alerts."""
    groups: list[Manifest] = []
    for objective in OBJECTIVES:
        # What is about times makes tickets only: late is not lost.
        severities: tuple[Literal["page", "ticket"], ...] = ("ticket",) if objective.fast else ("page", "ticket")
        groups += [
            {"name": f"fleetlog-slo-ratios-{objective.name}", "rules": _ratios(objective)},
            {"name": f"fleetlog-slo-numbers-{objective.name}", "rules": _about(objective)},
            {
                "name": f"fleetlog-slo-alerts-{objective.name}",
                "rules": [_burning(objective, severity) for severity in severities],
            },
        ]
    return {"groups": groups}
