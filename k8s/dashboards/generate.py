"""Writes the Grafana dashboards of this directory from the panels listed here: `python k8s/dashboards/generate.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
WINDOW: Final = "$__rate_interval"
SOURCE: Final = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
WIDTH: Final = 8
HEIGHT: Final = 8
COLUMNS: Final = 24
SCHEDULING: Final = "karmada_scheduler_e2e_scheduling_duration_seconds"

ROUND: Final = "federatedhpa_process_duration_seconds"
RUN: Final = "cronfederatedhpa_rule_process_duration_seconds_count"
CONDITIONS: Final = "fleetlog_autoscaler_conditions"
ANSWERS: Final = "fleetlog_autoscaler_source_answers_total"
CHOSEN: Final = '{namespace=~"$namespace", name=~"$name"}'
OURS: Final = "and on (instance, job) fleetlog_leader"
"""Leaves out processes of others that the same Prometheus looks at."""

Panel = tuple[str, str, str, str]
"""Title, query, legend, unit."""


def quantile(share: float, metric: str, by: str) -> str:
    """The query for a quantile of a histogram by one label."""
    return f"histogram_quantile({share}, sum by (le, {by}) (rate({metric}_bucket[{WINDOW}])))"


def rate(metric: str, by: str) -> str:
    """The query for a counter's growth per second by one label."""
    return f"sum by ({by}) (rate({metric}[{WINDOW}]))"


def success(metric: str, good: str) -> str:
    """The query for the share of good outcomes in percent, 100 while nothing happens."""
    whole = f"sum(rate({metric}[{WINDOW}]))"
    bad = f'(sum(rate({metric}{{result!="{good}"}}[{WINDOW}])) or on() vector(0))'
    return f"100 * (1 - {bad} / clamp_min({whole}, 1e-9))"


def autoscalers(which: str) -> str:
    """The query for FederatedHPAs by a condition and its reason; every instance knows all of them."""
    return f"max by (condition, reason) ({which}) or vector(0)"


def failed(metric: str, by: str) -> str:
    """The query for the share of failures in percent by one label, 0 while nothing happens."""
    whole = f"sum by ({by}) (rate({metric}[{WINDOW}]))"
    return f'100 * sum by ({by}) (rate({metric}{{result="error"}}[{WINDOW}])) / clamp_min({whole}, 1e-9)'


def used(name: str, unit: str) -> str:
    """The query for what of a member's room is taken, in percent."""
    allocated, whole = f"cluster_{name}_allocated_{unit}", f"cluster_{name}_allocatable_{unit}"
    return f"100 * max by (member_cluster) ({allocated}) / max by (member_cluster) ({whole})"


DASHBOARDS: Final[dict[str, tuple[str, list[Panel]]]] = {
    "fleetlog-log": (
        "Fleetlog: log and services",
        [
            ("Instances", "count by (service) (fleetlog_leader)", "{{service}}", "short"),
            ("Leaders", "sum by (service) (fleetlog_leader)", "{{service}}", "short"),
            (
                "Messages behind the log",
                "max by (service, stream) (fleetlog_log_lag)",
                "{{service}} {{stream}}",
                "short",
            ),
            ("Events appended per second", rate("fleetlog_events_total", "service"), "{{service}}", "ops"),
            ("Parked keys", "sum by (service) (fleetlog_parked_keys)", "{{service}}", "short"),
            ("Keys that wait for a decision", "sum by (service) (fleetlog_dirty_keys)", "{{service}}", "short"),
            ("Cause to log, p50", quantile(0.5, "fleetlog_stage_seconds", "service"), "{{service}}", "s"),
            ("Cause to log, p99", quantile(0.99, "fleetlog_stage_seconds", "service"), "{{service}}", "s"),
            ("Append, p99", quantile(0.99, "fleetlog_append_seconds", "service"), "{{service}}", "s"),
            (
                "Events per batch",
                f"{rate('fleetlog_batch_events_sum', 'service')} / {rate('fleetlog_batch_events_count', 'service')}",
                "{{service}}",
                "short",
            ),
            ("Decision, p99", quantile(0.99, "fleetlog_decide_seconds", "service"), "{{service}}", "s"),
            (
                "Unreadable messages",
                f"sum by (service, kind) (increase(fleetlog_unreadable_total[{WINDOW}]))",
                "{{service}} {{kind}}",
                "short",
            ),
            ("Memory", f"process_resident_memory_bytes {OURS}", "{{job}} {{instance}}", "bytes"),
            ("CPU", f"rate(process_cpu_seconds_total[{WINDOW}]) {OURS}", "{{job}} {{instance}}", "short"),
        ],
    ),
    "fleetlog-propagation": (
        "Fleetlog: propagation",
        [
            ("Policies applied, success", success("policy_apply_attempts_total", "success"), "success", "percent"),
            ("Policies applied per second", rate("policy_apply_attempts_total", "result"), "{{result}}", "ops"),
            (
                "Policy apply, p99",
                quantile(0.99, "resource_apply_policy_duration_seconds", "result"),
                "{{result}}",
                "s",
            ),
            ("Binding to work, p99", quantile(0.99, "binding_sync_work_duration_seconds", "result"), "{{result}}", "s"),
            ("Work to member, p50", quantile(0.5, "work_sync_workload_duration_seconds", "result"), "{{result}}", "s"),
            ("Work to member, p99", quantile(0.99, "work_sync_workload_duration_seconds", "result"), "{{result}}", "s"),
            ("Creations", "sum by (member_cluster) (create_resource_to_cluster)", "{{member_cluster}}", "short"),
            ("Writes to members per second", rate("fleetlog_lane_writes_total", "cluster"), "{{cluster}}", "ops"),
            ("Objects not yet in line", "max by (cluster) (fleetlog_lane_backlog)", "{{cluster}}", "short"),
            ("Objects fully applied", "max by (applied) (fleetlog_aggregator_objects)", "{{applied}}", "short"),
            ("Evictions that wait", "sum(eviction_queue_depth)", "waiting", "short"),
        ],
    ),
    "fleetlog-scheduler": (
        "Fleetlog: scheduler",
        [
            ("Success", success("karmada_scheduler_schedule_attempts_total", "scheduled"), "success", "percent"),
            ("Attempts per second", rate("karmada_scheduler_schedule_attempts_total", "result"), "{{result}}", "ops"),
            ("By type", rate("karmada_scheduler_schedule_attempts_total", "schedule_type"), "{{schedule_type}}", "ops"),
            ("End to end, p95", quantile(0.95, SCHEDULING, "schedule_type"), "{{schedule_type}}", "s"),
            ("Pending", "max by (queue) (scheduler_pending_bindings)", "{{queue}}", "short"),
            ("Objects by outcome", "max by (outcome) (fleetlog_scheduler_bindings)", "{{outcome}}", "short"),
        ],
    ),
    "fleetlog-autoscaling": (
        "Fleetlog: autoscaling",
        [
            (
                "Replicas: now, recommended, desired, limits",
                f"max by (namespace, name, of) (fleetlog_autoscaler_replicas{CHOSEN})",
                "{{namespace}}/{{name}} {{of}}",
                "short",
            ),
            (
                "FederatedHPAs that are stabilized or limited",
                autoscalers(
                    f'{CONDITIONS}{{condition="AbleToScale", reason=~"Scale(Up|Down)Stabilized"}} or '
                    f'{CONDITIONS}{{condition="ScalingLimited", status="True"}}'
                ),
                "{{condition}} {{reason}}",
                "short",
            ),
            (
                "FederatedHPAs that cannot scale",
                autoscalers(f'{CONDITIONS}{{condition=~"AbleToScale|ScalingActive", status="False"}}'),
                "{{condition}} {{reason}}",
                "short",
            ),
            ("Rounds per second", rate(f"{ROUND}_count", "result"), "{{result}}", "ops"),
            ("Round, p99", quantile(0.99, ROUND, "result"), "{{result}}", "s"),
            (
                "Last round, % of the period",
                "100 * max(fleetlog_autoscaler_round_seconds) / max(fleetlog_autoscaler_period_seconds)",
                "round",
                "percent",
            ),
            (
                "Decisions per second",
                rate("horizontal_pod_autoscaler_controller_reconciliations_total", "action, error"),
                "{{action}}, error: {{error}}",
                "ops",
            ),
            (
                "Metrics evaluated per second",
                rate("horizontal_pod_autoscaler_controller_metric_computation_total", "metric_type, error"),
                "{{metric_type}}, error: {{error}}",
                "ops",
            ),
            (
                "Reading of metrics, p99",
                quantile(0.99, "federatedhpa_pull_metrics_duration_seconds", "metricType"),
                "{{metricType}}",
                "s",
            ),
            ("Answers of metric sources per second", rate(ANSWERS, "source, result"), "{{source}} {{result}}", "ops"),
            ("Metric sources, answers that failed", failed(ANSWERS, "source"), "{{source}}", "percent"),
            (
                "Members without samples",
                "count(min by (member_cluster) (fleetlog_autoscaler_member_samples) == 0) or vector(0)",
                "members",
                "short",
            ),
            (
                "Members by samples",
                "min by (member_cluster) (fleetlog_autoscaler_member_samples)",
                "{{member_cluster}}",
                "short",
            ),
            ("Runs of schedules", f"sum by (result) (increase({RUN}[{WINDOW}]))", "{{result}}", "short"),
            (
                "Runs of schedules that were left out",
                f"sum by (why) (increase(fleetlog_autoscaler_rules_missed_total[{WINDOW}]))",
                "{{why}}",
                "short",
            ),
            ("Rules of schedules", "max by (state) (fleetlog_autoscaler_rules)", "{{state}}", "short"),
        ],
    ),
    "fleetlog-members": (
        "Fleetlog: member clusters",
        [
            ("Ready", "max by (member_cluster) (cluster_ready_state)", "{{member_cluster}}", "short"),
            ("Nodes", "max by (member_cluster) (cluster_node_number)", "{{member_cluster}}", "short"),
            ("Ready nodes", "max by (member_cluster) (cluster_ready_node_number)", "{{member_cluster}}", "short"),
            ("CPU, allocated %", used("cpu", "number"), "{{member_cluster}}", "percent"),
            ("Memory, allocated %", used("memory", "bytes"), "{{member_cluster}}", "percent"),
            ("Pods, allocated %", used("pod", "number"), "{{member_cluster}}", "percent"),
            (
                "Questions about metrics without an answer",
                f"{rate('fleetlog_gateway_metric_members_silent_total', 'member')} or vector(0)",
                "{{member}}",
                "ops",
            ),
            ("Lanes that get through", "min by (cluster) (fleetlog_lane_up)", "{{cluster}}", "short"),
        ],
    ),
}


VARIABLES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "fleetlog-autoscaling": (
        ("namespace", "label_values(fleetlog_autoscaler_replicas, namespace)"),
        ("name", 'label_values(fleetlog_autoscaler_replicas{namespace=~"$namespace"}, name)'),
    ),
}
"""By dashboard, what its users choose from, with the query for the choices; panels name it with a dollar sign."""


def variable(name: str, query: str) -> dict[str, Any]:
    """A choice of several values, all of them at first."""
    return {
        "name": name,
        "type": "query",
        "datasource": SOURCE,
        "query": query,
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def filled(query: str, window: str) -> str:
    """A query as Prometheus takes it: with everything chosen, and rates over a window."""
    names = {name for variables in VARIABLES.values() for name, _ in variables}
    # Longer ones first: one may begin like another.
    for name in sorted(names, key=len, reverse=True):
        query = query.replace(f"${name}", ".*")
    return query.replace(WINDOW, window)


def dashboard(uid: str) -> dict[str, Any]:
    """One dashboard as Grafana imports it."""
    title, panels = DASHBOARDS[uid]
    per_row = COLUMNS // WIDTH
    return {
        "uid": uid,
        "title": title,
        "tags": ["fleetlog"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "DS_PROMETHEUS", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
                *(variable(*each) for each in VARIABLES.get(uid, ())),
            ]
        },
        "panels": [
            {
                "id": number + 1,
                "title": name,
                "type": "timeseries",
                "datasource": SOURCE,
                "gridPos": {
                    "h": HEIGHT,
                    "w": WIDTH,
                    "x": number % per_row * WIDTH,
                    "y": number // per_row * HEIGHT,
                },
                "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
                "targets": [{"refId": "A", "datasource": SOURCE, "expr": query, "legendFormat": legend}],
            }
            for number, (name, query, legend, unit) in enumerate(panels)
        ],
    }


def documents() -> dict[str, str]:
    """Every generated file by its name."""
    return {f"{uid}.json": json.dumps(dashboard(uid), indent=2) + "\n" for uid in DASHBOARDS}


if __name__ == "__main__":
    for file, text in documents().items():
        (HERE / file).write_text(text, encoding="utf-8")
