"""One message of the log as a trace takes it, with its headers, and the request that it follows from where known."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from msgspec import Struct

from schemas.codec import DecodeError, Known, decode
from schemas.events.observed import WorkObserved
from schemas.topology import FACTS, OBSERVED

UNREADABLE: Final = "Unreadable"
Position: TypeAlias = tuple[str, int]
"""A stream, and a sequence in it."""

TRACEPARENT_LENGTH: Final = 55
"""Characters of the part of a `traceparent` that every version has."""
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?", re.ASCII)


class ApiRequest(Struct, frozen=True):
    """The write of an object that an API server stored: its revision, when, and as which span of whose trace.

    `verb` is create, update or delete; `trace_id` and `parent_id` are those of the client's `traceparent`, empty
    without one. `time` in seconds since 1970.
    """

    revision: int
    time: float
    verb: str
    resource: str
    uid: str = ""
    trace_id: str = ""
    parent_id: str = ""


class LoggedEvent(Struct, frozen=True, gc=False):
    """One stored message: where it stands, when it was stored (seconds since 1970), its headers and bytes."""

    stream: str
    seq: int
    time: float
    subject: str
    data: bytes
    event_id: str = ""
    correlation: str = ""
    producer: str = ""
    request: ApiRequest | None = None

    @property
    def position(self) -> Position:
        """Where it stands."""
        return self.stream, self.seq


class Step(Struct, frozen=True):
    """A message that was read: `event` is None, and `name` a tag, where this version cannot read it."""

    at: LoggedEvent
    name: str
    event: Known | None


def step_of(logged: LoggedEvent) -> Step:
    """What a message says, as far as this version can read it."""
    try:
        event = decode(logged.subject, logged.data)
    except DecodeError as error:
        return Step(logged, error.unknown_tag or UNREADABLE, None)
    return Step(logged, type(event).__name__, event)


def acted(event: WorkObserved) -> bool:
    """Whether a report tells of a write that its work asked for, not of a change in the member."""
    return bool(event.work_seq and not event.drift and (event.operation or event.absent or not event.applied))


def named_causes(step: Step) -> tuple[Position, ...]:
    """Positions of the causes that an event names, each once."""
    event = step.event
    if event is None:
        return ()
    if isinstance(event, WorkObserved):
        return ((FACTS.name, event.work_seq),) if acted(event) else ()
    causes = [(FACTS.name, seq) for seq in event.provenance.causes]
    causes += [(OBSERVED.name, seq) for seq in event.provenance.observed]
    return tuple(dict.fromkeys(cause for cause in causes if cause != step.at.position))


def traceparent(text: str) -> tuple[str, str]:
    """Ids of trace and span of a W3C `traceparent`; both empty for text that is none, or names none."""
    match = _TRACEPARENT.fullmatch(text[:256])
    if match is None or text.startswith("ff") or not match[1].strip("0") or not match[2].strip("0"):
        return "", ""
    return match[1], match[2]
