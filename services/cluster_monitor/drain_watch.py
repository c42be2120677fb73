"""Watches the drain of a deleted cluster until the log shows every copy in it as gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import structlog

from schemas.codec import DecodeError, decode
from schemas.events.observed import WorkObserved
from schemas.events.work import WorkEvent, WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from schemas.subjects import escape
from services._kit.concurrency.supervision import supervise
from services._kit.concurrency.tasks import end
from services._kit.log.stream_port import Log, Message
from services._rules.delivery.observations import LEAVING

log = structlog.get_logger("cluster_monitor.emptying")


class Emptying:
    """Follows the works and observations of one cluster; calls `done` once, when every copy is reported gone.

    A copy whose deletion the cluster accepted counts as gone (docs/sources.md#apply): its finalizers may never be done.
    """

    def __init__(self, cluster: str, logs: Mapping[str, Log], done: Callable[[], None]) -> None:
        self._cluster = cluster
        self._done = done
        self._works: dict[ObjectKey, WorkEvent] = {}
        self._gone: dict[ObjectKey, str] = {}
        self._unreadable: set[str] = set()
        """Subjects whose last event cannot be read: they may still hold something."""
        self._complete = {"FACTS": False, "OBSERVED": False}
        self._reported = False
        token = escape(cluster)
        patterns = {"FACTS": f"work.{token}.>", "OBSERVED": f"observed.{token}.>"}
        self._tasks = [
            supervise(f"emptying:{cluster}", partial(self._follow, logs[stream], pattern))
            for stream, pattern in patterns.items()
        ]

    async def close(self) -> None:
        """Stop watching."""
        await end(*(supervised.task for supervised in self._tasks))

    async def _follow(self, stream: Log, pattern: str) -> None:
        """Take in a stream for as long as there is one; after an error everything is read again."""
        self._complete[stream.name] = False
        pump = stream.pump([pattern])
        try:
            async for delivery in pump:
                for message in delivery.messages:
                    self._take(message)
                self._complete[stream.name] = delivery.caught_up
                self._check()
        finally:
            await pump.close()

    def _take(self, message: Message) -> None:
        try:
            event = decode(message.subject, message.data)
        except DecodeError as error:
            if message.subject not in self._unreadable:
                log.warning("event_unreadable", cluster=self._cluster, subject=message.subject, error=str(error))
            self._unreadable.add(message.subject)
            return
        self._unreadable.discard(message.subject)
        match event:
            case WorkRendered() | WorkWithdrawn():
                self._works[event.key] = event
            case WorkObserved():
                gone = event.absent or event.reason == LEAVING
                self._gone[event.key] = event.uid if gone else ""
            case _:
                return

    def _check(self) -> None:
        if self._reported or self._unreadable or not all(self._complete.values()):
            return
        for key, work in self._works.items():
            if isinstance(work, WorkRendered) or self._gone.get(key) != work.uid:
                return
        self._reported = True
        self._done()
