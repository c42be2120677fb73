"""The log and the services that follow it."""

from __future__ import annotations

from typing import Final

from k8s.dashboards.panels import (
    BAD_ABOVE_ZERO,
    FILLING,
    NOTICE_ABOVE_ZERO,
    Dashboard,
    Query,
    Row,
    Variable,
    grown,
    lines,
    number,
    quantile,
    rate,
    table,
)

_CHOSEN: Final = '{component=~"$component"}'


def _of(metric: str) -> str:
    return f"{metric}{_CHOSEN}"


def _quantile(share: float, metric: str) -> str:
    return quantile(share, metric, "component").replace("_bucket[", f"_bucket{_CHOSEN}[")


DASHBOARD: Final = Dashboard(
    "log and services",
    (
        Row(
            "Streams",
            (
                number(
                    "Facts, fill",
                    '100 * max(fleetlog_stream_fill_ratio{stream="FACTS"})',
                    "percent",
                    steps=FILLING,
                    about="A stream of facts that is full refuses writes; streams that drop by age may well be full.",
                ),
                number(
                    "Streams in alarm",
                    "count(max by (stream) (fleetlog_stream_alarm) == 1) or vector(0)",
                    steps=BAD_ABOVE_ZERO,
                ),
                number(
                    "Replicas behind",
                    "sum(max by (stream) (fleetlog_stream_replicas - fleetlog_stream_replicas_current))",
                    steps=BAD_ABOVE_ZERO,
                    about="Of all streams. Without a majority of its replicas a stream takes no writes.",
                ),
                number("Bytes", "sum(max by (stream) (fleetlog_stream_bytes))", "bytes"),
                number("Messages", "sum(max by (stream) (fleetlog_stream_messages))"),
                number("Consumers", "sum(max by (stream) (fleetlog_stream_consumers))"),
                table(
                    "Streams",
                    (
                        Query("max by (stream) (fleetlog_stream_bytes)", "bytes"),
                        Query("max by (stream) (fleetlog_stream_limit_bytes)", "limit"),
                        Query("max by (stream) (fleetlog_stream_messages)", "messages"),
                        Query("max by (stream) (fleetlog_stream_consumers)", "consumers"),
                        Query("min by (stream) (fleetlog_stream_replicas_current)", "replicas that have everything"),
                        Query("max by (stream) (fleetlog_stream_replica_lag)", "messages the slowest lacks"),
                    ),
                    width=16,
                ),
                lines(
                    "Fill", "100 * max by (stream) (fleetlog_stream_fill_ratio)", "{{stream}}", "percent", steps=FILLING
                ),
                lines("Bytes by stream", "max by (stream) (fleetlog_stream_bytes)", "{{stream}}", "bytes"),
                lines("Messages by stream", "max by (stream) (fleetlog_stream_messages)", "{{stream}}"),
                lines("Replicas, messages behind", "max by (stream) (fleetlog_stream_replica_lag)", "{{stream}}"),
            ),
        ),
        Row(
            "Writing",
            (
                lines(
                    "Events appended per second",
                    rate(_of("fleetlog_events_total"), "component"),
                    "{{component}}",
                    "ops",
                ),
                lines("Append, p99", _quantile(0.99, "fleetlog_append_seconds"), "{{component}}", "s"),
                lines(
                    "Events per batch",
                    f"{rate(_of('fleetlog_batch_events_sum'), 'component')}"
                    f" / {rate(_of('fleetlog_batch_events_count'), 'component')}",
                    "{{component}}",
                ),
                lines(
                    "Batches sent again",
                    grown(_of("fleetlog_append_retries_total"), "component"),
                    "{{component}}",
                    steps=NOTICE_ABOVE_ZERO,
                ),
                lines(
                    "Batches without an answer",
                    grown(_of("fleetlog_append_ambiguous_total"), "component"),
                    "{{component}}",
                ),
            ),
        ),
        Row(
            "Following and deciding",
            (
                lines("Instances", f"count by (component) ({_of('fleetlog_leader')})", "{{component}}"),
                lines(
                    "Messages behind the log",
                    f"max by (component, stream) ({_of('fleetlog_log_lag')})",
                    "{{component}} {{stream}}",
                ),
                lines(
                    "Keys that wait for a decision",
                    f"max by (component) ({_of('fleetlog_dirty_keys')})",
                    "{{component}}",
                ),
                lines(
                    "Parked keys",
                    f"max by (component) ({_of('fleetlog_parked_keys')})",
                    "{{component}}",
                    steps=NOTICE_ABOVE_ZERO,
                ),
                lines("Cause to log, p50", _quantile(0.5, "fleetlog_stage_seconds"), "{{component}}", "s"),
                lines("Cause to log, p99", _quantile(0.99, "fleetlog_stage_seconds"), "{{component}}", "s"),
                lines("Decision, p99", _quantile(0.99, "fleetlog_decide_seconds"), "{{component}}", "s"),
                lines(
                    "Decisions that raised",
                    grown(_of("fleetlog_decision_failures_total"), "component"),
                    "{{component}}",
                ),
                lines(
                    "Unreadable messages",
                    grown(_of("fleetlog_unreadable_total"), "component, kind"),
                    "{{component}} {{kind}}",
                    steps=BAD_ABOVE_ZERO,
                ),
            ),
        ),
    ),
    (Variable("component", "label_values(fleetlog_leader, component)"),),
)
