"""Spans as OpenTelemetry has them, and their ids, which follow from the ids of events."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from services._rules.tracing.logged_event import LoggedEvent

Value: TypeAlias = str | int | float | bool | tuple[str, ...]
Kind: TypeAlias = Literal["server", "producer", "consumer"]

SCOPE: Final = "fleetlog"


class SpanLink(Struct, frozen=True):
    """Another span that this one follows from, beside its parent."""

    trace_id: str
    span_id: str


class SpanEvent(Struct, frozen=True):
    """A moment within a span, in seconds since 1970."""

    name: str
    time: float


class Span(Struct, frozen=True, kw_only=True):
    """One step of a change: from when its cause was stored until it was stored itself; seconds since 1970.

    Ids are in hexadecimal digits, `parent_id` is empty for the first span of a trace. `service` and `instance` are who
    took the step. `error` says why it failed, and is empty where it did not.
    """

    trace_id: str
    span_id: str
    parent_id: str = ""
    name: str
    kind: Kind
    service: str
    instance: str = ""
    start: float
    end: float
    attributes: dict[str, Value] = {}
    events: tuple[SpanEvent, ...] = ()
    links: tuple[SpanLink, ...] = ()
    error: str = ""


class Trace(Struct, frozen=True):
    """Spans of one trace, in the order of their steps; `left_out` counts those beyond the bound."""

    trace_id: str
    spans: tuple[Span, ...]
    left_out: int = 0


def trace_id(logged: LoggedEvent, *, cut: bool = False) -> str:
    """Id of the trace that begins with an event: the same for the same event, whenever it is asked for.

    `cut`: what came before the event is lost; all events with the same correlation then have one trace.
    """
    name = (cut and logged.correlation) or logged.event_id or _place(logged)
    return blake2b(name.encode(), digest_size=16, person=b"fleetlog trace").hexdigest()


def span_id(logged: LoggedEvent) -> str:
    """Id of the span of an event: the same for the same event, whenever it is asked for."""
    return blake2b((logged.event_id or _place(logged)).encode(), digest_size=8, person=b"fleetlog span").hexdigest()


def request_span_id(revision: int, resource: str) -> str:
    """Id of the span of a request, by the revision that it made."""
    return blake2b(f"{resource}@{revision}".encode(), digest_size=8, person=b"fleetlog req").hexdigest()


def sampled(trace: str, ratio: float) -> bool:
    """Whether a trace is among a share of all: the decision that OpenTelemetry takes by the same id and ratio."""
    return int(trace[-16:], 16) < round(ratio * (1 << 64))


def _place(logged: LoggedEvent) -> str:
    return f"{logged.stream}/{logged.seq}/{logged.subject}"
