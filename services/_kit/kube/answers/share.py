"""Limits each endpoint's use of the event loop: a few milliseconds at once, and a share of a core over time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter
from typing import Final, TypeVar

from services._kit.base.answer_limits import COUNTS
from services._kit.base.pacing import Bucket

T = TypeVar("T")

SLICE_SECONDS: Final = 0.004
"""How long the loop is held at once."""
BURST_SECONDS: Final = 2.0
"""Processor time that a neighbour may have in advance: the lists of a start."""
_LONGEST_WAIT: Final = 1.0


class Share:
    """Processor time for what one neighbour sends; `rate` is the part of a core, 1 or more: only turns are kept.

    All readers of one neighbour share one: they take turns with each other before they take one from the others.
    """

    def __init__(self, rate: float = 1.0, *, clock: Callable[[], float] = perf_counter) -> None:
        self._rate = rate
        self._clock = clock
        self._bucket = Bucket(rate, BURST_SECONDS)
        self._turn = asyncio.Lock()
        self._held = 0.0
        self.waited = 0.0
        """Seconds for which the neighbour was made to wait."""

    async def each(self, items: Iterable[T], take: Callable[[T], None]) -> None:
        """Take items one after the other, in slices; raises what `take` or the iterable raises."""
        rest = iter(items)
        more = True
        while more:
            async with self._turn:
                await self._affordable()
                began = self._clock()
                try:
                    more = self._slice(rest, take, began + SLICE_SECONDS)
                finally:
                    used = self._clock() - began
                    self.spend(used)
                    self._held += used
                if self._held >= SLICE_SECONDS:
                    # Within the turn: another reader of the neighbour must not follow before others had the loop.
                    self._held = 0.0
                    await asyncio.sleep(0)

    def _slice(self, rest: Iterator[T], take: Callable[[T], None], until: float) -> bool:
        """Take items up to a moment of the clock; whether there may be more."""
        for item in rest:
            take(item)
            if self._clock() >= until:
                return True
        return False

    def spend(self, seconds: float) -> None:
        """Count processor time that was used."""
        self._bucket.take(seconds, self._clock())

    async def _affordable(self) -> None:
        """Return once there is processor time left."""
        if self._rate >= 1:
            return
        while pause := min(self._bucket.take(0.0, self._clock()), _LONGEST_WAIT):
            self.waited += pause
            COUNTS.waited_seconds += pause
            await asyncio.sleep(pause)
