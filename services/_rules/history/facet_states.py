"""Folds the given facts into the state of every facet of one object: the last event of each subject."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Raw, Struct

from schemas.codec import DecodeError, Known, decode
from services._rules.history.event_words import summarize
from services._rules.history.retention import closes
from services._rules.history.timeline import UNREADABLE, Fact

_ORDER: Final = (
    "template",
    "binding",
    "estimate",
    "placement",
    "eviction",
    "descheduling",
    "work",
    "rollup",
    "observed",
)


class Standing(Struct, frozen=True, rename="camel"):
    """One facet: its last event, the position and time of it (seconds since 1970), and the whole event in JSON.

    `closed`: the event is the end of the facet. `events` counts those known up to then.
    """

    facet: str
    cluster: str
    subject: str
    stream: str
    position: int
    time: float
    event: str
    summary: str
    closed: bool
    events: int
    data: Raw


def standing(facts: Iterable[Fact]) -> list[Standing]:
    """Every facet as its last fact left it, causes before effects; facts given twice count once."""
    by_subject: dict[tuple[str, str], dict[int, Fact]] = {}
    for fact in facts:
        by_subject.setdefault((fact.stream, fact.subject), {})[fact.seq] = fact
    stood = [_stood(list(found.values())) for found in by_subject.values()]
    return sorted(stood, key=lambda item: (_ORDER.index(item.facet) if item.facet in _ORDER else 99, item.cluster))


def _stood(facts: list[Fact]) -> Standing:
    facts.sort(key=lambda fact: fact.seq)
    last = facts[-1]
    event, trouble = _read(last)
    before = _read(facts[-2])[0] if len(facts) > 1 else None
    return Standing(
        facet=last.subject.partition(".")[0],
        cluster=str(getattr(event, "cluster", "")),
        subject=last.subject,
        stream=last.stream,
        position=last.seq,
        time=last.time,
        event=type(event).__name__ if event is not None else UNREADABLE,
        summary=summarize(event, before) if event is not None else trouble,
        closed=event is not None and closes(event),
        events=len(facts),
        data=Raw(last.data if event is not None else msgspec.json.encode(trouble)),
    )


def _read(fact: Fact) -> tuple[Known | None, str]:
    try:
        return decode(fact.subject, fact.data), ""
    except DecodeError as error:
        return None, str(error)
