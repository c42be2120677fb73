"""Member clusters: readiness, capacity, probes, what gets through."""

from __future__ import annotations

from typing import Final

from k8s.dashboards.panels import (
    SHARE,
    UP,
    Dashboard,
    Query,
    Row,
    Variable,
    grown,
    lines,
    number,
    quantile,
    rate,
    states,
    table,
)

_CHOSEN: Final = '{member_cluster=~"$member_cluster"}'
_PROBES: Final = quantile(0.95, "cluster_sync_status_duration_seconds", "member_cluster")


def _each(metric: str) -> str:
    return f"max by (member_cluster) ({metric}{_CHOSEN})"


def used(name: str, unit: str) -> str:
    """The query for the share of a member's capacity that is taken, in percent."""
    return f"100 * {_each(f'cluster_{name}_allocated_{unit}')} / {_each(f'cluster_{name}_allocatable_{unit}')}"


DASHBOARD: Final = Dashboard(
    "member clusters",
    (
        Row(
            "Overview",
            (
                number("Members", f"count({_each('cluster_ready_state')})"),
                number(
                    "Not ready",
                    f"count({_each('cluster_ready_state')} == 0) or vector(0)",
                    steps=((1, "red"),),
                ),
                number("Nodes", f"sum({_each('cluster_node_number')})"),
                number(
                    "Nodes ready",
                    f"100 * sum({_each('cluster_ready_node_number')}) / sum({_each('cluster_node_number')})",
                    "percent",
                    steps=((0, "red"), (80, "orange"), (99, "green")),
                ),
                number("Pull members", "max(fleetlog_agent_clusters)"),
                number(
                    "Another cluster answers",
                    f"sum({_each('cluster_identity_changed')})",
                    steps=((1, "red"),),
                    about="At the address of a member: nothing is delivered there.",
                ),
                states("Ready", _each("cluster_ready_state"), "{{member_cluster}}", UP),
                states(
                    "Deliveries get through",
                    f"min by (member_cluster) (fleetlog_lane_up{_CHOSEN})",
                    "{{member_cluster}}",
                    UP,
                ),
                table(
                    "Capacity",
                    (
                        Query(_each("cluster_ready_node_number"), "ready nodes"),
                        Query(_each("cluster_node_number"), "nodes"),
                        Query(used("cpu", "number"), "CPU %"),
                        Query(used("memory", "bytes"), "memory %"),
                        Query(used("pod", "number"), "pods %"),
                    ),
                    width=24,
                ),
            ),
        ),
        Row(
            "Utilization",
            (
                lines("CPU, allocated %", used("cpu", "number"), "{{member_cluster}}", "percent", steps=SHARE),
                lines("Memory, allocated %", used("memory", "bytes"), "{{member_cluster}}", "percent", steps=SHARE),
                lines("Pods, allocated %", used("pod", "number"), "{{member_cluster}}", "percent", steps=SHARE),
                lines("CPU, allocatable", _each("cluster_cpu_allocatable_number"), "{{member_cluster}}"),
                lines("Memory, allocatable", _each("cluster_memory_allocatable_bytes"), "{{member_cluster}}", "bytes"),
                lines("Ready nodes", _each("cluster_ready_node_number"), "{{member_cluster}}"),
            ),
        ),
        Row(
            "Connections",
            (
                lines(
                    "Probe, p95",
                    _PROBES.replace("_bucket[", f"_bucket{_CHOSEN}["),
                    "{{member_cluster}}",
                    "s",
                    steps=((1, "orange"), (5, "red")),
                ),
                lines(
                    "Interruptions of deliveries",
                    grown(f"fleetlog_lane_interruptions_total{_CHOSEN}", "member_cluster"),
                    "{{member_cluster}}",
                ),
                lines(
                    "Credentials end in",
                    f"min by (member_cluster) (fleetlog_member_credentials_expire_seconds{_CHOSEN}) or vector(0)",
                    "{{member_cluster}}",
                    "s",
                    about="Of members whose credentials have an end.",
                ),
                lines(
                    "Questions about metrics without an answer",
                    f"{rate(f'fleetlog_gateway_metric_members_silent_total{_CHOSEN}', 'member_cluster')} or vector(0)",
                    "{{member_cluster}}",
                    "ops",
                ),
                lines("Objects of members in the index of search", "max(fleetlog_search_objects)", "objects"),
                lines(
                    "Reports of agents stored per second",
                    "sum(rate(fleetlog_agent_reports_total[$__rate_interval]))",
                    "reports",
                    "ops",
                ),
            ),
        ),
    ),
    (Variable("member_cluster", "label_values(cluster_ready_state, member_cluster)"),),
)
