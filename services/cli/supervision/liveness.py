"""Decides whether a process that is alive is of use: it has to begin to answer, and to go on answering."""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from msgspec import Struct

Verdict = Literal["", "never answered", "fell silent"]

LONGEST_STEP: Final = 3.0
"""Seconds that one look counts at most: while this process itself stood still, no answer could be received."""
_DOUBLINGS: Final = 4


class Limits(Struct, frozen=True, kw_only=True):
    """Seconds after which a process is started again; 0: never.

    `start` is the time from its start to its first answer, which doubles with each time that it was too short: a store
    that takes long to read must not be read from the beginning for ever. `silence` is the time without an answer.
    """

    start: float = 90.0
    silence: float = 60.0


class Life(Struct, frozen=True, kw_only=True):
    """What is known of one process since its start; `waited`: seconds without an answer, as far as they count."""

    answered: bool = False
    waited: float = 0.0
    seen_at: float = 0.0
    late_starts: int = 0
    """How often in a row it was given up before its first answer."""


def heard(life: Life, now: float) -> Life:
    """It answered."""
    return msgspec.structs.replace(life, answered=True, waited=0.0, seen_at=now, late_starts=0)


def passed(life: Life, now: float, *, counts: bool) -> Life:
    """Time passed without an answer; it counts while nothing that the process needs is missing."""
    step = min(max(0.0, now - life.seen_at), LONGEST_STEP) if counts else 0.0
    return msgspec.structs.replace(life, waited=life.waited + step, seen_at=now)


def begun(life: Life, now: float) -> Life:
    """It was started, for the first time or again."""
    return Life(seen_at=now, late_starts=life.late_starts)


def given_up(life: Life) -> Life:
    """It is ended because it was of no use."""
    return msgspec.structs.replace(life, late_starts=life.late_starts + (not life.answered), waited=0.0)


def limit(life: Life, limits: Limits) -> float:
    """Seconds without an answer that are too many now; 0: none are."""
    if life.answered:
        return limits.silence
    return limits.start * float(1 << min(life.late_starts, _DOUBLINGS))


def judged(life: Life, limits: Limits) -> Verdict:
    """Whether it has to be started again, and why."""
    allowed = limit(life, limits)
    if not allowed or life.waited <= allowed:
        return ""
    return "fell silent" if life.answered else "never answered"
