"""Decides what the status of a ResourceRegistry says of members that do not let search read what it selects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules.kubernetes.event_objects import Involved, Note, note_about
from services.search.registries.member_facts import Gvr, MemberFacts
from services.search.registries.wanted_kinds import Registry, wanted_of

CONDITION: Final = "MembersReadable"
FORBIDDEN, READABLE = "ForbiddenByMembers", "Readable"
"""Reasons of the condition, and of the Events about it."""
_API: Final = "search.karmada.io/v1alpha1"
_NAMED: Final = 5
"""Members that a message names, and kinds of each."""
_REASON: Final = 160
"""Characters of what a member answered."""


class Reading(Struct, frozen=True):
    """What of one member can be read: kinds of which a list was complete, and those that it refuses with its answer."""

    read: frozenset[Gvr] = frozenset()
    refused: Mapping[Gvr, str] = {}


class Said(Struct, frozen=True):
    """What a condition says."""

    status: str
    reason: str
    message: str


def said_of(conditions: Sequence[Manifest]) -> Said | None:
    """What the condition says at present, if it is there."""
    found = next((one for one in conditions if one.get("type") == CONDITION), None)
    if found is None:
        return None
    return Said(*(str(found.get(field) or "") for field in ("status", "reason", "message")))


def due(registry: Registry, members: Iterable[MemberFacts], readings: Mapping[str, Reading]) -> Said | None:
    """What the condition has to say; None while that is not known, or nothing is to be said.

    A member that is not read at the moment changes nothing: what it refused, it may refuse again.
    """
    refused: dict[str, dict[Gvr, str]] = {}
    unknown = False
    for member in members:
        reading = readings.get(member.name, Reading())
        wanted = wanted_of(member, (registry,))
        if found := {gvr: reading.refused[gvr] for gvr in sorted(wanted) if gvr in reading.refused}:
            refused[member.name] = found
        unknown = unknown or any(gvr not in reading.read and gvr not in reading.refused for gvr in wanted)
    if refused:
        return Said("False", FORBIDDEN, _message(refused))
    if unknown or said_of(registry.conditions) is None:
        return None
    return Said("True", READABLE, "members let search read what this registry selects")


def _message(refused: Mapping[str, Mapping[Gvr, str]]) -> str:
    names = sorted(refused)
    parts = [f"{name}: {_kinds(list(refused[name]))} ({_answer(refused[name])})" for name in names[:_NAMED]]
    more = f"; and {len(names) - _NAMED} more members" if len(names) > _NAMED else ""
    return f"search may not read in {'; '.join(parts)}{more}"


def _kinds(gvrs: Sequence[Gvr]) -> str:
    more = f" and {len(gvrs) - _NAMED} more" if len(gvrs) > _NAMED else ""
    return ", ".join(map(str, gvrs[:_NAMED])) + more


def _answer(refused: Mapping[Gvr, str]) -> str:
    return next(iter(refused.values()))[:_REASON]


def with_said(conditions: Sequence[Manifest], said: Said, now: str) -> list[Manifest]:
    """Conditions of a registry with this one in its place; its transition time moves only with its status."""
    before = next((one for one in conditions if one.get("type") == CONDITION), {})
    since = before.get("lastTransitionTime", now) if before.get("status") == said.status else now
    fresh = {
        "type": CONDITION,
        "status": said.status,
        "reason": said.reason,
        "message": said.message,
        "lastTransitionTime": since,
    }
    return [*(one for one in conditions if one.get("type") != CONDITION), fresh]


def note_of(registry: Registry, said: Said) -> Note:
    """The Event about a condition that was written."""
    key = ObjectKey("search.karmada.io", "resourceregistries", "", registry.name)
    about = Involved(key, registry.uid, _API, "ResourceRegistry")
    return note_about(about, said.reason, said.message, "search-controller", warning=said.status == "False")
