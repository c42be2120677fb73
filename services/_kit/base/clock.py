"""The only source of time in the runtime, so that tests and replays can replace it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

PULL: Final = 0.25
"""Seconds by which the time is brought nearer to the machine's clock in every second, at most."""
ADOPTED: Final = 86400.0
"""A clock that was wrong by more than that (seconds) is followed at once: stamps would be useless otherwise."""


class Clock(Protocol):
    """Wall time for facts, monotonic time for waiting; both in seconds."""

    def now(self) -> float:
        """Seconds since 1970."""

    def monotonic(self) -> float:
        """Seconds on a clock that never jumps."""


def _elapsed() -> float:
    """Seconds that passed on this machine, those it slept among them where the system counts them."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class SystemClock:
    """The machine's clocks, its wall clock without its steps.

    Deadlines are computed, kept and compared as wall time. When the machine's clock is set, none of them may
    come an hour early or late: the time goes on evenly and is brought up (or held back) by a quarter of what passes
    until both agree again. It never goes back. A step of more than a day is adopted.
    """

    def __init__(self, wall: Callable[[], float] = time.time, elapsed: Callable[[], float] = _elapsed) -> None:
        self._wall = wall
        self._elapsed = elapsed
        self._at = elapsed()
        self._now = wall()

    def now(self) -> float:
        """Seconds since 1970."""
        at, wall = self._elapsed(), self._wall()
        passed, self._at = max(0.0, at - self._at), at
        expected = self._now + passed
        off = wall - expected
        if abs(off) > ADOPTED:
            self._now = wall
        else:
            self._now = expected + min(max(off, -PULL * passed), PULL * passed)
        return self._now

    def monotonic(self) -> float:
        """Seconds on a clock that never jumps."""
        return time.monotonic()
