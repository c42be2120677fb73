"""Makes spans of steps: when they began and ended, whose they are, what they follow from."""

from __future__ import annotations

from collections.abc import Iterable

from schemas.events.observed import WorkObserved
from services._rules.tracing.logged_event import ApiRequest, LoggedEvent, Position, Step, named_causes
from services._rules.tracing.origins import Origin, Origins
from services._rules.tracing.span_attributes import attributes_of, error_of, name_of, place_of
from services._rules.tracing.span_model import Span, SpanEvent, SpanLink, Value, request_span_id, span_id, trace_id

FROM_REQUEST = 30.0
"""Seconds between a request and what was detected of it; an older one had another reason to be detected now."""
LONGEST_DECISION = 60.0
"""Seconds that a decision may seem to have taken; more is a clock that is wrong."""


class TraceBuilder:
    """Makes the spans of steps, given in the order of their causes; remembers `most` steps of each sort."""

    def __init__(self, most: int = 50_000) -> None:
        self._origins = Origins(most)

    def spans_of(self, step: Step) -> list[Span]:
        """The span of a step; with that of the request before it where a trace begins with one."""
        logged = step.at
        origin = self._origins.of(step)
        request = logged.request if origin.parent is None and _fits(logged.request, logged.time) else None
        if origin.parent is not None:
            trace = origin.parent.trace_id
        elif request is not None and request.trace_id:
            trace = request.trace_id
        else:
            trace = trace_id(logged, cut=bool(origin.lost))
        own = span_id(logged)
        self._origins.remember(step, trace, own)
        span = _span(step, origin, trace, own, request)
        return [span] if request is None else [_request_span(request, logged, trace), span]


def in_order(steps: Iterable[Step]) -> list[Step]:
    """Steps by time, but each behind its causes, whatever the clocks of two streams say."""
    by_position = {step.at.position: step for step in steps}
    ordered: list[Step] = []
    done: set[Position] = set()
    for first in sorted(by_position.values(), key=lambda step: (step.at.time, step.at.stream, step.at.seq)):
        waiting = [first]
        entered: set[Position] = set()
        while waiting:
            position = waiting[-1].at.position
            if position in done:
                waiting.pop()
                continue
            open_causes = [cause for cause in named_causes(waiting[-1]) if cause in by_position and cause not in done]
            # A circle cannot be; where bytes claim one all the same, it is entered once.
            if position not in entered and not entered.issuperset(open_causes):
                entered.add(position)
                waiting += [by_position[cause] for cause in open_causes if cause not in entered]
                continue
            done.add(position)
            ordered.append(waiting.pop())
    return ordered


def _fits(request: ApiRequest | None, time: float) -> bool:
    return request is not None and time - FROM_REQUEST <= request.time <= time


def _span(step: Step, origin: Origin, trace: str, own: str, request: ApiRequest | None) -> Span:
    logged = step.at
    service, _, instance = logged.producer.partition("/")
    attributes = attributes_of(step)
    error, message = error_of(step.event)
    if error:
        attributes["error.type"] = error
    if origin.inferred and origin.parent is not None:
        attributes["fleetlog.cause.inferred"] = origin.inferred
    if origin.lost:
        attributes["fleetlog.cause.lost"] = tuple(f"{stream} #{seq}" for stream, seq in origin.lost)
    decided = _decided_at(step)
    began = _began(step, origin, request, decided)
    start = _start(began, decided, logged.time)
    skew = _skew(start if began is None else began, decided, logged.time)
    if skew:
        attributes["fleetlog.clock.skew_ms"] = skew
    name = "observed" if isinstance(step.event, WorkObserved) else "decided"
    parent = ""
    if origin.parent is not None:
        parent = origin.parent.span_id
    elif request is not None:
        parent = request_span_id(request.revision, request.resource)
    return Span(
        trace_id=trace,
        span_id=own,
        parent_id=parent,
        name=name_of(step),
        kind="consumer",
        service=service or "unknown",
        instance=instance,
        start=start,
        end=logged.time,
        attributes=attributes,
        events=(SpanEvent(name, min(max(decided, start), logged.time)),) if decided else (),
        links=tuple(SpanLink(other.trace_id, other.span_id) for other in origin.others),
        error=message or error,
    )


def _decided_at(step: Step) -> float:
    """When a step was decided by the clock of who took it, 0 where that is not known."""
    event = step.event
    if event is None:
        return 0.0
    return event.at if isinstance(event, WorkObserved) else event.provenance.decided_at


def _began(step: Step, origin: Origin, request: ApiRequest | None, decided: float) -> float | None:
    """When what a step follows from was there; None where it follows from nothing that is known."""
    if request is not None:
        return request.time
    if origin.parent is None:
        return None
    there = origin.parent.time
    if origin.inferred and not isinstance(step.event, WorkObserved) and 0.0 < there - decided < LONGEST_DECISION:
        # The detector knows what it has read before it is stored.
        return decided
    return there


def _start(began: float | None, decided: float, end: float) -> float:
    """When a span begins: once its cause is stored; without one when it was decided. Never after its end."""
    if began is not None:
        return min(began, end)
    return decided if end - LONGEST_DECISION <= decided <= end else end


def _skew(start: float, decided: float, end: float) -> float:
    """Milliseconds by which clocks disagree at least: what came after something has an earlier time; 0 for none."""
    behind = max(start - end, start - decided if decided else 0.0, decided - end)
    return round(behind * 1000, 3) if behind > 0.0 else 0.0


def _request_span(request: ApiRequest, logged: LoggedEvent, trace: str) -> Span:
    """The write that an API server stored: a moment, as only its end is recorded."""
    attributes: dict[str, Value] = {
        "fleetlog.api.verb": request.verb,
        "fleetlog.api.revision": request.revision,
        **place_of(logged.subject),
    }
    if request.uid:
        attributes["fleetlog.object.uid"] = request.uid
    return Span(
        trace_id=trace,
        span_id=request_span_id(request.revision, request.resource),
        parent_id=request.parent_id,
        name=f"{request.verb} {request.resource}",
        kind="server",
        service="apiserver",
        start=request.time,
        end=request.time,
        attributes=attributes,
    )
