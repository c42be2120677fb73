"""Traces as OTLP in JSON: what a collector takes on /v1/traces, and what people read without one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from services._rules.tracing.span_model import SCOPE, Kind, Span, Trace, Value

_KINDS: Final[dict[Kind, int]] = {"server": 2, "producer": 4, "consumer": 5}
_ERROR: Final = 2
NAMESPACE: Final = "fleetlog"


def document(traces: Iterable[Trace]) -> dict[str, Any]:
    """An ExportTraceServiceRequest of traces; one resource for each instance of a service."""
    by_resource: dict[tuple[str, str], list[Span]] = {}
    for trace in traces:
        for span in trace.spans:
            by_resource.setdefault((span.service, span.instance), []).append(span)
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(resource(service, instance))},
                "scopeSpans": [{"scope": {"name": SCOPE}, "spans": [_span(span) for span in spans]}],
            }
            for (service, instance), spans in by_resource.items()
        ]
    }


def resource(service: str, instance: str) -> dict[str, Value]:
    """Attributes of who took a step."""
    named: dict[str, Value] = {"service.name": service, "service.namespace": NAMESPACE}
    return {**named, "service.instance.id": instance} if instance else named


def nanoseconds(seconds: float) -> int:
    """A moment in nanoseconds since 1970; floats hold microseconds of it, and more would be noise."""
    return round(seconds * 1e6) * 1000


def _span(span: Span) -> dict[str, Any]:
    made: dict[str, Any] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": str(nanoseconds(span.start)),
        "endTimeUnixNano": str(nanoseconds(span.end)),
        "attributes": _attributes(span.attributes),
    }
    if span.parent_id:
        made["parentSpanId"] = span.parent_id
    if span.events:
        made["events"] = [{"timeUnixNano": str(nanoseconds(one.time)), "name": one.name} for one in span.events]
    if span.links:
        made["links"] = [{"traceId": link.trace_id, "spanId": link.span_id} for link in span.links]
    if span.error:
        made["status"] = {"code": _ERROR, "message": span.error}
    return made


def _attributes(attributes: dict[str, Value]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Value) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case _:
            return {"arrayValue": {"values": [_value(item) for item in value]}}
