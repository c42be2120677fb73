"""A clock that stands still until a test moves it."""

from __future__ import annotations


class ManualClock:
    """Implements the port Clock."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = start
        self._elapsed = start

    def now(self) -> float:
        """Seconds since 1970."""
        return self._now

    def monotonic(self) -> float:
        """Seconds on a clock that never jumps."""
        return self._elapsed

    def advance(self, seconds: float) -> None:
        """Move time forward."""
        self._now += seconds
        self._elapsed += seconds

    def set(self, now: float) -> None:
        """Set the wall clock, as an operator or a time service does; no time passes by that."""
        self._now = now
