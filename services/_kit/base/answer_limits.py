"""Limits on answers of other systems: size and duration; every answer is read within them. Invalid ones are counted."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds of one connection to another system; sizes in bytes after decompression, times in seconds."""

    answer_bytes: int = 4 << 20
    """A whole answer. A page of a list that is larger is asked for again with fewer objects."""
    object_bytes: int = 3 << 20
    """One object: an item of a list, a line of a watch."""
    object_values: int = 250_000
    """Values in one object: decoded, each takes up to a hundred times what it takes as text."""
    answer_values: int = 1_000_000
    """Values in an answer that is decoded whole."""
    header_bytes: int = 64 << 10
    group_versions: int = 2_000
    """That discovery asks about."""
    list_pages: int = 10_000
    list_objects: int = 50_000
    list_kept_bytes: int = 12 << 20
    """What counts of the nodes or pods of one list, in memory."""
    first_byte_seconds: float = 30.0
    """Until the head of an answer is there."""
    silence_seconds: float = 30.0
    """Between two bytes of an answer, two lines of a watch; without one a watch goes on over a new connection."""
    answer_seconds: float = 32.0
    """For a whole answer, where its reader names no other time."""
    watch_seconds: float = 25.0
    """After this time a server is to end a watch, which goes on from there over the same connection."""
    line_seconds: float = 60.0
    """For one line of a watch that is larger than most."""
    cache_bytes: int = 16 << 20
    """Objects of one member that are kept at hand; what is beyond is read when it is needed."""
    cache_bytes_per_work: int = 16 << 10
    """How much more is kept for each object that the member was given."""
    cpu_share: float = 0.25
    """Of one core, for what one member sends; what exceeds it waits."""


_TIMES: Final = 8
DEFAULTS: Final = Limits()
_in_force: Limits = DEFAULTS


def of_control_plane() -> Limits:
    """The limits for the control plane, which holds what all members are given."""
    return replace(
        _in_force,
        answer_bytes=_TIMES * _in_force.answer_bytes,
        object_bytes=2 * _in_force.object_bytes,
        list_objects=20 * _in_force.list_objects,
    )


def in_force() -> Limits:
    """The limits of this process, for connections that name none of their own."""
    return _in_force


def enforce(limits: Limits) -> None:
    """Set the limits of this process, from its settings at the start."""
    global _in_force
    _in_force = limits


class Counts:
    """Invalid answers and their cost since the start of the process, for its metrics."""

    def __init__(self) -> None:
        self.bad_answers = 0
        """Answers that exceeded a limit or were not what was asked for."""
        self.waited_seconds = 0.0
        """For which neighbours that sent much were made to wait."""


COUNTS: Final = Counts()
