"""What must hold between the log and the members' audit logs, and between the leases and who wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Final

import msgspec

from schemas.codec import decode
from schemas.envelope import HEADER_EVENT_ID, HEADER_PRODUCER
from schemas.events.lease import LeaseTaken
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._kit.log.stream_port import Message
from tests.faults.checker_log import FOLDS, relevant, run

TAIL: Final = 64
"""Events of a subject that the janitor leaves; older ones may go once they are in the history."""
_MEMORY = frozenset({"_generation", "_memory"})


def writes(
    messages: Sequence[Message],
    audit: Iterable[tuple[str, Manifest]],
    namespace: str,
    by_hand: Mapping[tuple[str, ObjectKey], int] = MappingProxyType({}),
) -> list[str]:
    """Nothing is written more often with other content than works say so, and nothing deleted without a withdrawal.

    `by_hand` counts what somebody else did to an object of a member: each is repaired once.
    """
    rendered: dict[tuple[str, ObjectKey], int] = {}
    withdrawn: dict[tuple[str, ObjectKey], int] = {}
    for message in messages:
        if not message.subject.startswith("work."):
            continue
        match decode(message.subject, message.data):
            case WorkRendered() as event:
                rendered[event.cluster, event.key] = rendered.get((event.cluster, event.key), 0) + 1
            case WorkWithdrawn() as event:
                withdrawn[event.cluster, event.key] = withdrawn.get((event.cluster, event.key), 0) + 1
    changes: dict[tuple[str, ObjectKey], int] = {}
    deletions: dict[tuple[str, ObjectKey], int] = {}
    for member, record in audit:
        if record["namespace"] != namespace or record["subresource"]:
            continue
        key = ObjectKey(record["group"], record["resource"], record["namespace"], record["name"])
        if record["verb"] == "delete":
            deletions[member, key] = deletions.get((member, key), 0) + 1
        elif record["changed"]:
            changes[member, key] = changes.get((member, key), 0) + 1
    return [
        f"{member}: {key} was written {count} times with other content, {rendered.get((member, key), 0)} works say so"
        for (member, key), count in changes.items()
        if count > rendered.get((member, key), 0) + by_hand.get((member, key), 0)
    ] + [
        f"{member}: {key} was deleted {count} times, and {withdrawn.get((member, key), 0)} withdrawals are recorded"
        for (member, key), count in deletions.items()
        if count > withdrawn.get((member, key), 0)
    ]


def single_writers(messages: Iterable[Message]) -> list[str]:
    """Between two leases of a service only the instance that took the first one writes on FACTS."""
    leader: dict[str, str] = {}
    complaints = []
    for message in sorted(messages, key=lambda message: message.seq):
        producer = message.headers.get(HEADER_PRODUCER, "")
        service, _, instance = producer.partition("/")
        if message.subject.startswith("lease."):
            event = decode(message.subject, message.data)
            if isinstance(event, LeaseTaken):
                leader[event.service] = event.instance
        elif service in leader and instance != leader[service]:
            complaints.append(
                f"FACTS {message.seq}: {message.subject} was written by {producer} while {leader[service]} led"
            )
    return complaints


def still_there(before: Sequence[Message], messages: Iterable[Message]) -> list[str]:
    """What stood on the log before stands there now, under the same position.

    Only what has a whole tail of newer events on its subject may have been trimmed meanwhile.
    """
    now = identities(messages)
    newer: Counter[str] = Counter()
    complaints = []
    for message in reversed(before):
        name, held = message.headers.get(HEADER_EVENT_ID, ""), now.get(message.seq)
        if held != name and not (held is None and newer[message.subject] >= TAIL):
            where = f"FACTS {message.seq} ({message.subject}, {newer[message.subject]} newer)"
            complaints.append(f"{where}: held event {name}, now {held or 'nothing'}")
        newer[message.subject] += 1
    return complaints


def identities(messages: Iterable[Message]) -> dict[int, str]:
    """Event ids by position."""
    return {message.seq: message.headers.get(HEADER_EVENT_ID, "") for message in messages}


def state_hashes(messages: Sequence[Message], observed: Sequence[Message]) -> dict[str, str]:
    """A digest of each service's state after folding these messages."""
    found = {}
    for name, new, aggregates, fold in FOLDS:
        state = new()
        run(state, relevant(messages, observed, aggregates), fold)
        found[name] = blake2b(_plain(state), digest_size=8).hexdigest()
    return found


def _plain(value: Any) -> bytes:
    """A value as bytes that depend on what it holds alone; functions, private counters and caches are no state."""
    if callable(value):
        return b"f"
    if isinstance(value, msgspec.Raw):
        return b"r" + bytes(value)
    if value is None or isinstance(value, (str, bytes, int, float)):
        return repr(value).encode()
    if isinstance(value, dict):
        return b"{" + b",".join(sorted(_plain(key) + b":" + _plain(item) for key, item in value.items())) + b"}"
    if isinstance(value, (set, frozenset)):
        return b"<" + b",".join(sorted(map(_plain, value))) + b">"
    if isinstance(value, (list, tuple)):
        return b"[" + b",".join(map(_plain, value)) + b"]"
    names = list(getattr(value, "__struct_fields__", ())) or list(getattr(value, "__dict__", ()))
    names = names or [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    names = [name for name in names if name not in _MEMORY]
    if not names:
        return str(value).encode()
    return type(value).__name__.encode() + b"(" + b",".join(_plain(getattr(value, name, None)) for name in names) + b")"
