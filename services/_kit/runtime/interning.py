"""Reduces the memory of decoded events: copies raw JSON out of the message buffer and interns repeated values.

The facets of an object name it ten times over; a projection that holds them all would keep ten copies of each name, and
the whole message of every event that carries a manifest.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, get_type_hints

from msgspec import Raw
from msgspec.structs import force_setattr

from schemas.codec import Known, decode
from schemas.keys import ObjectKey

_NAMES: Final = ("uid", "cluster", "api_version", "kind", "digest", "health", "operation")
_JSON: Final = ("manifest", "spec", "placement", "status", "target")
_WITHIN: Final = {"items": ("cluster", "health"), "clusters": ("name",)}
"""Parts of events that name clusters, and the names in them."""
_MOST: Final = 8192
"""Names that are remembered at once: the facets of one object come close to each other."""

_known: Final[dict[Any, Any]] = {}


@cache
def _plan(kind: type[Known]) -> tuple[bool, tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Whether a kind of events is about an object, and its fields with names, JSON, and parts that name clusters."""
    fields = kind.__struct_fields__
    return (
        get_type_hints(kind).get("key") is ObjectKey,
        tuple(name for name in _NAMES if name in fields),
        tuple(name for name in _JSON if name in fields),
        tuple(name for name in _WITHIN if name in fields),
    )


def decoded(subject: str, data: bytes) -> Known:
    """The event behind bytes of a subject, made small; raises DecodeError."""
    return intern_event(decode(subject, data))


def intern_event(event: Known) -> Known:
    """The same event, smaller. The caller must hold the only reference to it."""
    of_object, names, texts, within = _plan(type(event))
    known = _known
    if len(known) > _MOST:
        known.clear()
    if of_object:
        key: ObjectKey = event.key  # type: ignore[union-attr,assignment]  # `of_object` implies a key
        force_setattr(event, "key", known.get(key) or _first(key))
    for name in names:
        text = getattr(event, name)
        if text:
            force_setattr(event, name, known.setdefault(text, text))
    for name in texts:
        part = getattr(event, name)
        if type(part) is Raw:
            force_setattr(event, name, part.copy())
    for name in within:
        inner = _WITHIN[name]
        for part in getattr(event, name):
            for field in inner:
                text = getattr(part, field)
                force_setattr(part, field, known.setdefault(text, text))
            status = getattr(part, "status", None)
            if type(status) is Raw:
                force_setattr(part, "status", status.copy())
    return event


def _first(key: ObjectKey) -> ObjectKey:
    """A key that is new here: its parts are not."""
    share = _known.setdefault
    parts = (share(part, part) for part in (key.group, key.resource, key.namespace, key.name))
    found = ObjectKey(*parts)
    _known[found] = found
    return found
