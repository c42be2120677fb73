"""Watches how full the streams are: for metrics, readiness facts, the log of alarms, and what may be trimmed sooner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog

from services._kit.base.log_errors import LogError
from services._kit.concurrency.supervision import Periodic
from services._rules.log.stream_limits import Fill, alarms

log = structlog.get_logger("janitor.fill")

Rows = list[tuple[tuple[str, ...], float]]


class StreamWatch(Periodic):
    """Reads every `period` seconds; `changed` is called with the streams in alarm whenever those change."""

    def __init__(
        self,
        read: Callable[[], Awaitable[list[Fill]]],
        period: float,
        changed: Callable[[frozenset[str]], None],
    ) -> None:
        self.fills: Sequence[Fill] = ()
        self.alarms: frozenset[str] = frozenset()
        self.failures = 0
        super().__init__("stream-fill", period, self.look)
        self._read = read
        self._changed = changed

    async def look(self) -> None:
        """Read once."""
        try:
            found = await self._read()
        except LogError as error:
            self.failures += 1
            log.warning("streams_not_read", reason=str(error))
            return
        before, self.fills = self.alarms, found
        self.alarms = alarms(before, found)
        for fill in found:
            if fill.stream in self.alarms - before:
                log.warning("stream_filling", stream=fill.stream, bytes=fill.bytes, most=fill.most, what=fill.words)
            elif fill.stream in before - self.alarms:
                log.info("stream_has_room", stream=fill.stream, bytes=fill.bytes, most=fill.most)
        if self.alarms != before:
            self._changed(self.alarms)

    def document(self) -> dict[str, Any]:
        """What /readyz shows: streams in alarm in words, and the share of each bounded stream that is taken."""
        return {
            "alarms": [fill.words for fill in self.fills if fill.stream in self.alarms],
            "fill": {fill.stream: round(fill.ratio, 4) for fill in self.fills if fill.most > 0},
        }

    def ratios(self) -> Rows:
        """Shares of bounded streams."""
        return [((fill.stream,), fill.ratio) for fill in self.fills if fill.most > 0]

    def counts(self, of: Callable[[Fill], int]) -> Callable[[], Rows]:
        """One number of every stream."""
        return lambda: [((fill.stream,), float(of(fill))) for fill in self.fills]

    def raised(self) -> Rows:
        """1 for a stream in alarm."""
        return [((fill.stream,), float(fill.stream in self.alarms)) for fill in self.fills if fill.most > 0]
