"""Logs refused reports of an agent: the first at once, then the number of further ones at intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from schemas.keys import ObjectKey

log = structlog.get_logger("registrar.refusals")

QUIET_SECONDS: Final = 10.0
"""How long after a line about one agent the next one follows."""


class Refusals:
    """The refused reports of one cluster; times are of a clock that never goes back."""

    def __init__(self, cluster: str, now: Callable[[], float]) -> None:
        self._cluster = cluster
        self._now = now
        self._logged_at = -QUIET_SECONDS
        self._more = 0

    def tell(self, key: ObjectKey, reason: str) -> None:
        """Log a refusal, or count it where one was logged a moment ago."""
        now = self._now()
        if now < self._logged_at + QUIET_SECONDS:
            self._more += 1
            return
        log.warning("report_refused", cluster=self._cluster, key=str(key), reason=reason[:500], more=self._more)
        self._logged_at, self._more = now, 0
