"""A running janitor on a real log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Self

from schemas.codec import Known, encode, subject_of
from schemas.keys import ObjectKey
from schemas.topology import STREAMS
from services._kit.base.clock import SystemClock
from services._kit.base.metrics import KitMetrics
from services._kit.content.blobs import Blobs
from services._kit.log.connection import Connection
from services._kit.log.fact_history import origin
from services._kit.log.heartbeat_bus import NatsBus
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import Log, NewMessage
from services._kit.runtime.runner import Runner
from services._kit.runtime.service import Context
from services.janitor.app import Janitor
from services.janitor.settings import JanitorSettings
from services.janitor.state import JanitorState, Key
from tests.log.running import PATIENCE, QUICK

BATCH = 400


def streams(connection: Connection) -> dict[str, Log]:
    return {stream.name: JetStreamLog(connection, stream.name) for stream in STREAMS}


async def store(log: Log, events: Iterable[Known]) -> int:
    """Append events; the last position."""
    messages = [NewMessage(subject_of(event), encode(event)) for event in events]
    last = 0
    for start in range(0, len(messages), BATCH):
        last = (await log.append(messages[start : start + BATCH])).last
    return last


def job(number: int) -> ObjectKey:
    return ObjectKey("batch", "jobs", "default", f"job-{number}")


class Sweep:
    """A running janitor with no retention."""

    def __init__(self, connection: Connection, logs: dict[str, Log], **settings: Any) -> None:
        self.service = Janitor(JanitorSettings(**{"janitor_retention": 0.0, "janitor_patience": 0.05, **settings}))
        self.runner: Runner[JanitorState, Key] = Runner(
            self.service, logs, NatsBus(connection), "janitor-0", options=QUICK
        )
        self.metrics = KitMetrics("janitor")
        self._connection, self._logs = connection, logs
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> JanitorState:
        return self.runner.projection.state

    async def __aenter__(self) -> Self:
        runner = self.runner
        context: Context[JanitorState, Key] = Context(
            logs=self._logs,
            projection=runner.projection,
            mark=runner.mark,
            clock=SystemClock(),
            blobs=Blobs(self._logs["BLOBS"]),
            health=runner.health,
            metrics=self.metrics,
            appender=runner.appender,
            connection=self._connection,
        )
        await self.service.start(context)
        self._task = asyncio.create_task(runner.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def until_history_holds(logs: dict[str, Log], position: int) -> None:
    """Return once HISTORY holds a position; it follows by itself."""
    pump = logs["HISTORY"].pump([">"])
    async with asyncio.timeout(PATIENCE):
        async for delivery in pump:
            if any(origin(message) >= position for message in delivery.messages):
                break
    await pump.close()
