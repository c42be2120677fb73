"""Triggers a relist of everything a cluster holds after it gave unusable answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

QUIET_SECONDS: Final = 3.0
"""How long a cluster gives usable answers before it is listed again."""
LONGEST_SECONDS: Final = 60.0
"""After which it is listed again although some answers still cannot be used."""


class RelistTrigger:
    """Tracks unusable answers of a cluster: its other answers of that time may be wrong, even if they were plausible.

    `check` is called once it has given none for a while, or has given them for long; it answers whether the cluster was
    reachable, and is called again soon if it was not.
    """

    def __init__(
        self, check: Callable[[], bool], quiet: float = QUIET_SECONDS, longest: float = LONGEST_SECONDS
    ) -> None:
        self._check = check
        self._quiet = quiet
        self._longest = longest
        self._since = 0.0
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def bad_answer(self) -> None:
        """The cluster answered what cannot be used."""
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        if self._timer is None:
            self._since = self._last
            self._timer = loop.call_later(self._quiet, self._look)

    def close(self) -> None:
        """Call nothing any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        due = min(self._last + self._quiet, self._since + self._longest)
        if now < due:
            self._timer = loop.call_later(due - now, self._look)
        elif self._check():
            self._timer = None
        else:
            self._timer = loop.call_later(self._quiet, self._look)
