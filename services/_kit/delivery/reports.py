"""Batches observations for the log: the newest per object and cluster, of each cluster at a bounded rate.

An object that was just written is seen twice within milliseconds: as it was written, and as its cluster begins with it.
The first is held back for a moment, so that one report covers both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

import structlog
from msgspec import Raw, UnsetType

from schemas.events.observed import WorkObserved
from schemas.keys import ObjectKey
from services._kit.base.log_errors import FenceLost
from services._kit.base.pacing import Bucket
from services._kit.concurrency.keyed_work import DelayedKeys
from services._kit.concurrency.supervision import Supervised, supervise
from services._kit.delivery.lane_parts import instead_of
from services._kit.runtime.appender import Appender, KeyedEvents
from services._rules.delivery.observations import not_looked_at

log = structlog.get_logger("delivery.reports")

BYTES_PER_SECOND: Final = 2e6
"""Bytes of observations of one cluster that are sent in a second."""
BURST_BYTES: Final = 16e6
"""Bytes that may be sent at once: a cluster that was just joined reports on everything."""
_CLUSTER_BYTES: Final = 4 << 20
_ENVELOPE: Final = 512
_SLICE: Final = 128
_ENDPOINT: Final = 256
"""About as many bytes as an endpoint has."""
_BATCH = 400
HELD_SECONDS: Final = 0.05


def weight(event: WorkObserved) -> int:
    """About as many bytes as an observation has on the log."""
    status = len(bytes(event.status)) if isinstance(event.status, Raw) else 0
    endpoints = () if isinstance(event.endpoints, UnsetType) else event.endpoints
    exported = sum(_SLICE + _ENDPOINT * len(item.endpoints) for item in endpoints)
    return _ENVELOPE + status + len(event.message) + exported


def about_to_change(event: WorkObserved) -> bool:
    """Whether a new status is expected soon, because the object was just written."""
    return bool(event.operation) and not_looked_at(event)


class Publisher(Protocol):
    """Where observations go."""

    async def publish(self, events: Sequence[WorkObserved]) -> bool:
        """Store them, however long it takes; false when this instance has to stop reporting."""


class Appending:
    """Appends observations to the log; afterwards calls `hint` with every cluster that something new was said of."""

    def __init__(self, appender: Appender[Any], hint: Callable[[str], Awaitable[None]]) -> None:
        self._appender = appender
        self._hint = hint

    async def publish(self, events: Sequence[WorkObserved]) -> bool:
        """Append in batches."""
        try:
            await self._appender.append([KeyedEvents((event.cluster, event.key), (event,)) for event in events])
        except FenceLost:
            return False
        for cluster in {event.cluster for event in events}:
            await self._hint(cluster)
        return True


class Reports:
    """Pending observations; a newer one of the same object replaces an older one that has not been sent.

    Of one cluster `rate` bytes per second are sent, and `burst` at once: a member whose objects change all the time, or
    have large statuses, delays no other member's reports.
    """

    def __init__(self, publisher: Publisher, rate: float = BYTES_PER_SECOND, burst: float = BURST_BYTES) -> None:
        self._publisher = publisher
        self._rate, self._burst = rate, burst
        self._buckets: dict[str, Bucket] = {}
        self._resting: DelayedKeys[str] = DelayedKeys(self._due)
        """Clusters that sent too much of late."""
        self._pending: dict[tuple[str, ObjectKey], WorkObserved] = {}
        self._sent: dict[tuple[str, ObjectKey], WorkObserved] = {}
        self._held: DelayedKeys[tuple[str, ObjectKey]] = DelayedKeys(self._due)
        """Those of the pending ones that wait for a moment."""
        self._some = asyncio.Event()
        self._task: Supervised | None = None

    def start(self) -> None:
        """Send from now on."""
        self._task = supervise("reports", self._run, returns=True)

    async def close(self) -> None:
        """Stop; what was not sent is observed again after the next start."""
        if self._task is not None:
            await self._task.close()
            self._task = None
        self._held.clear()
        self._resting.clear()
        self._buckets.clear()
        self._pending.clear()
        self._sent.clear()

    def report(self, event: WorkObserved) -> None:
        """Send an observation with the next batch."""
        place = (event.cluster, event.key)
        waiting = self._pending.pop(place, None)
        event = self._pending[place] = instead_of(waiting, event)
        if about_to_change(event) and (waiting is None or place in self._held):
            self._held.after(place, HELD_SECONDS)
            return
        self._held.cancel(place)
        self._some.set()

    def _due(self, _: object) -> None:
        self._some.set()

    def _next_batch(self) -> list[WorkObserved]:
        """What is sent now; of one cluster not more than a part, so that others have room beside it."""
        sizes: dict[str, int] = {}
        places: list[tuple[str, ObjectKey]] = []
        for place, event in self._pending.items():
            cluster = place[0]
            size, before = weight(event), sizes.get(cluster, 0)
            if place in self._held or cluster in self._resting or (before and before + size > _CLUSTER_BYTES):
                continue
            sizes[cluster] = before + size
            places.append(place)
            if len(places) == _BATCH:
                break
        now = asyncio.get_running_loop().time()
        for cluster, size in sizes.items():
            bucket = self._buckets.get(cluster)
            if bucket is None:
                bucket = self._buckets[cluster] = Bucket(self._rate, self._burst)
            pause = bucket.take(size, now)
            if pause:
                self._resting.after(cluster, pause)
        batch = []
        for place in places:
            event = self._sent[place] = self._pending.pop(place)
            batch.append(event)
        return batch

    @property
    def backlog(self) -> int:
        """Observations not yet sent."""
        return len(self._pending)

    def latest(self, cluster: str, key: ObjectKey) -> WorkObserved | None:
        """The observation that is on its way, if any: it counts as said."""
        place = (cluster, key)
        return self._pending.get(place) or self._sent.get(place)

    def folded(self, event: WorkObserved) -> None:
        """An observation came back through the log."""
        place = (event.cluster, event.key)
        if self._sent.get(place) is not None and self._sent[place].at <= event.at:
            del self._sent[place]

    async def _run(self) -> None:
        while True:
            await self._some.wait()
            self._some.clear()
            while batch := self._next_batch():
                if not await self._publisher.publish(batch):
                    log.info("reports_stopped", reason="another instance leads")
                    return
