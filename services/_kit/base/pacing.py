"""Pauses: before retries, doubled with every failure in a row up to a bound; and between items at a limited rate."""

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


class Bucket:
    """A token bucket that may be overdrawn once: large pieces pass, and what follows waits for them."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._at = 0.0

    def take(self, amount: float, now: float) -> float:
        """Take tokens at a time in seconds; how many seconds to wait before the next piece. 0 tokens only ask."""
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = now
        self._tokens -= amount
        return max(0.0, -self._tokens / self._rate)
