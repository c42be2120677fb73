"""Reads from the log which objects require another, since when, and since when nothing does any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from schemas.codec import DecodeError, decode
from schemas.events.binding import BindingEvent, BindingRequested
from schemas.keys import ObjectKey
from schemas.subjects import escape
from schemas.topology import FACTS
from services._kit.log.fact_history import merged, origin, stored_at
from services._kit.log.stream_port import Log, Message
from services.cli.common.moments import stamp

LISTED: Final = 10
"""Owners that are named; of the others the number is."""


class Moment(Struct, frozen=True):
    """A position of the log and when it was stored, in seconds since 1970."""

    position: int
    at: float

    def __str__(self) -> str:
        return f"{stamp(self.at)} (#{self.position})"


class Required(Struct):
    """Since when each owner requires an object, who required it until when, and whether only owners ask for it."""

    attached: bool = False
    since: dict[ObjectKey, Moment] = field(default_factory=dict)
    until: dict[ObjectKey, Moment] = field(default_factory=dict)

    def document(self) -> list[dict[str, Any]]:
        """The owners for machines."""
        return [
            {**_named(owner), "since": stamp(moment.at), "position": moment.position}
            for owner, moment in sorted(self.since.items())
        ]

    def text(self, key: ObjectKey) -> str:
        """A sentence or two for people; empty for what never was a dependency."""
        parts = []
        if self.since:
            placed = "follows" if self.attached else "follows, beside the clusters of its own policy,"
            named = [f"{owner} since {moment}" for owner, moment in _first(self.since)]
            more = f" and {len(self.since) - LISTED} more" if len(self.since) > LISTED else ""
            parts.append(f"{key} {placed} those that require it: {', '.join(named)}{more}.\n")
        gone = {owner: moment for owner, moment in self.until.items() if owner not in self.since}
        if gone:
            named = [f"{owner} until {moment}" for owner, moment in _first(gone)]
            parts.append(f"Required before by {', '.join(named)}.\n")
        if self.attached and not self.since:
            parts.append("Nothing requires it now, and no policy claims it: it runs in no cluster.\n")
        return "".join(parts)


def _first(owners: Mapping[ObjectKey, Moment]) -> Iterable[tuple[ObjectKey, Moment]]:
    return sorted(owners.items())[:LISTED]


def _named(owner: ObjectKey) -> dict[str, str]:
    return {"resource": owner.group_resource, "namespace": owner.namespace, "name": owner.name}


async def required_by(logs: Mapping[str, Log], key: ObjectKey, until: float | None = None) -> Required:
    """Who requires an object at a moment (None: now); of the past, what the log still holds."""
    namespace = escape(key.namespace) if key.namespace else "*"
    # Owners are looked for in the namespace of the object; of a cluster-scoped one, everywhere.
    subjects = (f"binding.*.*.{namespace}.*",)
    found = Required()
    name = msgspec.json.encode(key.name)[1:-1]
    facts: Iterable[Message]
    if until is None:
        facts = [message async for message in logs[FACTS.name].read(subjects)]
    else:
        facts = [fact for fact in (await merged(logs, subjects)).values() if stored_at(fact) <= until]
    named: set[str] = set()
    for message in facts:
        if name not in message.data and message.subject not in named:
            continue
        try:
            event = decode(message.subject, message.data)
        except DecodeError:
            continue  # A newer version wrote it; what it says of dependencies cannot be told.
        if isinstance(event, BindingEvent):
            named.add(message.subject)
            _take(found, key, event, Moment(origin(message), stored_at(message)))
    return found


def _take(found: Required, key: ObjectKey, event: BindingEvent, moment: Moment) -> None:
    if event.key == key:
        found.attached = isinstance(event, BindingRequested) and event.attached
        return
    if isinstance(event, BindingRequested) and key in event.requires:
        found.since.setdefault(event.key, moment)
        found.until.pop(event.key, None)
    elif found.since.pop(event.key, None) is not None:
        found.until[event.key] = moment
