"""Delays delivery of messages to batch them: at once, or a while after the first of them, many together.

Each waking of a process costs more than folding its messages, and at the moment of a change every service wants the
processor. A service that is not latency-critical names how long it can wait, and the subjects that it never delays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct


class BatchDelay(Struct, frozen=True):
    """How long messages may wait for more of them; `seconds` is asked at every first one, 0 is not at all."""

    seconds: Callable[[], float]
    hurries: tuple[str, ...] = ()
    """Beginnings of subjects that end the waiting."""


class DeliveryGate:
    """Opened by what hurries at once, by the rest when patience ends or so many wait that there is no more room."""

    def __init__(self, patience: BatchDelay | None, room: int) -> None:
        self._patience = patience
        self._room = room
        self._opened = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        """Whether what arrived is to be handed over now."""
        return self._opened.is_set()

    def knock(self, subject: str, waiting: int) -> None:
        """A message arrived and makes so many that wait."""
        if self._opened.is_set():
            return
        patience = self._patience
        if patience is None or waiting >= self._room or subject.startswith(patience.hurries):
            self.open()
        elif self._timer is None:
            seconds = patience.seconds()
            if seconds > 0:
                self._timer = asyncio.get_running_loop().call_later(seconds, self.open)
            else:
                self.open()

    def open(self) -> None:
        """Hand over now."""
        self._stop()
        self._opened.set()

    def close(self) -> None:
        """Everything was handed over."""
        self._stop()
        self._opened.clear()

    async def wait(self) -> None:
        """Return once it is open."""
        await self._opened.wait()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
