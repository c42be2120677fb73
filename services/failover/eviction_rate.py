"""Spreads evictions over time: each object gets a turn, one after the other at a rate (docs/sources.md#failover)."""

from __future__ import annotations

from typing import Final

from schemas.keys import ObjectKey

SLOWEST: Final = 1800.0
"""Seconds between two evictions at rate 0."""


class EvictionRate:
    """Turns of objects; times in seconds since 1970. `rate` is evictions per second, None for no limit."""

    def __init__(self, rate: float | None) -> None:
        self._interval = 0.0 if rate is None else 1.0 / rate if rate > 0 else SLOWEST
        self._turns: dict[ObjectKey, float] = {}
        self._next = 0.0

    @property
    def waiting(self) -> int:
        """Objects whose turn is still to come."""
        return len(self._turns)

    def turn(self, key: ObjectKey, now: float, last: float) -> float:
        """When the object may leave; not after `now` means that it may do so at once, and its turn is used up.

        `last` is when an object left most recently: a restart must not make it go faster. One that lies ahead, because
        the clock was set back since, counts as now.
        """
        if not self._interval:
            return now
        turn = self._turns.pop(key, None)
        if turn is None:
            turn = max(self._next, min(last, now) + self._interval, now)
            self._next = turn + self._interval
        if turn > now:
            self._turns[key] = turn
        return turn

    def forget(self, key: ObjectKey) -> None:
        """The object need not leave any more."""
        self._turns.pop(key, None)

    def clear(self) -> None:
        """Forget every turn: another instance leads now."""
        self._turns.clear()
        self._next = 0.0
