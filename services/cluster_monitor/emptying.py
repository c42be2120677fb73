"""Watches a leaving cluster until the log shows that none of its works holds anything there any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import structlog

from schemas.codec import DecodeError, decode
from schemas.events.observed import WorkObserved
from schemas.events.work import WorkEvent, WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from schemas.subjects import escape
from services._kit.delivery.reports import LEAVING
from services._kit.errors import LogError
from services._kit.log import Log

log = structlog.get_logger("cluster_monitor.emptying")


class Emptying:
    """Follows the works and observations of one cluster; calls `done` once, when every copy is reported gone.

    A copy whose deletion the cluster accepted counts as gone (reference 03 §3.6): its finalizers may never be done.
    """

    def __init__(self, cluster: str, logs: Mapping[str, Log], done: Callable[[], None]) -> None:
        self._cluster = cluster
        self._done = done
        self._works: dict[ObjectKey, WorkEvent] = {}
        self._gone: dict[ObjectKey, str] = {}
        self._complete = {"FACTS": False, "OBSERVED": False}
        self._told = False
        token = escape(cluster)
        self._tasks = [
            asyncio.create_task(self._follow(logs["FACTS"], f"work.{token}.>")),
            asyncio.create_task(self._follow(logs["OBSERVED"], f"observed.{token}.>")),
        ]

    async def close(self) -> None:
        """Stop watching."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, stream: Log, pattern: str) -> None:
        pump = stream.pump([pattern])
        try:
            async for delivery in pump:
                for message in delivery.messages:
                    try:
                        event = decode(message.subject, message.data)
                    except DecodeError as error:
                        # What cannot be read may still hold something: the cluster does not count as empty.
                        log.warning("event_unreadable", cluster=self._cluster, error=str(error))
                        return
                    match event:
                        case WorkRendered() | WorkWithdrawn():
                            self._works[event.key] = event
                        case WorkObserved():
                            gone = event.absent or event.reason == LEAVING
                            self._gone[event.key] = event.uid if gone else ""
                        case _:
                            continue
                self._complete[stream.name] = delivery.caught_up
                self._check()
        except LogError as error:
            log.warning("emptying_interrupted", cluster=self._cluster, error=str(error))
        finally:
            await pump.close()

    def _check(self) -> None:
        if self._told or not all(self._complete.values()):
            return
        for key, work in self._works.items():
            if isinstance(work, WorkRendered) or self._gone.get(key) != work.uid:
                return
        self._told = True
        self._done()
