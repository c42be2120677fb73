"""Placements: outcomes, time, queue, steps of the algorithm, estimates."""

from __future__ import annotations

from typing import Final

from k8s.dashboards.panels import (
    NOTICE_ABOVE_ZERO,
    Dashboard,
    Row,
    Variable,
    failed,
    lines,
    number,
    quantile,
    rate,
    success,
)

_ATTEMPTS: Final = "karmada_scheduler_schedule_attempts_total"
_TYPE: Final = '{schedule_type=~"$schedule_type"}'
_SECONDS: Final = "karmada_scheduler_e2e_scheduling_duration_seconds"


def _lasted(share: float) -> str:
    return quantile(share, _SECONDS, "schedule_type").replace("_bucket[", f"_bucket{_TYPE}[")


DASHBOARD: Final = Dashboard(
    "scheduler",
    (
        Row(
            "Overview",
            (
                number(
                    "Success",
                    success(_ATTEMPTS, "scheduled"),
                    "percent",
                    steps=((0, "red"), (95, "orange"), (99, "green")),
                ),
                number("Attempts per second", f"sum(rate({_ATTEMPTS}[5m]))", "ops"),
                number(
                    "Not schedulable",
                    'max(scheduler_pending_bindings{queue="unschedulable"})',
                    steps=NOTICE_ABOVE_ZERO,
                ),
                number("Refused by a quota", "max(fleetlog_scheduler_quota_refused)", steps=NOTICE_ABOVE_ZERO),
                number("Clusters", "max(fleetlog_scheduler_clusters)"),
                number(
                    "Decided without an estimate",
                    failed("fleetlog_scheduler_estimates_total", "", 'answer="missed"'),
                    "percent",
                    steps=((1, "orange"), (5, "red")),
                ),
            ),
        ),
        Row(
            "Placements",
            (
                lines("By result", rate(f"{_ATTEMPTS}{_TYPE}", "result"), "{{result}}", "ops"),
                lines("By type", rate(f"{_ATTEMPTS}{_TYPE}", "schedule_type"), "{{schedule_type}}", "ops"),
                lines("Objects by outcome", "max by (outcome) (fleetlog_scheduler_bindings)", "{{outcome}}"),
                lines("End to end, p50", _lasted(0.5), "{{schedule_type}}", "s", steps=((0.512, "red"),)),
                lines("End to end, p95", _lasted(0.95), "{{schedule_type}}", "s", steps=((0.512, "red"),)),
                lines("End to end, p99", _lasted(0.99), "{{schedule_type}}", "s", steps=((0.512, "red"),)),
            ),
        ),
        Row(
            "Queue and algorithm",
            (
                lines("Pending", "max by (queue) (scheduler_pending_bindings)", "{{queue}}"),
                lines(
                    "Queued per second",
                    rate("karmada_scheduler_queue_incoming_bindings_total", "event"),
                    "{{event}}",
                    "ops",
                ),
                lines(
                    "Steps of the algorithm, p95",
                    quantile(0.95, "karmada_scheduler_scheduling_algorithm_duration_seconds", "schedule_step"),
                    "{{schedule_step}}",
                    "s",
                ),
            ),
        ),
        Row(
            "Estimates",
            (
                lines(
                    "Estimates used or missed",
                    rate("fleetlog_scheduler_estimates_total", "answer"),
                    "{{answer}}",
                    "ops",
                ),
                lines("Members whose nodes are known", "max(fleetlog_estimator_members_known)", "members"),
                lines(
                    "Agents that did not answer",
                    "max(fleetlog_estimator_agents_silent)",
                    "agents",
                    steps=NOTICE_ABOVE_ZERO,
                ),
                lines("Objects whose estimate is due", "max(fleetlog_estimator_unanswered)", "objects"),
                lines("Nodes in view", "max(fleetlog_estimator_nodes)", "nodes"),
                lines(
                    "Questions of the descheduler per second",
                    f"{rate('fleetlog_descheduler_questions_total', 'result')} or vector(0)",
                    "{{result}}",
                    "ops",
                ),
            ),
        ),
    ),
    (Variable("schedule_type", f"label_values({_ATTEMPTS}, schedule_type)"),),
)
