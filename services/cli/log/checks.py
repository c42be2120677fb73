"""Checks facts one after the other: readable, in their place, linked to the one before, written by who may write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from schemas.codec import DecodeError, Known, decode, subject_of
from schemas.envelope import HEADER_PRODUCER
from schemas.events.lease import LeaseTaken
from schemas.shard_groups import service_of
from schemas.topology import SERVICES, SUBJECTS
from services._kit.log.fact_history import Place
from services._kit.log.stream_port import Message
from services._rules.history.retention import closes

WRITERS: Final[Mapping[str, str]] = {
    item.pattern.partition(".")[0]: item.writer
    for item in SUBJECTS
    if item.stream == "FACTS" and item.writer in SERVICES
}

SCHEDULER: Final = "scheduler"
"""Schedulers of other names write there, too, each under a lease of its own: `scheduler-NAME`."""


class Problem(Struct, frozen=True):
    """Something that no fact of a sound log shows."""

    position: int
    subject: str
    what: str

    def __str__(self) -> str:
        return f"#{self.position} {self.subject}: {self.what}".replace(" : ", ": ")


class _Last(Struct):
    seq: int
    closed: bool


class Checker:
    """Takes the positions of FACTS in order.

    `complete_from` is the first position behind which nothing may be missing: where HISTORY begins, or behind what was
    imported. `held` is the last position that HISTORY holds.
    """

    def __init__(self, complete_from: int, held: int, history_from: int) -> None:
        self.events = 0
        self.first = 0
        self.last = 0
        self._complete_from = complete_from
        self._held = held
        self._history_from = history_from
        self._subjects: dict[str, _Last] = {}
        self._leaders: dict[str, tuple[str, int]] = {}

    @property
    def subjects(self) -> int:
        """Subjects seen so far."""
        return len(self._subjects)

    def take(self, place: Place) -> Iterator[Problem]:
        """Check the next position."""
        message = place.message
        yield from self._position(place)
        self.events += 1
        self.first = self.first or place.seq
        self.last = place.seq
        try:
            event = decode(message.subject, message.data)
        except DecodeError as error:
            yield Problem(place.seq, message.subject, f"cannot be read: {error}")
            self._subjects[message.subject] = _Last(place.seq, closed=False)
            return
        if subject_of(event) != message.subject:
            yield Problem(place.seq, message.subject, f"its content belongs on {subject_of(event)}")
        yield from self._chain(place.seq, message.subject, event)
        yield from self._provenance(place.seq, message.subject, event)
        yield from self._writer(place.seq, message, event)

    def _position(self, place: Place) -> Iterator[Problem]:
        seq, subject = place.seq, place.message.subject
        if seq <= self.last:
            yield Problem(seq, subject, f"comes after #{self.last}")
        first_missing = max(self.last + 1, self._complete_from)
        if self.last and first_missing < seq:
            missing = f"#{first_missing}" if first_missing == seq - 1 else f"#{first_missing} to #{seq - 1}"
            yield Problem(seq, subject, f"before it, {missing} stand neither in FACTS nor in HISTORY")
        if place.older is None and self._history_from <= seq <= self._held:
            yield Problem(seq, subject, "HISTORY has passed it and does not hold it")
        older, tail = place.older, place.tail
        if older is not None and tail is not None and (older.subject != tail.subject or older.data != tail.data):
            yield Problem(seq, subject, f"HISTORY holds something else at its position, on {older.subject}")

    def _chain(self, seq: int, subject: str, event: Known) -> Iterator[Problem]:
        # Within a batch positions are not known yet: a distance is written instead.
        prev = event.prev if event.prev >= 0 else seq + event.prev
        known = self._subjects.get(subject)
        self._subjects[subject] = _Last(seq, closes(event))
        if known is None:
            if prev >= self._complete_from:
                yield Problem(seq, subject, f"the event before it, #{prev}, is missing")
        elif prev == 0:
            # A subject begins again after the janitor removed what had ended.
            if not known.closed:
                yield Problem(seq, subject, f"says that it is the first of its subject, but #{known.seq} stands before")
        elif prev < known.seq:
            yield Problem(seq, subject, f"names #{prev} as the event before it, but #{known.seq} stands between")
        elif prev > known.seq:
            yield Problem(seq, subject, f"the event before it, #{prev}, is missing; the last one known is #{known.seq}")

    def _provenance(self, seq: int, subject: str, event: Known) -> Iterator[Problem]:
        provenance = event.provenance
        if provenance.as_of >= seq:
            yield Problem(seq, subject, f"says it was decided with #{provenance.as_of} in view, which comes after it")
        for cause in provenance.causes:
            if cause >= seq:
                yield Problem(seq, subject, f"names #{cause} as its cause, which comes after it")

    def _writer(self, seq: int, message: Message, event: Known) -> Iterator[Problem]:
        """Whether the service may write there, and this instance of it led when it did."""
        if isinstance(event, LeaseTaken):
            self._leaders[event.service] = (event.instance, seq)
            return
        service, _, instance = message.headers.get(HEADER_PRODUCER, "").partition("/")
        if not service:
            return
        writer = WRITERS.get(message.subject.partition(".")[0], service)
        if service_of(service) != writer and not (writer == SCHEDULER and service.startswith(f"{SCHEDULER}-")):
            yield Problem(seq, message.subject, f"{service} wrote it; only {writer} may")
        leader = self._leaders.get(service)
        if leader is not None and instance and leader[0] != instance:
            yield Problem(
                seq, message.subject, f"{instance} wrote it, but {leader[0]} led {service} since #{leader[1]}"
            )
