"""FederatedHPAs and CronFederatedHPAs: replicas, conditions, rounds, sources of metrics, schedules."""

from __future__ import annotations

from typing import Final

from k8s.dashboards.panels import (
    BAD_ABOVE_ZERO,
    NOTICE_ABOVE_ZERO,
    Dashboard,
    Row,
    Variable,
    failed,
    grown,
    lines,
    number,
    quantile,
    rate,
    states,
)

_ROUND: Final = "federatedhpa_process_duration_seconds"
_RUN: Final = "cronfederatedhpa_rule_process_duration_seconds_count"
_CONDITIONS: Final = "fleetlog_autoscaler_conditions"
_ANSWERS: Final = "fleetlog_autoscaler_source_answers_total"
_CHOSEN: Final = '{namespace=~"$namespace", name=~"$name"}'


def _autoscalers(which: str) -> str:
    """The query for FederatedHPAs by a condition and its reason; every instance knows all of them."""
    return f"max by (condition, reason) ({which}) or vector(0)"


DASHBOARD: Final = Dashboard(
    "autoscaling",
    (
        Row(
            "Overview",
            (
                number("FederatedHPAs", "max(fleetlog_autoscaler_autoscalers)"),
                number("CronFederatedHPAs", "max(fleetlog_autoscaler_schedules)"),
                number(
                    "Cannot scale",
                    f'max({_CONDITIONS}{{condition=~"AbleToScale|ScalingActive", status="False"}}) or vector(0)',
                    steps=NOTICE_ABOVE_ZERO,
                ),
                number(
                    "Last round, % of the period",
                    "100 * max(fleetlog_autoscaler_round_seconds) / max(fleetlog_autoscaler_period_seconds)",
                    "percent",
                    steps=((50, "orange"), (100, "red")),
                ),
                number(
                    "Members without samples",
                    "count(min by (member_cluster) (fleetlog_autoscaler_member_samples) == 0) or vector(0)",
                    steps=NOTICE_ABOVE_ZERO,
                ),
                number(
                    "Unreadable schedules",
                    'max(fleetlog_autoscaler_rules{state="unreadable"}) or vector(0)',
                    steps=BAD_ABOVE_ZERO,
                ),
            ),
        ),
        Row(
            "Replicas and conditions",
            (
                lines(
                    "Replicas: now, recommended, desired, limits",
                    f"max by (namespace, name, of) (fleetlog_autoscaler_replicas{_CHOSEN})",
                    "{{namespace}}/{{name}} {{of}}",
                ),
                lines(
                    "FederatedHPAs that are stabilized or limited",
                    _autoscalers(
                        f'{_CONDITIONS}{{condition="AbleToScale", reason=~"Scale(Up|Down)Stabilized"}} or '
                        f'{_CONDITIONS}{{condition="ScalingLimited", status="True"}}'
                    ),
                    "{{condition}} {{reason}}",
                ),
                lines(
                    "FederatedHPAs that cannot scale",
                    _autoscalers(f'{_CONDITIONS}{{condition=~"AbleToScale|ScalingActive", status="False"}}'),
                    "{{condition}} {{reason}}",
                    steps=NOTICE_ABOVE_ZERO,
                ),
            ),
        ),
        Row(
            "Rounds and decisions",
            (
                lines("Rounds per second", rate(f"{_ROUND}_count", "result"), "{{result}}", "ops"),
                lines("Round, p99", quantile(0.99, _ROUND, "result"), "{{result}}", "s"),
                lines(
                    "Decisions per second",
                    rate("horizontal_pod_autoscaler_controller_reconciliations_total", "action, error"),
                    "{{action}}, error: {{error}}",
                    "ops",
                ),
                lines(
                    "Metrics evaluated per second",
                    rate("horizontal_pod_autoscaler_controller_metric_computation_total", "metric_type, error"),
                    "{{metric_type}}, error: {{error}}",
                    "ops",
                ),
                lines(
                    "Reading of metrics, p99",
                    quantile(0.99, "federatedhpa_pull_metrics_duration_seconds", "metricType"),
                    "{{metricType}}",
                    "s",
                ),
            ),
        ),
        Row(
            "Sources of metrics",
            (
                lines("Answers per second", rate(_ANSWERS, "source, result"), "{{source}} {{result}}", "ops"),
                lines("Answers that failed", failed(_ANSWERS, "source"), "{{source}}", "percent", steps=((20, "red"),)),
                states(
                    "Members by samples",
                    "min by (member_cluster) (fleetlog_autoscaler_member_samples)",
                    "{{member_cluster}}",
                    {0: ("no samples", "orange"), 1: ("samples", "green")},
                ),
            ),
        ),
        Row(
            "Schedules",
            (
                lines("Runs", grown(_RUN, "result"), "{{result}}"),
                lines(
                    "Runs that were left out",
                    grown("fleetlog_autoscaler_rules_missed_total", "why"),
                    "{{why}}",
                    steps=NOTICE_ABOVE_ZERO,
                ),
                lines("Rules", "max by (state) (fleetlog_autoscaler_rules)", "{{state}}"),
            ),
        ),
    ),
    (
        Variable("namespace", "label_values(fleetlog_autoscaler_replicas, namespace)"),
        Variable("name", 'label_values(fleetlog_autoscaler_replicas{namespace=~"$namespace"}, name)'),
    ),
)
