"""What must hold of services whose work is divided: everything was written by whom its shard group was led by."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from schemas.codec import decode
from schemas.envelope import HEADER_PRODUCER
from schemas.events.lease import LeaseTaken
from schemas.shard_groups import ShardGroup, group_names, service_of
from schemas.subjects import cluster_of, object_key
from services._kit.log.stream_port import Message

UNDER_WAY: Final = 1.0
"""Seconds until a report is stored that was sent before another took the lease: beside FACTS nothing fences."""


def _namespace(subject: str) -> str:
    key = object_key(subject)
    return key.namespace or key.name


_UNITS: Final[dict[tuple[str, str], Callable[[str], str]]] = {
    ("executor", "observed"): cluster_of,
    ("override_renderer", "work"): lambda subject: str(object_key(subject)),
    ("status_aggregator", "rollup"): _namespace,
}
"""How the work is divided, by service and aggregate."""


def reported_by_leaders(facts: Iterable[Message], observed: Iterable[Message]) -> list[str]:
    """On OBSERVED, too, only the leader of a group writes, and of its own clusters alone.

    Positions of two streams say nothing about one another: what counts is when the log's server stored the messages.
    """
    terms: dict[str, list[tuple[float, LeaseTaken]]] = {}
    for message, event in _leases(facts):
        terms.setdefault(event.service, []).append((message.time, event))
    complaints = []
    for message in observed:
        name, instance = _producer(message)
        standing = _standing(terms.get(name, ()), message.time)
        if not standing:
            continue
        where = f"OBSERVED {message.seq}: {message.subject} was written by {name}/{instance}"
        own = [event for event in standing if event.instance == instance]
        if not own:
            complaints.append(f"{where} while {standing[-1].instance} led")
        elif not any(_owns(event, message.subject) for event in own):
            complaints.append(f"{where}, whose group does not own it")
    return complaints


def decided_by_owners(facts: Iterable[Message]) -> list[str]:
    """On FACTS a group writes about its own units of work alone, as they were divided under its lease."""
    leases: dict[str, LeaseTaken] = {}
    complaints = []
    for message in sorted(facts, key=lambda message: message.seq):
        if message.subject.startswith("lease."):
            leases |= {event.service: event for _, event in _leases([message])}
            continue
        name, _ = _producer(message)
        if name in leases and not _owns(leases[name], message.subject):
            complaints.append(f"FACTS {message.seq}: {message.subject} was written by {name}, which does not own it")
    return complaints


def _leases(facts: Iterable[Message]) -> Iterable[tuple[Message, LeaseTaken]]:
    for message in sorted(facts, key=lambda message: message.seq):
        event = decode(message.subject, message.data) if message.subject.startswith("lease.") else None
        if isinstance(event, LeaseTaken):
            yield message, event


def _producer(message: Message) -> tuple[str, str]:
    name, _, instance = message.headers.get(HEADER_PRODUCER, "").partition("/")
    return name, instance


def _standing(terms: Sequence[tuple[float, LeaseTaken]], at: float) -> list[LeaseTaken]:
    """The leases under which a message may have been sent; none where the first of them is not known any more."""
    first = bisect_right(terms, at - UNDER_WAY, key=lambda term: term[0]) - 1
    last = bisect_right(terms, at, key=lambda term: term[0])
    return [event for _, event in terms[first:last]] if first >= 0 else []


def _owns(lease: LeaseTaken, subject: str) -> bool:
    service = service_of(lease.service)
    unit = _UNITS.get((service, subject.partition(".")[0]))
    group = ShardGroup(group_names(service).index(lease.service), lease.groups)
    return unit is None or group.owns(unit(subject))
