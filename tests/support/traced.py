"""Facts as they stand on the log, for traces: positions, times, headers, and causes written in short."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from schemas.codec import Known, encode, subject_of
from schemas.envelope import Provenance
from schemas.events.observed import WorkObserved
from services._rules.tracing.logged_event import ApiRequest, LoggedEvent, step_of
from services._rules.tracing.span_model import Span
from services._rules.tracing.trace_builder import TraceBuilder, in_order

BEGAN = 1_793_232_000.0


def logged(
    seq: int,
    at: float,
    event: Known,
    *causes: int,
    observed: tuple[int, ...] = (),
    by: str = "scheduler",
    decided: float | None = None,
    request: ApiRequest | None = None,
    correlation: str = "",
) -> LoggedEvent:
    """A fact at a position, stored so many seconds after the beginning, by default decided a millisecond before."""
    moment = BEGAN + (at - 0.001 if decided is None else decided)
    if isinstance(event, WorkObserved):
        event = replace(event, at=moment)
        stream = "OBSERVED"
    else:
        provenance = Provenance(as_of=seq - 1, causes=causes, observed=observed, decided_at=moment)
        event = replace(event, provenance=provenance)
        stream = "FACTS"
    return LoggedEvent(
        stream,
        seq,
        BEGAN + at,
        subject_of(event),
        encode(event),
        event_id=f"event-{stream}-{seq}",
        correlation=correlation or f"event-{stream}-{seq}",
        producer=f"{by}/{by}-0",
        request=request,
    )


def spans(events: Iterable[LoggedEvent]) -> list[Span]:
    """Spans of all, each behind its cause."""
    builder = TraceBuilder()
    return [span for step in in_order([step_of(one) for one in events]) for span in builder.spans_of(step)]


def outline(found: Iterable[Span]) -> list[str]:
    """Spans by name and cluster, indented below their parents, one list for all traces."""
    found = list(found)
    known = {span.span_id: span for span in found}
    lines = []
    for span in found:
        depth, parent = 0, span.parent_id
        while parent in known:
            depth, parent = depth + 1, known[parent].parent_id
        cluster = span.attributes.get("k8s.cluster.name", "")
        lines.append(f"{'  ' * depth}{span.name} {cluster}".rstrip())
    return lines
