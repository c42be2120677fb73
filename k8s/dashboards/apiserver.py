"""The embedded control plane, and the gateway: requests, latency, seats, watches."""

from __future__ import annotations

from typing import Final

from k8s.dashboards.panels import (
    NOTICE_ABOVE_ZERO,
    Dashboard,
    Row,
    failed,
    grown,
    lines,
    number,
    quantile,
    rate,
)

_REQUESTS: Final = "fleetlog_apiserver_requests_total"
_SECONDS: Final = "fleetlog_apiserver_request_seconds"
_GATEWAY: Final = "fleetlog_gateway_request_seconds"

DASHBOARD: Final = Dashboard(
    "API server",
    (
        Row(
            "Overview",
            (
                number("Requests per second", f"sum(rate({_REQUESTS}[5m]))", "ops"),
                number(
                    "Server errors",
                    failed(_REQUESTS, "", 'code=~"5.."'),
                    "percent",
                    steps=((0.1, "orange"), (1, "red")),
                ),
                number(
                    "Client errors",
                    failed(_REQUESTS, "", 'code=~"4..", code!="429"'),
                    "percent",
                    about="Conflicts and objects that are not found are part of the work.",
                ),
                number("Watches", "sum(fleetlog_apiserver_watchers)"),
                number(
                    "Waiting for a seat",
                    "sum(fleetlog_apiserver_flow_requests_waiting)",
                    steps=NOTICE_ABOVE_ZERO,
                ),
                number(
                    "Time limit reached",
                    "sum(increase(fleetlog_apiserver_requests_timed_out_total[30m]))",
                    steps=NOTICE_ABOVE_ZERO,
                    about="Requests answered 504 within half an hour.",
                ),
            ),
        ),
        Row(
            "Requests",
            (
                lines("By code", rate(_REQUESTS, "code"), "{{code}}", "ops"),
                lines("By method", rate(_REQUESTS, "method"), "{{method}}", "ops"),
                lines("Latency, p50", quantile(0.5, _SECONDS, "method"), "{{method}}", "s", steps=((0.4, "red"),)),
                lines("Latency, p90", quantile(0.9, _SECONDS, "method"), "{{method}}", "s", steps=((0.4, "red"),)),
                lines("Latency, p99", quantile(0.99, _SECONDS, "method"), "{{method}}", "s", steps=((0.4, "red"),)),
                lines("Watches by kind", "topk(15, sum by (resource) (fleetlog_apiserver_watchers))", "{{resource}}"),
            ),
        ),
        Row(
            "Fairness and work aside",
            (
                lines("Seats taken", "sum by (level) (fleetlog_apiserver_flow_seats_taken)", "{{level}}"),
                lines("Requests that wait", "sum by (level) (fleetlog_apiserver_flow_requests_waiting)", "{{level}}"),
                lines(
                    "Refused for load",
                    f"{grown('fleetlog_apiserver_flow_requests_refused_total', 'level, reason')} or vector(0)",
                    "{{level}} {{reason}}",
                ),
                lines(
                    "Work aside of the event loop per second",
                    rate("fleetlog_apiserver_aside_seconds_count", "where"),
                    "{{where}}",
                    "ops",
                ),
                lines(
                    "Admission webhooks, p90",
                    f"{quantile(0.9, 'fleetlog_apiserver_webhook_seconds', 'name')} or vector(0)",
                    "{{name}}",
                    "s",
                ),
            ),
        ),
        Row(
            "Gateway: bindings, works and members",
            (
                lines("By code", rate("fleetlog_gateway_requests_total", "code"), "{{code}}", "ops"),
                lines("Latency, p99", quantile(0.99, _GATEWAY, "verb"), "{{verb}}", "s", steps=((0.5, "red"),)),
                lines("Watches", "sum(fleetlog_gateway_watches)", "watches"),
                lines("Objects shown", "max by (kind) (fleetlog_gateway_objects)", "{{kind}}"),
                lines(
                    "Requests handed on to members",
                    f"{rate('fleetlog_gateway_member_requests_total', 'code, kind')} or vector(0)",
                    "{{kind}} {{code}}",
                    "ops",
                ),
                lines("Requests for members under way", "sum(fleetlog_gateway_member_requests_open)", "requests"),
            ),
        ),
    ),
)
