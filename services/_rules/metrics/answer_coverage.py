"""Decides what is said about an answer that lacks members, or parts of what they answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

_MOST_NAMED: Final = 5
_LONGEST: Final = 200


class LeftOut(Struct, frozen=True):
    """Items of one member that cannot be used: how many, and what is wrong with the first of them."""

    count: int
    first: str


class Coverage(Struct, frozen=True, kw_only=True):
    """Which members an answer is made of."""

    answered: frozenset[str] = frozenset()
    """Members that answered, be it that they have nothing of the kind."""
    silent: Mapping[str, str] = field(default_factory=dict)
    """Members that were asked in vain, and why."""
    unready: tuple[str, ...] = ()
    """Members that were not asked because they are not ready."""
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """The members of which nothing is in the answer although they may have something."""
        return sorted({*self.silent, *self.unready})

    @property
    def whole(self) -> bool:
        """Whether all members that were asked have answered with all they have."""
        return not self.silent and not self.left_out

    def texts(self) -> list[str]:
        """One sentence for each thing that the answer lacks, in plain text of bounded length."""
        found = []
        if self.silent:
            named = [f"{name} ({_short(self.silent[name], name)})" for name in sorted(self.silent)]
            found.append(f"metrics without those of {_some(named)}")
        if self.unready:
            found.append(f"metrics without those of members that are not ready: {_some(sorted(self.unready))}")
        if self.left_out:
            named = [
                f"{self.left_out[name].count} of {name} ({_short(self.left_out[name].first, name)})"
                for name in sorted(self.left_out)
            ]
            found.append(f"metrics that cannot be used are left out: {_some(named)}")
        return found


def _short(text: str, cluster: str) -> str:
    """A reason without the name that stands before it."""
    for beginning in (f"cluster {cluster}: ", f"cluster {cluster} "):
        text = text.removeprefix(beginning)
    return " ".join(text.split())[:_LONGEST]


def _some(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    shown = ", ".join(names[:_MOST_NAMED])
    return f"{shown} and {more} more" if more > 0 else shown
