"""Compares the identity of an endpoint with the known one: the uid of kube-system and the revision of its store."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Reading(Struct, frozen=True):
    """The identity of an endpoint at one time.

    `uid` is that of the namespace kube-system, empty when it could not be read: `problem` is the reason. `revision` is
    the resourceVersion of the store at that time, 0 when it is no number. `forbidden`: we have no right to know.
    `older`: an object has an older resourceVersion than it was seen with, however far the store has come since.
    """

    uid: str
    revision: int = 0
    problem: str = ""
    forbidden: bool = False
    older: bool = False


class Sighting(Struct, frozen=True):
    """The newest object of one collection of an endpoint that was seen: its path and its resourceVersion.

    Versions of an object never fall, so an older one than this shows a store that was restored, also when others have
    written more since than was lost.
    """

    path: str
    version: int


class Judgement(Enum):
    """What a reading means for the other answers of the endpoint."""

    SAME = "same"
    """The one that is known: what is missing from its lists may count."""
    FIRST = "first"
    """No identity is known yet: this one is, from now on."""
    WENT_BACK = "went back"
    """The one that is known, with an older state of its store: it was restored."""
    OTHER = "other"
    """Another identity: no answer of the endpoint counts."""
    UNREADABLE = "unreadable"
    """The identity is hidden, although one is known: no answer of the endpoint counts."""
    NAMELESS = "nameless"
    """The identity is hidden and always was; lists of the endpoint count as far as they are plausible."""

    @property
    def trusted(self) -> bool:
        """Whether answers of the endpoint count at all."""
        return self not in (Judgement.OTHER, Judgement.UNREADABLE)


def judge(uid: str, revision: int, reading: Reading) -> Judgement:
    """Compare a reading with the known uid (empty: none) and the highest revision seen (0: none)."""
    if not reading.uid:
        return Judgement.UNREADABLE if uid else Judgement.NAMELESS
    if not uid:
        return Judgement.FIRST
    if reading.uid != uid:
        return Judgement.OTHER
    if reading.older or (revision and reading.revision and reading.revision < revision):
        return Judgement.WENT_BACK
    return Judgement.SAME
