"""From a policy to the objects of members: claims, works, deliveries, status, evictions."""

from __future__ import annotations

from typing import Final

from k8s.dashboards.panels import (
    BAD_ABOVE_ZERO,
    NOTICE_ABOVE_ZERO,
    Dashboard,
    Row,
    Variable,
    grown,
    lines,
    number,
    quantile,
    rate,
    success,
)

_CHOSEN: Final = '{member_cluster=~"$member_cluster"}'
_GOOD: Final = ((0, "red"), (99, "orange"), (99.9, "green"))
_WORK: Final = "work_sync_workload_duration_seconds"

DASHBOARD: Final = Dashboard(
    "delivery",
    (
        Row(
            "Overview",
            (
                number(
                    "Policies applied, success",
                    success("policy_apply_attempts_total", "success"),
                    "percent",
                    steps=_GOOD,
                ),
                number(
                    "Works rendered, success",
                    success("binding_sync_work_duration_seconds_count", "success"),
                    "percent",
                    steps=_GOOD,
                ),
                number("Works delivered, success", success(f"{_WORK}_count", "success"), "percent", steps=_GOOD),
                number("Fully applied", 'max(fleetlog_aggregator_objects{applied="fully"})'),
                number("Partly applied", 'max(fleetlog_aggregator_objects{applied="partly"})', steps=NOTICE_ABOVE_ZERO),
                number("Works not rendered", "max(fleetlog_renderer_broken_works)", steps=BAD_ABOVE_ZERO),
            ),
        ),
        Row(
            "Stages",
            (
                lines(
                    "Policies applied per second", rate("policy_apply_attempts_total", "result"), "{{result}}", "ops"
                ),
                lines(
                    "Policy apply, p99",
                    quantile(0.99, "resource_apply_policy_duration_seconds", "result"),
                    "{{result}}",
                    "s",
                ),
                lines(
                    "Binding to work, p99",
                    quantile(0.99, "binding_sync_work_duration_seconds", "result"),
                    "{{result}}",
                    "s",
                ),
                lines("Work to member, p50", quantile(0.5, _WORK, "result"), "{{result}}", "s"),
                lines("Work to member, p99", quantile(0.99, _WORK, "result"), "{{result}}", "s"),
                lines("Statuses not yet written", "max(fleetlog_aggregator_pending_writes)", "statuses"),
            ),
        ),
        Row(
            "Members",
            (
                lines(
                    "Creations",
                    grown(f"create_resource_to_cluster{_CHOSEN}", "member_cluster, result"),
                    "{{member_cluster}} {{result}}",
                ),
                lines(
                    "Writes per second",
                    rate(f"fleetlog_lane_writes_total{_CHOSEN}", "member_cluster"),
                    "{{member_cluster}}",
                    "ops",
                ),
                lines(
                    "Deliveries that were refused",
                    grown(f"fleetlog_lane_failures_total{_CHOSEN}", "member_cluster"),
                    "{{member_cluster}}",
                    steps=NOTICE_ABOVE_ZERO,
                ),
                lines(
                    "Objects not yet in line",
                    f"max by (member_cluster) (fleetlog_lane_backlog{_CHOSEN})",
                    "{{member_cluster}}",
                ),
                lines(
                    "Objects put back",
                    grown(f"fleetlog_lane_repairs_total{_CHOSEN}", "member_cluster"),
                    "{{member_cluster}}",
                    about="They had been changed or deleted in the member.",
                ),
                lines(
                    "Requests sent at once at most",
                    f"min by (member_cluster) (fleetlog_lane_requests_limit{_CHOSEN})",
                    "{{member_cluster}}",
                ),
            ),
        ),
        Row(
            "Status and evictions",
            (
                lines("Objects by application", "max by (applied) (fleetlog_aggregator_objects)", "{{applied}}"),
                lines("Evictions that wait", "max(eviction_queue_depth)", "waiting"),
                lines("Clusters that objects are leaving", "max(fleetlog_failover_evictions)", "evictions"),
                lines("Clusters with a NoExecute taint", "max(fleetlog_failover_tainted_clusters)", "clusters"),
                lines(
                    "Answers of interpreters per second",
                    rate("fleetlog_interpreter_answers_total", "component, result"),
                    "{{component}} {{result}}",
                    "ops",
                ),
            ),
        ),
    ),
    (Variable("member_cluster", "label_values(fleetlog_lane_up, member_cluster)"),),
)
