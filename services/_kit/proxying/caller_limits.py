"""Bounds what one caller, and all together, may have under way towards members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from msgspec import Struct

_LONGEST_NAME: Final = 200


class CallerBounds(Struct, frozen=True):
    """At once: requests of one caller, those of it that run for long, which count by themselves, and of all callers."""

    requests: int
    lasting: int
    altogether: int


class TooManyRequests(Exception):
    """A caller, or all of them, have as much under way as they may; the text is for the caller."""


class CallerLimits:
    """Counts requests under way by caller."""

    def __init__(self, bounds: CallerBounds) -> None:
        self._bounds = bounds
        self._taken: Counter[tuple[str, bool]] = Counter()
        self.under_way = 0
        """Requests of all callers."""
        self.lasting = 0
        """Those of them that run for long."""

    @contextmanager
    def request(self, user: str, *, lasts: bool) -> Iterator[None]:
        """Count one request while it runs; raises TooManyRequests."""
        if self.under_way >= self._bounds.altogether:
            text = f"{self.under_way} requests for members are under way here, as many as there may be"
            raise TooManyRequests(f"{text}; try again when some have ended")
        most = self._bounds.lasting if lasts else self._bounds.requests
        if self._taken[user, lasts] >= most:
            what = "watches, logs and connections" if lasts else "requests"
            text = f"{user[:_LONGEST_NAME]} has {most} {what} of members under way, as many as one user may have"
            raise TooManyRequests(f"{text}; try again when some have ended")
        self._count(user, 1, lasts=lasts)
        try:
            yield
        finally:
            self._count(user, -1, lasts=lasts)

    def _count(self, user: str, by: int, *, lasts: bool) -> None:
        self.under_way += by
        if lasts:
            self.lasting += by
        self._taken[user, lasts] += by
        if not self._taken[user, lasts]:
            del self._taken[user, lasts]
