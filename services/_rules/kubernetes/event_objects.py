"""Shapes Kubernetes Events about templates; repeated Events have the same name, so that they can be counted."""

from __future__ import annotations

from hashlib import blake2b

from msgspec import Struct

from schemas.keys import ObjectKey
from schemas.manifest import Manifest


class Note(Struct, frozen=True):
    """One Event to record: reason, object and reporter; `warning` for what needs attention."""

    key: ObjectKey
    uid: str
    api_version: str
    kind: str
    reason: str
    message: str
    component: str
    warning: bool = False


def event_name(note: Note) -> str:
    """Name of the Event: a repetition has the same name and is counted."""
    said = f"{note.uid}/{note.reason}/{note.component}/{note.message}".encode()
    digest = blake2b(said, digest_size=8).hexdigest()
    return f"{note.key.name[:200].rstrip('.-')}.{digest}"


def event_of(note: Note, *, first: str, last: str, count: int) -> Manifest:
    """The Event object; times are RFC 3339."""
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
        "message": note.message,
        "type": "Warning" if note.warning else "Normal",
        "source": {"component": note.component},
        "firstTimestamp": first,
        "lastTimestamp": last,
        "count": count,
    }
