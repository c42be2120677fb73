"""Puts traces together from events as they come: waits for what belongs together, within bounds."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from msgspec import Struct

from services._rules.tracing.logged_event import LoggedEvent, Position, Step, named_causes, step_of
from services._rules.tracing.origins import Recent
from services._rules.tracing.span_model import Span, Trace, sampled
from services._rules.tracing.trace_builder import TraceBuilder, in_order

NO_CHANGE: Final = ("probe cluster", "reflect status", "recommend autoscaling", "collect endpoints")
"""Steps that are no change by themselves: they become a trace when something follows from them."""
_RUNTIME: Final = ("lease.", "identity.", "restore.", "absence.", "confirmation.", "unparked.")


class Bounds(Struct, frozen=True):
    """How long and how much is kept; times in seconds.

    `hold`: until causes of the other stream have come; `idle`: after the last step of a trace; `longest`: after its
    first. `spans` of one trace, `open_spans` of all, `waiting` events with `waiting_bytes`, `remembered` steps of each
    sort. `ratio` is the share of traces that are wanted.
    """

    hold: float = 1.0
    idle: float = 5.0
    longest: float = 60.0
    spans: int = 1000
    open_spans: int = 50_000
    waiting: int = 20_000
    waiting_bytes: int = 64 << 20
    remembered: int = 50_000
    ratio: float = 1.0


class _Open(Struct):
    spans: list[Span]
    first: float
    last: float
    left_out: int = 0


class TraceAssembly:
    """Events in, traces out; what comes after a trace was handed out makes another part of the same trace."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._builder = TraceBuilder(bounds.remembered)
        self._waiting: OrderedDict[Position, tuple[LoggedEvent, float]] = OrderedDict()
        self._bytes = 0
        self._spans = 0
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._alone: Recent[str, Span] = Recent(bounds.remembered)
        self._ready: list[Trace] = []

    @property
    def size(self) -> tuple[int, int]:
        """Events that wait, and spans of traces that are open."""
        return len(self._waiting), self._spans

    def add(self, logged: LoggedEvent, now: float) -> None:
        """Take an event that came at `now` (seconds of any clock that never goes back)."""
        if logged.subject.startswith(_RUNTIME) or logged.position in self._waiting:
            return
        self._waiting[logged.position] = logged, now
        self._bytes += len(logged.data)
        if len(self._waiting) > self._bounds.waiting or self._bytes > self._bounds.waiting_bytes:
            self._settle((len(self._waiting) + 1) // 2, now)

    def due(self, now: float, *, everything: bool = False) -> list[Trace]:
        """Traces that nothing came for any more, or that are large or old enough; `everything` at the end."""
        held = self._bounds.hold
        ripe = sum(1 for _, came in self._waiting.values() if everything or now - came >= held)
        self._settle(ripe, now)
        for name in [name for name, trace in self._open.items() if everything or self._ends(trace, now)]:
            self._close(name)
        ready, self._ready = self._ready, []
        return ready

    def _ends(self, trace: _Open, now: float) -> bool:
        return now - trace.last >= self._bounds.idle or now - trace.first >= self._bounds.longest

    def _settle(self, count: int, now: float) -> None:
        """Make spans of the first `count` events that wait, of their causes, and of all that precedes these."""
        if not count:
            return
        chosen: dict[Position, Step] = {}
        reach: dict[str, int] = {}
        for stream, seq in list(self._waiting)[:count]:
            reach[stream] = max(seq, reach.get(stream, 0))
        while True:
            # What an event does not name as its cause precedes it as well: a stream is never taken with gaps.
            within = [one for one in self._waiting if one[1] <= reach.get(one[0], 0) and one not in chosen]
            if not within:
                break
            for position in within:
                chosen[position] = step = step_of(self._waiting[position][0])
                for stream, seq in named_causes(step):
                    if (stream, seq) in self._waiting:
                        reach[stream] = max(seq, reach.get(stream, 0))
        for step in in_order(chosen.values()):
            del self._waiting[step.at.position]
            self._bytes -= len(step.at.data)
            for span in self._builder.spans_of(step):
                self._put(span, now)

    def _put(self, span: Span, now: float) -> None:
        if not sampled(span.trace_id, self._bounds.ratio):
            return
        trace = self._open.get(span.trace_id)
        if trace is None:
            before = self._alone.take(span.trace_id)
            trace = self._open[span.trace_id] = _Open([] if before is None else [before], now, now)
            self._spans += len(trace.spans)
        trace.last = now
        if len(trace.spans) >= self._bounds.spans:
            trace.left_out += 1
            return
        trace.spans.append(span)
        self._spans += 1
        if self._spans > self._bounds.open_spans:
            self._close(next(iter(self._open)))

    def _close(self, name: str) -> None:
        trace = self._open.pop(name)
        spans = trace.spans
        self._spans -= len(spans)
        if len(spans) == 1 and not spans[0].parent_id and spans[0].name in NO_CHANGE:
            self._alone.put(name, spans[0])
            return
        self._ready.append(Trace(name, tuple(spans), trace.left_out))
