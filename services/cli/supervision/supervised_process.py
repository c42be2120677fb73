"""One process of an installation: how to start it, how often it ended right after its start, and what follows."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final

from services.cli.common.failure_reasons import Reasons
from services.cli.supervision.child_watch import ChildWatch
from services.cli.supervision.process_identity import Running

STABLE_SECONDS: Final = 10.0
"""A process that lived longer did not end because of its start."""
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


class Rank(IntEnum):
    """What stands on what: processes of a lower rank are stopped after those of a higher one."""

    LOG = 0
    API = 1
    SERVICE = 2


class Process:
    """One child: how to start it, and what became of it so far."""

    def __init__(
        self,
        name: str,
        rank: Rank,
        start: Callable[[], int],
        *,
        parts: Sequence[str] = (),
        watch: ChildWatch | None = None,
        stack: signal.Signals = signal.SIGUSR2,
        once: bool = False,
    ) -> None:
        self.name = name
        self.parts = tuple(parts)
        """Services that it runs, where it runs several; its process id is found under their names as well."""
        self.rank = rank
        self.start = start
        self.watch = watch
        self.stack = stack
        """Signal at which it writes to its log where it is."""
        self.once = once
        """Whether it is done, and not started again, when it ends with 0."""
        self.said: tuple[Reasons, ...] = ()
        """What it and its parts have written since their start."""
        self.pid = 0
        self.running = Running(0, "")
        self.deaths = Deaths()
        self.due_at = 0.0
        self.kill_at = 0.0
        """When one that hangs is killed; 0: it is not given up."""
