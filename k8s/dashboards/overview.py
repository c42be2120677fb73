"""Whether everything is well: what has to be acted on, who leads, what is used."""

from __future__ import annotations

from typing import Final

from k8s.dashboards.panels import (
    BAD_ABOVE_ZERO,
    NOTICE_ABOVE_ZERO,
    OURS,
    UP,
    WINDOW,
    Dashboard,
    Query,
    Row,
    lines,
    number,
    states,
    table,
)

_LED: Final = 'fleetlog_leader{component!~"gateway|search"}'
_FIRING: Final = 'ALERTS{alertname=~"Fleetlog.*", alertstate="firing"}'

DASHBOARD: Final = Dashboard(
    "overview",
    (
        Row(
            "What has to be acted on",
            (
                number(
                    "Alerts", f"count({_FIRING}) or vector(0)", steps=BAD_ABOVE_ZERO, about="Alerts that are raised."
                ),
                number(
                    "Without a leader",
                    f"count(max by (component, shard_group) ({_LED}) == 0) or vector(0)",
                    steps=BAD_ABOVE_ZERO,
                    about="Services of which no instance leads: nothing of their kind is decided.",
                ),
                number(
                    "Members not ready",
                    "count(max by (member_cluster) (cluster_ready_state) == 0) or vector(0)",
                    steps=BAD_ABOVE_ZERO,
                ),
                number(
                    "Parked keys",
                    "sum(max by (component) (fleetlog_parked_keys))",
                    steps=NOTICE_ABOVE_ZERO,
                    about="Set aside after failures; `fleetlog parked list` names them.",
                ),
                number(
                    "Not schedulable",
                    'max(scheduler_pending_bindings{queue="unschedulable"})',
                    steps=NOTICE_ABOVE_ZERO,
                ),
                number(
                    "Withdrawals held",
                    "sum(max by (scope) (fleetlog_withdrawals_held))",
                    steps=BAD_ABOVE_ZERO,
                    about="Objects that are missing from the control plane and are not withdrawn.",
                ),
                table(
                    "Objectives",
                    (
                        Query("min by (sloth_slo) (slo:period_error_budget_remaining:ratio)", "budget left"),
                        Query("max by (sloth_slo) (slo:current_burn_rate:ratio)", "burns now"),
                    ),
                    about="1 is a whole budget. At a burn rate of 1 it lasts for 30 days.",
                ),
                lines("Alerts raised", f"count by (alertname) ({_FIRING}) or vector(0)", "{{alertname}}"),
            ),
        ),
        Row(
            "Services",
            (
                states(
                    "Who leads",
                    _LED,
                    "{{component}} {{shard_group}} {{instance}}",
                    {0: ("stands by", "blue"), 1: ("leads", "green")},
                    about="One instance of each service or group decides; the others follow the log and take over.",
                ),
                states(
                    "Scrapes that succeed",
                    "up and on (instance, job) present_over_time(fleetlog_leader[1d])",
                    "{{job}} {{instance}}",
                    UP,
                ),
                lines("Memory", f"process_resident_memory_bytes {OURS}", "{{job}} {{instance}}", "bytes"),
                lines("CPU", f"rate(process_cpu_seconds_total[{WINDOW}]) {OURS}", "{{job}} {{instance}}"),
                lines("File descriptors", f"process_open_fds {OURS}", "{{job}} {{instance}}"),
                table(
                    "Versions",
                    (Query("count by (git_version, compiler) (karmada_build_info)", "processes"),),
                    about="During an upgrade there are two.",
                ),
                lines(
                    "Tasks that are down",
                    "max by (component) (fleetlog_tasks_down)",
                    "{{component}}",
                    steps=BAD_ABOVE_ZERO,
                ),
            ),
        ),
    ),
)
