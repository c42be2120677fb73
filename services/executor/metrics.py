"""The catalogue of the executor's metrics; the runtime's own are in services/_kit/base/metrics.py."""

from __future__ import annotations

from typing import Final

from schemas.codec import Known
from schemas.events.observed import WorkObserved
from schemas.events.work import WorkRendered, WorkWithdrawn
from services._kit.base.metrics import KitMetrics, exponential
from services._kit.log.stream_port import Message

_UNDER_WAY: Final = 65536


class Deliveries:
    """Follows works until they are reported on: both times are the log's own, so nothing has to be measured."""

    def __init__(self, metrics: KitMetrics) -> None:
        self._stage = metrics.observe_stage
        self._seconds = metrics.timings(
            "work_sync_workload_duration_seconds",
            "Time from a work on the log until the report on it was",
            ("result",),
            exponential(0.001, 2, 12),
        )
        self._since: dict[int, float] = {}

    def take(self, message: Message, event: Known) -> None:
        """A message of the log."""
        match event:
            case WorkRendered() | WorkWithdrawn():
                self._since[message.seq] = message.time
                if len(self._since) > _UNDER_WAY:
                    del self._since[next(iter(self._since))]
            case WorkObserved():
                self._reported(message, event)
            case _:
                return

    def clear(self) -> None:
        """Forget what is under way: another instance delivers it."""
        self._since.clear()

    def _reported(self, message: Message, event: WorkObserved) -> None:
        since = self._since.pop(event.work_seq, 0.0)
        if since:
            seconds = max(0.0, message.time - since)
            self._stage(seconds)
            self._seconds.observe(seconds, "error" if event.reason else "success")
