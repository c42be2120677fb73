"""Pauses before retries: doubled with every failure in a row up to a bound, and spread by chance."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count
from math import inf

from msgspec import Struct

_MOST_DOUBLINGS = 40


class Backoff(Struct, frozen=True):
    """The pauses of one kind of retry, in seconds.

    Each is multiplied by a number between those of `spread`, so that what failed together is not retried together.
    """

    first: float
    longest: float
    spread: tuple[float, float] = (0.5, 1.5)

    def pause(self, failures: int, at_most: float = inf) -> float:
        """How long to wait after so many failures in a row, at least one."""
        bounded = min(self.first * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), self.longest, at_most)
        return bounded * random.uniform(*self.spread)

    def pauses(self) -> Iterator[float]:
        """The pauses of one row of failures, without end."""
        return map(self.pause, count(1))


EXACT = (1.0, 1.0)
"""The spread of pauses that are not left to chance."""
