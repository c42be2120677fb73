"""Validates a member's report of an object against its manifest: the terms of a report, and the numbers of a status.

A member may be mistaken or hostile. Impossible values are found here before they count; the result names the field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from schemas.events.observed import WorkObserved
from services._rules.interpreter.common.interpretation import InterpretError, describe, shortened
from services._rules.interpreter.common.shape_checks import check_status, whole_numbers
from services._rules.interpreter.native.native_kinds import NATIVE_KINDS

MOST: Final = 1_000_000
"""Pods or nodes of one object in one cluster: several times what the largest clusters hold."""
MULTIPLE: Final = 10
"""How many times its share of replicas a member may report, while a rollout or a scaling is under way."""
MARGIN: Final = 1_000
"""Replicas that a member may report beyond that."""
LARGEST_STATUS: Final = 1 << 20
"""Bytes of one status."""

_INT64: Final = 2**63 - 1
_CACHED_BYTES: Final = 1024
_REPLICAS: Final = "eplicas"
_GENERATIONS: Final = "eneration"
_PARTS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "Deployment": (
        ("updatedReplicas", "replicas"),
        ("readyReplicas", "replicas"),
        ("availableReplicas", "replicas"),
        ("availableReplicas", "readyReplicas"),
    ),
    "ReplicaSet": (
        ("readyReplicas", "replicas"),
        ("availableReplicas", "replicas"),
        ("availableReplicas", "readyReplicas"),
    ),
    "StatefulSet": (
        ("currentReplicas", "replicas"),
        ("updatedReplicas", "replicas"),
        ("readyReplicas", "replicas"),
        ("availableReplicas", "replicas"),
        ("availableReplicas", "readyReplicas"),
    ),
}
"""Counters of which the first is part of the second: no API server takes another status of these kinds."""


class Asked(Struct, frozen=True):
    """The last work that a cluster was given of an object: its position, uid and digest (empty: withdrawn)."""

    position: int
    uid: str
    digest: str


class Given(Struct, frozen=True):
    """What bounds the numbers of a status: the most replicas, and the template's generation (0: not known)."""

    most: int = MOST
    generation: int = 0


def most_replicas(share: int | None, counted: int = 0) -> int:
    """The most replicas that a member with a share may report; None: nothing is known of a share.

    `counted` is what was counted of this member last: it may scale down slowly.
    """
    return MOST if share is None else min(MOST, max(MULTIPLE * max(share, 0) + MARGIN, counted))


def misreported(event: WorkObserved, asked: Asked, position: int) -> str:
    """Why the terms of a report cannot be true; empty when they can. `position` is the end of the log as it is known.

    A report on an earlier work is late and no lie: its digest is not known any more.
    """
    if not 0 <= event.work_seq <= _INT64:
        return f"workSeq: is {event.work_seq}, expected a position of the log"
    if event.work_seq > position:
        return f"workSeq: is {event.work_seq}, which is ahead of the log"
    if event.work_seq > asked.position:
        return f"workSeq: is {event.work_seq}, but the last work of this object is at {asked.position}"
    if event.uid != asked.uid:
        return f"uid: is {event.uid[:64]!r}, but the work is of {asked.uid!r}"
    if event.work_seq == asked.position and event.digest != asked.digest:
        return f"digest: is {event.digest[:80]!r}, but the work at {asked.position} has {asked.digest[:80]!r}"
    if event.at < 0:
        return f"at: is {event.at:g}, expected seconds since 1970"
    if not 0 <= event.member_generation <= _INT64:
        return f"memberGeneration: is {event.member_generation}, expected a generation"
    if event.applied and event.absent:
        return "applied: is true of an object that is absent"
    return ""


class Numbers(Struct, frozen=True):
    """The numbers of a status: `problem` names the implausible field, empty when there is none.

    `most` is the highest count of replicas and `field` its name; `generation` the template's generation it is about.
    """

    problem: str = ""
    most: int = 0
    field: str = ""
    generation: int = 0


def implausible(api_version: str, kind: str, status: Raw, given: Given) -> str:
    """Which field of a status cannot be true, and why; empty when all can."""
    found = numbers(api_version, kind, status)
    if found.problem:
        return found.problem
    if found.most > given.most:
        return f"status.{found.field}: is {found.most}, but at most {given.most} are plausible for what was given"
    if 0 < given.generation < found.generation:
        return (
            f"status.resourceTemplateGeneration: is {found.generation}, ahead of the template's generation "
            f"{given.generation}"
        )
    return ""


def numbers(api_version: str, kind: str, status: Raw) -> Numbers:
    """The numbers of a status of a kind, from any reporter."""
    data = bytes(status)
    judge = _small if len(data) <= _CACHED_BYTES else _numbers
    return judge(api_version, kind, data)


def _numbers(api_version: str, kind: str, data: bytes) -> Numbers:
    if len(data) > LARGEST_STATUS:
        return Numbers(f"status: has {len(data)} bytes, at most {LARGEST_STATUS} are collected")
    try:
        status = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return Numbers("status: is no JSON that can be read")
    if type(status) is not dict:
        return Numbers(f"status: is {describe(status)}, expected an object")
    native = (api_version, kind) in NATIVE_KINDS
    try:
        known = whole_numbers(kind) if native else None
        if known is not None:
            check_status(kind, status)
        return _counted(kind, status, known)
    except InterpretError as problem:
        return Numbers(shortened(str(problem)))


_small: Final[Callable[[str, str, bytes], Numbers]] = lru_cache(maxsize=4096)(_numbers)
"""Most statuses are small, and the same one is summed with every report of another member."""


def _counted(kind: str, status: Mapping[str, Any], native: frozenset[str] | None) -> Numbers:
    most, field = 0, ""
    for name, value in status.items():
        # Of a kind that is not known, names that mean the same everywhere are judged.
        if native is not None and name not in native:
            continue
        generation = name.endswith(_GENERATIONS)
        if native is None and not name.endswith(_REPLICAS):
            continue
        if type(value) not in (int, float):
            continue
        number = _whole(value, f"status.{name}", _INT64 if generation else MOST)
        if name.endswith(_REPLICAS) and not name.startswith("terminating") and number > most:
            most, field = number, name
    if native is not None:
        _fit(kind, status)
    observed, generation_of = status.get("observedGeneration"), status.get("generation")
    if type(observed) is int and type(generation_of) is int and 0 < generation_of < observed:
        raise InterpretError(f"is {observed}, ahead of the generation {generation_of}", "status.observedGeneration")
    template = status.get("resourceTemplateGeneration")
    return Numbers("", most, field, template if type(template) is int else 0)


def _whole(value: float, field: str, most: int) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise InterpretError(f"is {value!r}, expected a whole number", field)
    if not 0 <= value <= most:
        raise InterpretError(f"is {value!r}, expected 0 to {most}", field)
    return int(value)


def _fit(kind: str, status: Mapping[str, Any]) -> None:
    for part, whole in _PARTS.get(kind, ()):
        if (status.get(part) or 0) > (status.get(whole) or 0):
            raise InterpretError(
                f"is {status[part]}, more than status.{whole} with {status.get(whole) or 0}", f"status.{part}"
            )
