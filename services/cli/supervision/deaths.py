"""Counts how often a process ended right after its start: how long to wait before the next one, and what to say."""

from __future__ import annotations

import signal
from typing import Final

STABLE_SECONDS: Final = 10.0
"""Whoever lived longer did not end because of its start."""
LONGEST_PAUSE: Final = 5.0
FIRST_PAUSE: Final = 0.1
LOOP: Final = 3
"""Ends in a row from which on it is said that they go on, and no single one any more."""


class Deaths:
    """Those of one process."""

    def __init__(self) -> None:
        self._row = 0
        self._started_at = 0.0
        self._looping = False

    @property
    def pause(self) -> float:
        """Seconds until it is started again."""
        return min(FIRST_PAUSE * 2**self._row, LONGEST_PAUSE) if self._row else 0.0

    def begin(self, now: float) -> None:
        """It was started."""
        self._started_at = now

    def died(self, now: float, how: str) -> str:
        """It ended; what there is to say of it, empty for one more end in a row that was said to go on."""
        self._row = 0 if now - self._started_at > STABLE_SECONDS else self._row + 1
        if self._row < LOOP:
            self._looping = self._looping and self._row > 0
            return "" if self._looping else f"died ({how}) and is started again"
        if self._looping:
            return ""
        self._looping = True
        return (
            f"died {self._row} times in a row right after its start (last: {how}); "
            f"it is started again, at most every {LONGEST_PAUSE:g} s, until it stays"
        )

    def settled(self, now: float) -> str:
        """What there is to say of one that runs: once, that it stays after all."""
        if not self._looping or now - self._started_at <= STABLE_SECONDS:
            return ""
        self._looping = False
        self._row = 0
        return "runs again"


def ended(code: int) -> str:
    """How a process ended, from its exit code; negative for the signal that ended it."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"
