"""Debounces a callback: fires `quiet` seconds after the last change, at most `longest` after the first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

QUIET_SECONDS: Final = 0.7
LONGEST_RESTLESS_SECONDS: Final = 5.0


class Debouncer:
    """Calls `look` once for several changes: `quiet` seconds after the last, at most `longest` after the first."""

    def __init__(
        self, look: Callable[[], None], quiet: float = QUIET_SECONDS, longest: float = LONGEST_RESTLESS_SECONDS
    ) -> None:
        self._look = look
        self._quiet = quiet
        self._longest = longest
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0

    @property
    def due(self) -> float:
        """When the callback is due, by the loop's clock; 0 while none is."""
        return self._timer.when() if self._timer is not None else 0.0

    def changed(self) -> None:
        """Record a change: restart the quiet period."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._timer is None:
            self._since = now
        else:
            self._timer.cancel()
        self._timer = loop.call_at(min(now + self._quiet, self._since + self._longest), self._now)

    def close(self) -> None:
        """Cancel the pending callback."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _now(self) -> None:
        self._timer = None
        self._look()
