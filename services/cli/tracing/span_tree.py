"""Prints a trace for people: which step, in which service, began when and took how long, each below its cause."""

from __future__ import annotations

from collections.abc import Iterator

from services._rules.tracing.span_model import Span, Trace
from services.cli.common.moments import stamp
from services.cli.common.printing import aligned
from services.cli.common.terminal_text import harmless

_BROADEST = 60


def tree(trace: Trace) -> str:
    """The lines of one trace: a head, and a line for each span."""
    began = min(span.start for span in trace.spans)
    ended = max(span.end for span in trace.spans)
    head = f"trace {trace.trace_id}, {stamp(began)}, {milliseconds(ended - began)}\n"
    rows = [_row(span, depth, began) for span, depth in _walk(trace.spans)]
    rest = f"{trace.left_out} spans more are left out\n" if trace.left_out else ""
    return head + aligned(rows, broadest=_BROADEST) + rest


def milliseconds(seconds: float) -> str:
    """A duration as people compare them: `0.4 ms`, `12 ms`, `3.4 s`."""
    if seconds < 0.00995:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _walk(spans: tuple[Span, ...]) -> Iterator[tuple[Span, int]]:
    """Spans with their depth, each below its parent, in the order in which they ended."""
    known = {span.span_id for span in spans}
    below: dict[str, list[Span]] = {}
    for span in spans:
        below.setdefault(span.parent_id if span.parent_id in known else "", []).append(span)
    waiting = [(span, 0) for span in reversed(_by_time(below.get("", [])))]
    while waiting:
        span, depth = waiting.pop()
        yield span, depth
        waiting += [(one, depth + 1) for one in reversed(_by_time(below.pop(span.span_id, [])))]


def _by_time(spans: list[Span]) -> list[Span]:
    return sorted(spans, key=lambda span: (span.end, span.span_id))


def _row(span: Span, depth: int, began: float) -> list[str]:
    attributes = span.attributes
    position = attributes.get("fleetlog.log.position")
    place = f"{attributes.get('fleetlog.event', '')} #{position}" if position is not None else ""
    notes = [str(attributes.get("fleetlog.summary", ""))]
    if span.error:
        notes = [f"failed: {span.error}"]
    if "fleetlog.cause.lost" in attributes:
        notes.append("its cause is not on the log any more")
    if "fleetlog.clock.skew_ms" in attributes:
        notes.append(f"clocks differ by {attributes['fleetlog.clock.skew_ms']} ms")
    return [
        f"+{milliseconds(span.start - began)}",
        milliseconds(span.end - span.start),
        "  " * depth + span.name,
        span.service,
        str(attributes.get("k8s.cluster.name", "")),
        place,
        harmless("; ".join(note for note in notes if note).replace("\n", " ")),
    ]
