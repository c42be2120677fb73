"""Garbage-collects blobs that no fact references any more, neither one in FACTS nor one in HISTORY.

Every round reads FACTS first and HISTORY second: what is trimmed from FACTS meanwhile is in HISTORY by then. Why no
writer can be overtaken: see services/_rules/history/blob_grace.py. Two instances at once do no harm.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog
from msgspec import Struct

from schemas.subjects import blob
from schemas.topology import FACTS
from services._kit.base.clock import Clock
from services._kit.base.log_errors import LogError
from services._kit.concurrency.supervision import Periodic
from services._kit.log.fact_history import HISTORY
from services._kit.log.stream_port import Log
from services._rules.history.blob_grace import NAMING, garbage, named
from services._rules.history.delta_encoding import referenced

log = structlog.get_logger("janitor.blobs")

BLOBS = "BLOBS"
_PREFIX = "blob."
_ALL = f"{_PREFIX}*"


class BlobStats(Struct):
    """Counters since the start; sizes in bytes."""

    rounds: int = 0
    kept: int = 0
    """Blobs that were named, or too young, in the last round."""
    collected: int = 0
    collected_bytes: int = 0
    failures: int = 0


class BlobCollector(Periodic):
    """Collects every `period` seconds between `start` and `stop`."""

    def __init__(self, logs: Mapping[str, Log], clock: Clock, period: float, stats: BlobStats | None = None) -> None:
        super().__init__("blob-collection", period, self._round)
        self.stats = stats or BlobStats()
        self._logs = logs
        self._clock = clock

    async def _round(self) -> None:
        try:
            await self.collect()
        except LogError as error:
            self.stats.failures += 1
            log.warning("blobs_not_collected", reason=str(error))

    async def collect(self) -> int:
        """One round; how many blobs went. Raises LogError, then what is left goes in the next."""
        blobs = self._logs[BLOBS]
        looked_at = self._clock.now()
        there = await blobs.counts(_ALL)
        bases = {blob(name) for name in referenced({subject.removeprefix(_PREFIX) for subject in there})}
        unnamed = set(there) - bases
        for stream in (FACTS.name, HISTORY):
            if not unnamed:
                break
            async for message in self._logs[stream].read(NAMING):
                for digest in named(message.data):
                    unnamed.discard(blob(digest))
        gone = 0
        for subject in sorted(unnamed):
            message_of = await blobs.last(subject)
            # Stored again since the check, it has a later position and stays.
            if message_of is not None and garbage(message_of.time, looked_at):
                gone += await blobs.purge(subject, message_of.seq)
                self.stats.collected_bytes += len(message_of.data)
        self.stats.rounds += 1
        self.stats.collected += gone
        self.stats.kept = len(await blobs.counts(_ALL))
        if gone:
            log.info("blobs_collected", blobs=gone, kept=self.stats.kept)
        return gone
