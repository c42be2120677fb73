"""Compares who answers at an endpoint with who is known to: the uid of kube-system and the revision of its store."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Reading(Struct, frozen=True):
    """Who answered at an endpoint once.

    `uid` is that of the namespace kube-system, empty when it could not be read: then `problem` says why. `revision` is
    the resourceVersion of the store at that time, 0 when it is no number. `forbidden`: we have no right to know.
    """

    uid: str
    revision: int = 0
    problem: str = ""
    forbidden: bool = False


class Judgement(Enum):
    """What a reading means for what the endpoint says beside it."""

    SAME = "same"
    """The one that is known: what is missing from its lists may count."""
    FIRST = "first"
    """Nobody is known yet: this one is, from now on."""
    WENT_BACK = "went back"
    """The one that is known, with an older state of its store: it was restored."""
    OTHER = "other"
    """Another one: nothing that it says counts."""
    UNREADABLE = "unreadable"
    """It does not say who it is, although that is known: nothing that it says counts."""
    NAMELESS = "nameless"
    """It does not say who it is and never did; its lists count as far as they are plausible."""

    @property
    def trusted(self) -> bool:
        """Whether what the endpoint says counts at all."""
        return self not in (Judgement.OTHER, Judgement.UNREADABLE)


def judge(uid: str, revision: int, reading: Reading) -> Judgement:
    """Compare a reading with the known uid (empty: none) and the highest revision seen (0: none)."""
    if not reading.uid:
        return Judgement.UNREADABLE if uid else Judgement.NAMELESS
    if not uid:
        return Judgement.FIRST
    if reading.uid != uid:
        return Judgement.OTHER
    if revision and reading.revision and reading.revision < revision:
        return Judgement.WENT_BACK
    return Judgement.SAME
