"""Counts how long something has not answered."""

from __future__ import annotations

import time
from typing import Final

TOLD_AFTER: Final = 5.0
"""Seconds that an outage lasts before it counts."""


class Outage:
    """Something that does not answer; `trouble` is empty until that has lasted for a while."""

    def __init__(self, after: float = TOLD_AFTER) -> None:
        self._after = after
        self._since: float | None = None
        self._reason = ""

    def failed(self, reason: str) -> None:
        """It failed, perhaps once more."""
        if self._since is None:
            self._since = time.monotonic()
        self._reason = reason

    def over(self) -> None:
        """It answers."""
        self._since, self._reason = None, ""

    @property
    def trouble(self) -> str:
        """Since when it does not answer, and why."""
        lasted = time.monotonic() - self._since if self._since is not None else 0.0
        if self._since is None or lasted < self._after:
            return ""
        return f"no usable answer for {lasted:.0f} s: {self._reason}"
