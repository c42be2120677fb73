"""The command `fleetlog events`: shows the events of a stream as they stand on the log, and new ones as they come."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from schemas.codec import DecodeError, Known, decode
from schemas.topology import FACTS, HISTORY, OBSERVED, STREAMS, Stream
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import Message
from services._rules.history.event_words import summarize
from services.cli.common.logbook import LogAccess, check_pattern, open_log
from services.cli.common.moments import moment, stamp
from services.cli.common.printing import GAP, as_yaml
from services.cli.common.running import Failed, complain
from services.cli.queries.history_output import clock_time
from services.cli.queries.query_options import EventQuery

REMEMBERED: Final = 20_000
"""Subjects and positions whose events are kept at hand, to find what is new and what caused it."""
_WIDTHS: Final = (7, 12, 40, 16, 0, 0)
_BROADEST: Final = (12, 32, 72, 20, 80, 60)


class ShownEvent(Struct, frozen=True, rename="camel"):
    """One event, ready to be shown; `data` is the event itself."""

    stream: str
    position: int
    time: str
    subject: str
    event: str
    summary: str
    causes: tuple[str, ...]
    as_of: int = 0
    data: Raw = Raw(b"null")


def stream_of(query: EventQuery) -> Stream:
    """The stream that was named, or the one that a subject pattern lives in; raises Failed."""
    if query.stream:
        for stream in STREAMS:
            if stream.name == query.stream.upper():
                return stream
        raise Failed(f"no stream {query.stream!r}; there are {', '.join(stream.name for stream in STREAMS)}")
    aggregate = query.subject.partition(".")[0]
    for stream in STREAMS:
        if any(subject.partition(".")[0] == aggregate for subject in stream.subjects):
            return stream
    return FACTS


def filters_of(query: EventQuery, stream: Stream) -> tuple[str, ...]:
    """Subject patterns to read; `>` and nothing mean the whole stream. Raises Failed for what is no pattern."""
    if query.subject in ("", ">"):
        return stream.subjects or FACTS.subjects
    check_pattern(query.subject)
    return (query.subject,)


class EventView:
    """Turns messages into what is shown, remembering what came before on each subject."""

    def __init__(self, log: JetStreamLog, stream: Stream) -> None:
        self._log = log
        self._stream = stream
        self._latest: dict[str, Known] = {}
        self._names: dict[int, str] = {}

    async def shown(self, message: Message) -> ShownEvent:
        """What is shown of one message."""
        try:
            event = decode(message.subject, message.data)
        except DecodeError as error:
            return self._plain(message, error)
        name = type(event).__name__
        before = self._latest.get(message.subject) or await self._previous(message, event)
        provenance = event.provenance
        facts = [await self._cause(position) for position in provenance.causes]
        causes = (*facts, *(f"{OBSERVED.name} #{position}" for position in provenance.observed))
        for memory in (self._latest, self._names):
            if len(memory) > REMEMBERED:
                memory.clear()
        self._latest[message.subject] = event
        self._names[message.seq] = name
        return ShownEvent(
            self._stream.name,
            message.seq,
            stamp(message.time),
            message.subject,
            name,
            summarize(event, before),
            causes,
            provenance.as_of,
            Raw(message.data),
        )

    def _plain(self, message: Message, error: DecodeError) -> ShownEvent:
        """Bytes that are no event of ours: a manifest, an explanation, or what a newer version wrote."""
        try:
            data = Raw(msgspec.json.encode(msgspec.json.decode(message.data)))
        except msgspec.MsgspecError:
            data = Raw(b"null")
        known = message.subject.partition(".")[0] in ("blob", "explained")
        summary = f"{len(message.data)} bytes" if known else str(error)
        name = error.unknown_tag or "-"
        return ShownEvent(
            self._stream.name, message.seq, stamp(message.time), message.subject, name, summary, (), 0, data
        )

    async def _previous(self, message: Message, event: Known) -> Known | None:
        """The event before the first one seen of a subject; positions inside HISTORY are other ones."""
        if not event.prev or self._stream.name == HISTORY.name:
            return None
        stored = await self._log.get(event.prev)
        if stored is None or stored.subject != message.subject:
            return None
        try:
            return decode(stored.subject, stored.data)
        except DecodeError:
            return None

    async def _cause(self, position: int) -> str:
        """A fact that is a cause, with its name as far as it is at hand."""
        if self._stream.name != FACTS.name:
            return f"#{position}"
        if position not in self._names:
            stored = await self._log.get(position)
            try:
                self._names[position] = type(decode(stored.subject, stored.data)).__name__ if stored else ""
            except DecodeError as error:
                self._names[position] = error.unknown_tag
        return f"#{position} {self._names[position]}".rstrip()


class Printer:
    """Writes one line per event; columns grow with what they have to hold."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._widths = list(_WIDTHS)

    def write(self, shown: ShownEvent, seconds: float) -> None:
        """Write one event."""
        if self._output == "json":
            sys.stdout.write(msgspec.json.encode(shown).decode() + "\n")
            return
        if self._output == "yaml":
            sys.stdout.write(f"---\n{as_yaml(msgspec.to_builtins(shown))}")
            return
        wide = self._output == "wide"
        cells = [
            f"#{shown.position}",
            shown.time if wide else clock_time(seconds),
            shown.subject,
            shown.event,
            shown.summary,
        ]
        if wide:
            cells.append(f"saw #{shown.as_of}" if shown.as_of else "")
        cells.append(f"because {', '.join(shown.causes)}" if shown.causes else "")
        padded = []
        for index, cell in enumerate(cells[:-1]):
            self._widths[index] = max(self._widths[index], min(len(cell), _BROADEST[index]))
            padded.append(cell.ljust(self._widths[index]))
        sys.stdout.write((" " * GAP).join([*padded, cells[-1]]).rstrip() + "\n")


async def events(access: LogAccess, query: EventQuery) -> int:
    """Show events; ends at the end of the stream, or never when following. Raises Failed for what makes no sense."""
    stream = stream_of(query)
    filters = filters_of(query, stream)
    since = _start_of(query, time.time())
    async with open_log(access) as connection:
        log = JetStreamLog(connection, stream.name)
        view, printer = EventView(log, stream), Printer(query.output)
        end = (await log.identity()).last_seq
        count = 0
        async for message in _stored(log, filters, query, since, end):
            printer.write(await view.shown(message), message.time)
            count += 1
        sys.stdout.flush()
        if query.follow:
            pump = log.pump(filters, end + 1)
            async for delivery in pump:
                for message in delivery.messages:
                    printer.write(await view.shown(message), message.time)
                sys.stdout.flush()
        elif not count:
            complain(f"no event of {stream.name} matches")
    return 0


def _start_of(query: EventQuery, now: float) -> tuple[int, float]:
    """The first position and the earliest time of what is asked for with --since; raises Failed."""
    if not query.since:
        return 0, 0.0
    return (int(query.since), 0.0) if query.since.isdecimal() else (0, moment(query.since, "--since", now))


async def _stored(
    log: JetStreamLog, filters: Sequence[str], query: EventQuery, since: tuple[int, float], end: int
) -> AsyncIterator[Message]:
    """What is stored already and asked for."""
    if query.since:
        position, after = since
        if position > end:
            return
        async for message in log.read(filters, max(1, position), end):
            if message.time >= after:
                yield message
        return
    if query.tail <= 0:
        async for message in log.read(filters, 1, end):
            yield message
        return
    span = query.tail * 2
    while True:
        start = max(1, end - span + 1)
        last: deque[Message] = deque(maxlen=query.tail)
        async for message in log.read(filters, start, end):
            last.append(message)
        if len(last) == query.tail or start == 1:
            break
        span *= 8
    for message in last:
        yield message
