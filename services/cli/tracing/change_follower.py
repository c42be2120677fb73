"""The command `fleetlog trace export --follow`: every change from now on as a trace, without any service knowing."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from schemas.topology import FACTS, OBJECTS, OBSERVED
from services._kit.concurrency.tasks import all_of, child, end
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import Log
from services._rules.tracing.logged_event import LoggedEvent, step_of
from services._rules.tracing.otlp_document import document
from services._rules.tracing.span_model import Trace
from services._rules.tracing.trace_assembly import Bounds, TraceAssembly
from services.cli.common.logbook import LogAccess, open_log, streams
from services.cli.common.moments import seconds_of
from services.cli.common.running import Failed, complain
from services.cli.tracing.collector_sender import CollectorSender
from services.cli.tracing.span_tree import tree
from services.cli.tracing.step_reading import logged_event, with_requests
from services.cli.tracing.tracing_options import FollowOptions, TraceChoice, TraceTarget

_LOOK: Final = 0.25
_SENT_AT_ONCE: Final = 100
_UNSENT: Final = 50_000
"""Spans that wait for a collector that is slow or away; beyond that the oldest traces are dropped."""
_SAID_EVERY: Final = 30.0
_LAST_SECONDS: Final = 5.0
_WITH_REQUESTS: Final = ("template.", "policy.")


class Tally(Struct):
    """How many traces were handed over, and dropped."""

    sent: int = 0
    dropped: int = 0


class Outbox:
    """Traces that wait to be sent, `most` spans of them: the oldest make room."""

    def __init__(self, most: int = _UNSENT) -> None:
        self._most = most
        self._traces: deque[Trace] = deque()
        self._spans = 0

    def add(self, trace: Trace) -> int:
        """Queue a trace; how many were dropped for it."""
        self._traces.append(trace)
        self._spans += len(trace.spans)
        dropped = 0
        while self._spans > self._most and len(self._traces) > 1:
            self._spans -= len(self._traces.popleft().spans)
            dropped += 1
        return dropped

    def take(self, count: int) -> list[Trace]:
        """The oldest traces, no more than `count`."""
        taken = [self._traces.popleft() for _ in range(min(count, len(self._traces)))]
        self._spans -= sum(len(trace.spans) for trace in taken)
        return taken


class Follower:
    """Reads both streams, puts traces together, hands them over; nothing waits for it but its own memory."""

    def __init__(self, logs: Mapping[str, Log], store: Log, bounds: Bounds, target: TraceTarget) -> None:
        self.tally = Tally()
        self._logs = logs
        self._store = store
        self._assembly = TraceAssembly(bounds)
        self._outbox = Outbox()
        self._sender = CollectorSender(target.otlp) if target.otlp else None
        self._output = target.output
        self._said = -_SAID_EVERY

    async def run(self) -> None:
        """Follow until cancelled; raises what ends the reading of the log. What is open then is still handed over."""
        starts = {name: (await self._logs[name].identity()).last_seq + 1 for name in (FACTS.name, OBSERVED.name)}
        complain("following changes; Ctrl-C ends it")
        try:
            await all_of([*(self._read(name, start) for name, start in starts.items()), self._hand_over()])
        finally:
            await self._finish()

    async def _read(self, stream: str, start: int) -> None:
        pump = self._logs[stream].pump(FACTS.subjects if stream == FACTS.name else OBSERVED.subjects, start)
        try:
            async for delivery in pump:
                for logged in await self._with_requests(
                    [logged_event(one, one.seq, stream) for one in delivery.messages]
                ):
                    self._assembly.add(logged, time.monotonic())
        finally:
            await pump.close()

    async def _with_requests(self, events: list[LoggedEvent]) -> list[LoggedEvent]:
        changes = [step_of(one) for one in events if one.subject.startswith(_WITH_REQUESTS)]
        if not changes:
            return events
        found = {step.at.position: step.at for step in await with_requests(self._store, changes)}
        return [found.get(one.position, one) for one in events]

    async def _hand_over(self) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            self._collect(everything=False)
            while traces := self._outbox.take(_SENT_AT_ONCE):
                await self._send(traces)

    def _collect(self, *, everything: bool) -> None:
        for trace in self._assembly.due(time.monotonic(), everything=everything):
            self._dropped(self._outbox.add(trace), "they came faster than they could be sent")

    async def _send(self, traces: Sequence[Trace]) -> None:
        if self._sender is None:
            for trace in traces:
                sys.stdout.write(self._shown(trace))
            sys.stdout.flush()
            self.tally.sent += len(traces)
            return
        problem = await asyncio.to_thread(self._sender.send, traces)
        if problem:
            self._dropped(len(traces), f"{self._sender.place} has not taken them: {problem}")
        else:
            self.tally.sent += len(traces)

    def _shown(self, trace: Trace) -> str:
        if self._output == "json":
            return msgspec.json.encode(document([trace])).decode() + "\n"
        return tree(trace) + "\n"

    def _dropped(self, count: int, why: str) -> None:
        """Count traces that are lost, and say so now and then."""
        self.tally.dropped += count
        now = time.monotonic()
        if count and now - self._said >= _SAID_EVERY:
            self._said = now
            complain(f"warning: {self.tally.dropped} traces dropped so far; {why}")

    async def _finish(self) -> None:
        """Hand over what is open, for a few seconds at most."""
        self._collect(everything=True)
        last = child(self._send_rest())
        try:
            await asyncio.wait([last], timeout=_LAST_SECONDS)
        finally:
            if self._sender is not None:
                self._sender.close()
            await end(last)
        complain(f"{self.tally.sent} traces exported, {self.tally.dropped} dropped")

    async def _send_rest(self) -> None:
        while traces := self._outbox.take(_SENT_AT_ONCE):
            await self._send(traces)


async def follow(
    access: LogAccess, words: Sequence[str], choice: TraceChoice, target: TraceTarget, options: FollowOptions
) -> int:
    """Export every change until the command is ended; raises Failed for options that do not go together."""
    if words or choice.revision or choice.since:
        raise Failed("--follow exports all changes from now on: leave out the object, --revision and --since")
    idle = seconds_of(options.idle, "--idle")
    if not 0.1 <= idle <= 600:
        raise Failed(f"--idle {options.idle!r} is out of bounds; give 100ms to 10m")
    bounds = Bounds(idle=idle, longest=max(60.0, 2 * idle), ratio=options.sample)
    task = asyncio.current_task()
    assert task is not None
    # Where it runs as a container it is ended in this way, and hands over what it has.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with open_log(access) as connection:
        store = JetStreamLog(connection, OBJECTS.name)
        await Follower(streams(connection), store, bounds, target).run()
    return 0
