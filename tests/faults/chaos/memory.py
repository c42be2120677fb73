"""How the memory of every process develops over the run: a straight line through what was seen."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from statistics import linear_regression, mean
from typing import Final

from msgspec import Struct

from tests.faults.hostile.measuring import processes, resident

EVERY: Final = 5.0
WARM_UP: Final = 60.0
"""Seconds of a process' life that do not count: what is loaded once, and caches that fill."""
LONG_ENOUGH: Final = 300.0
"""Seconds that a line must cover before it is judged."""
SLOPE: Final = 2.0
"""MiB per minute that no process may grow by, where it also grew by a quarter."""
GREW: Final = 1.25
LOG_SERVER: Final = "nats"
LOG_SERVER_MOST: Final = 384.0
"""MiB. Killed every minute or two, the log's server is nearly always filling its caches: its slope says nothing."""


class Line(Struct, frozen=True):
    """Memory of one process: its mean and its slope per minute, both in MiB, and what it is made from."""

    name: str
    samples: int
    seconds: float
    mean: float
    most: float
    slope: float

    @property
    def grows(self) -> bool:
        """Whether it takes more and more."""
        if self.name == LOG_SERVER:
            return self.most > LOG_SERVER_MOST
        grown = self.slope * self.seconds / 60
        return self.seconds >= LONG_ENOUGH and self.slope > SLOPE and grown > self.mean * (GREW - 1)


class Slopes:
    """Samples of every process; one that was started again begins anew with its warm-up, but stays one line."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._born: dict[tuple[str, int], float] = {}
        self._samples: dict[str, list[tuple[float, float]]] = {}

    async def watch(self) -> None:
        """Sample until cancelled."""
        while True:
            now = time.monotonic()
            for name, pid in processes(self._run).items():
                born = self._born.setdefault((name, pid), now)
                if now - born >= WARM_UP and (size := resident(pid)):
                    self._samples.setdefault(name, []).append((now, size))
            await asyncio.sleep(EVERY)

    def lines(self) -> list[Line]:
        """One per process that lived long enough to be seen a few times."""
        found = []
        for name, samples in sorted(self._samples.items()):
            if len(samples) < 3:
                continue
            times, sizes = zip(*samples, strict=True)
            slope = linear_regression(times, sizes).slope * 60
            found.append(Line(name, len(samples), times[-1] - times[0], mean(sizes), max(sizes), slope))
        return found
