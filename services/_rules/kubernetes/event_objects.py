"""Shapes Kubernetes Events; repeated ones have the same name, so that they can be counted (docs/sources.md#events)."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final

from msgspec import Struct

from schemas.envelope import named_id
from schemas.keys import ObjectKey
from schemas.manifest import Manifest

COMBINED: Final = "(combined from similar events): "
"""How the message of an Event begins that stands for several with other messages."""
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST: Final = 200
"""Characters of the object's name in an Event's name; the digest has 17, and a name at most 253."""


class Involved(Struct, frozen=True):
    """The object that an Event is about: where it is served, its uid, apiVersion and kind."""

    key: ObjectKey
    uid: str
    api_version: str
    kind: str


class Note(Struct, frozen=True):
    """One Event to record: reason, object and reporter; `warning` for what needs attention.

    A `detail` is about one copy of many: it is written last, and dropped first when there is too much to write.
    """

    key: ObjectKey
    uid: str
    api_version: str
    kind: str
    reason: str
    message: str
    component: str
    warning: bool = False
    detail: bool = False

    @property
    def rank(self) -> int:
        """What is written first has the lowest."""
        return 0 if self.warning else 2 if self.detail else 1


def note_about(
    involved: Involved, reason: str, message: str, component: str, *, warning: bool = False, detail: bool = False
) -> Note:
    """An Event about an object; its message is cut to what the API takes."""
    return Note(
        involved.key,
        involved.uid,
        involved.api_version,
        involved.kind,
        reason,
        message[:1024],
        component,
        warning,
        detail,
    )


def event_name(note: Note) -> str:
    """Name of the Event: a repetition has the same name and is counted.

    An object whose name no Event may begin with gives it a UUID, as Kubernetes' clients do; so does one without a name.
    """
    said = f"{note.uid}/{note.reason}/{note.component}/{note.message}"
    stem = note.key.name[:_LONGEST].rstrip(".-")
    if _NAME.fullmatch(stem) is None:
        return named_id(f"event/{note.key}/{said}")
    return f"{stem}.{blake2b(said.encode(), digest_size=8).hexdigest()}"


def combined(note: Note) -> Note:
    """The Event that stands for all of one reason about one object; its name does not depend on the message."""
    return Note(
        note.key,
        note.uid,
        note.api_version,
        note.kind,
        note.reason,
        COMBINED,
        note.component,
        note.warning,
        note.detail,
    )


def event_of(note: Note, *, first: str, last: str, count: int, message: str = "") -> Manifest:
    """The Event object; times are RFC 3339. `message` is shown in place of the one that its name is made of."""
    namespace = note.key.namespace or "default"
    involved: Manifest = {
        "apiVersion": note.api_version,
        "kind": note.kind,
        "name": note.key.name,
        "uid": note.uid,
    }
    if note.key.namespace:
        involved["namespace"] = note.key.namespace
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": event_name(note), "namespace": namespace},
        "involvedObject": involved,
        "reason": note.reason,
        "message": message or note.message,
        "type": "Warning" if note.warning else "Normal",
        "source": {"component": note.component},
        "reportingComponent": note.component,
        "firstTimestamp": first,
        "lastTimestamp": last,
        "count": count,
    }
