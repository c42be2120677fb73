"""What each service may publish and hear on the log, as the subjects that its user of the log's servers is given.

Derived from the writers and readers of `schemas.topology`. What is named here besides: streams whose messages are no
events, messages that are not stored, and subjects that several services share. A server checks the subject of what is
sent, and not the subject that an answer is asked to: docs/adr/0042 says what follows from that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from schemas.shard_groups import SHARED, group_names
from schemas.subjects import EVERY_ACTIVITY, INSTANCES, PURGED, SETTLED, absence, heartbeat, presence
from schemas.topology import (
    BLOBS,
    FACTS,
    HISTORY,
    KEYS,
    OBSERVED,
    SERVICES,
    STREAMS,
    SUBJECTS,
    WITHOUT_LOG,
    Subject,
)

COMMAND_INBOXES: Final = "_INBOX.>"
OTHER_ACCOUNTS: Final = "_R_.>"
"""Where the server takes answers to what came from another account."""
_API: Final = "$JS.API"
_TEMPLATES: Final = absence("templates")
_SHARED: Final[Mapping[str, Mapping[str, str]]] = {
    "absence.<scope>": {"detector": _TEMPLATES, "cluster_monitor": "absence.*"},
    "observed.<cluster>.<key>": {"executor": "observed.>", "registrar": "observed.>"},
    "request.<cluster>.<side>": {"gateway": "request.*.hub", "search": "request.*.hub", "registrar": "request.*.agent"},
}
"""Subjects with several writers, and the part of each."""
_OPERATORS: Final = frozenset({"confirmation.<scope>", "restore.log", "unparked.<service>.<key>"})
"""Subjects that commands write, by the identity of the hub."""
_OWN: Final = frozenset({"lease.<service>", "restore.<service>", "parked.<service>"})
"""Subjects that each service has one of."""
_CONTENT: Final[Mapping[str, str]] = {BLOBS.name: "blob.*", KEYS.name: "key.*"}
_CONTENT_WRITERS: Final = frozenset({"detector", "override_renderer"})
_ALSO_READ: Final[Mapping[str, frozenset[str]]] = {
    BLOBS.name: frozenset({"executor", "registrar", "gateway", "status_aggregator", "janitor", "webhook"}),
    HISTORY.name: frozenset({"janitor", "gateway", "webhook"}),
    KEYS.name: frozenset({"executor", "registrar"}),
}
"""Streams of no events that services read, or of events that they read again; who writes one reads it, too."""
_PURGES: Final[Mapping[str, tuple[str, ...]]] = {"janitor": (FACTS.name, OBSERVED.name, BLOBS.name)}
_MAKES_STREAMS: Final = "detector"
_LISTS_STREAMS: Final = frozenset({"detector", "janitor"})
_SENDS: Final[Mapping[str, tuple[str, ...]]] = {
    "executor": (EVERY_ACTIVITY,),
    "janitor": (PURGED,),
    "estimator": ("rooms.*",),
    "descheduler": ("unschedulable.*",),
}
"""Messages that are not stored, by sender."""
_HEARS: Final[Mapping[str, tuple[str, ...]]] = {
    "cluster_monitor": (EVERY_ACTIVITY, "hello.*"),
    "registrar": ("hello.*", "blobs.*", "reports.*", "rooms.*"),
    "estimator": ("unschedulable.*",),
    "gateway": ("tunnel.>",),
    "search": ("tunnel.>",),
    "autoscaler": ("tunnel.>",),
}
_ANSWERS: Final[Mapping[str, tuple[str, ...]]] = {"estimator": ("descheduler",), "registrar": ("estimator",)}
"""Services by those that answer them."""


class Rights(Struct, frozen=True):
    """Subjects that a user may publish on, those of them that are excepted, and those it may subscribe to."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    not_publish: tuple[str, ...] = ()


def inbox_prefix(service: str) -> str:
    """What the subjects of answers to a service begin with: no other service hears them."""
    return f"_INBOX_{service}"


def rights_of(service: str) -> Rights:
    """The rights of a service's user; raises ValueError for a name that is no service."""
    if service not in SERVICES:
        raise ValueError(f"{service!r} is no service: {', '.join(SERVICES)}")
    inbox = f"{inbox_prefix(service)}.>"
    if service in WITHOUT_LOG:
        return Rights(publish=(inbox, *_reading(service)), subscribe=(inbox,))
    publish = (
        *_written(service),
        *_SENDS.get(service, ()),
        heartbeat(service),
        *_of_groups(service),
        inbox,
        COMMAND_INBOXES,
        OTHER_ACCOUNTS,
        *(f"{inbox_prefix(asker)}.>" for asker in _ANSWERS.get(service, ())),
        *_reading(service),
        *(f"{_API}.STREAM.PURGE.{stream}" for stream in _PURGES.get(service, ())),
        *_managing(service),
    )
    hears = (inbox, *_heartbeats(service), PURGED, INSTANCES, *_HEARS.get(service, ()))
    excepted = (_TEMPLATES,) if service == "cluster_monitor" else ()
    return Rights(publish=publish, subscribe=hears, not_publish=excepted)


def writers_of(subject: Subject) -> Mapping[str, str]:
    """The services that write a family of subjects, with the pattern of what each may write."""
    if subject.pattern in _OPERATORS:
        return {}
    if subject.pattern in _OWN:
        aggregate = subject.pattern.partition(".")[0]
        return {service: f"{aggregate}.{service}" for service in SERVICES if service not in WITHOUT_LOG}
    return _SHARED.get(subject.pattern) or {subject.writer: pattern_of(subject)}


def pattern_of(subject: Subject) -> str:
    """The subjects of a family as servers write patterns."""
    known, placeholder, rest = subject.pattern.partition("<")
    if not placeholder:
        return known
    return f"{known}{'>' if '<' in rest or rest == 'key>' else '*'}"


def streams_read(service: str) -> tuple[str, ...]:
    """Streams of which a service may read everything, in the order of the topology."""
    found = {FACTS.name}
    for subject in SUBJECTS:
        if service in subject.readers and "people" not in subject.readers[:1]:
            found.add(subject.stream)
    found |= {name for name, readers in _ALSO_READ.items() if service in readers}
    if service in _CONTENT_WRITERS:
        found |= set(_CONTENT)
    return tuple(stream.name for stream in STREAMS if stream.name in found)


def _heartbeats(service: str) -> tuple[str, ...]:
    """Subjects on which the instances of a service hear one another."""
    beats = tuple(heartbeat(name) for name in group_names(service))
    return (*beats, presence(service)) if service in SHARED else beats


def _of_groups(service: str) -> tuple[str, ...]:
    """What the shard groups of a service write under their own names."""
    own = (family.partition(".")[0] for family in sorted(_OWN))
    families = [*own, heartbeat(service).partition(".")[0]]
    names = group_names(service)[1:]
    said = (presence(service),) if names else ()
    return (*(f"{family}.{name}" for family in families for name in names), *said)


def _written(service: str) -> tuple[str, ...]:
    """Subjects of streams that a service writes."""
    events = [writers[service] for subject in SUBJECTS if service in (writers := writers_of(subject))]
    return (*events, *(_CONTENT.values() if service in _CONTENT_WRITERS else ()))


def _reading(service: str) -> tuple[str, ...]:
    """Requests of the server's API: what every service asks about all streams, and reads of those it reads."""
    read = streams_read(service)
    asked = [SETTLED] if BLOBS.name in read else []
    asked += [f"{_API}.INFO", *(f"{_API}.STREAM.INFO.{stream.name}" for stream in STREAMS)]
    for name in read:
        asked += _reads(name)
    # After an answer that was lost, a writer asks for what the stream holds last.
    written = {subject.stream for subject in SUBJECTS if service in writers_of(subject)}
    asked += [f"{_API}.STREAM.MSG.GET.{stream.name}" for stream in STREAMS if stream.name in written - set(read)]
    return tuple(asked)


def _reads(stream: str) -> list[str]:
    return [
        f"{_API}.STREAM.MSG.GET.{stream}",
        f"{_API}.DIRECT.GET.{stream}",
        f"{_API}.DIRECT.GET.{stream}.>",
        f"{_API}.CONSUMER.CREATE.{stream}.*",
        f"{_API}.CONSUMER.MSG.NEXT.{stream}.*",
        f"{_API}.CONSUMER.DELETE.{stream}.*",
    ]


def _managing(service: str) -> tuple[str, ...]:
    asked = [f"{_API}.STREAM.LIST"] if service in _LISTS_STREAMS else []
    if service == _MAKES_STREAMS:
        asked += [f"{_API}.STREAM.{call}.{stream.name}" for stream in STREAMS for call in ("CREATE", "UPDATE")]
    return tuple(asked)
