"""A log in memory and the services that run on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from schemas.codec import Known, decode
from schemas.shard_groups import WHOLE
from schemas.topology import STREAMS
from services._kit.base.clock import Clock, SystemClock
from services._kit.base.metrics import KitMetrics
from services._kit.content.blobs import Blobs
from services._kit.log.stream_port import Message
from services._kit.runtime.decision_loop import LoopOptions
from services._kit.runtime.runner import Runner
from tests.support.memory_bus import MemoryBus
from tests.support.memory_log import MemoryLog
from tests.support.waiting import eventually


class MemoryInstallation:
    """All streams, and services that lead soon after their start."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.logs = {stream.name: MemoryLog(stream) for stream in STREAMS}
        self.facts = self.logs["FACTS"]
        self.bus = MemoryBus()
        self.clock: Any = clock or SystemClock()

    async def given(self, *events: Known) -> None:
        """Append facts."""
        await self.facts.given(*events)

    @asynccontextmanager
    async def running(self, service: Any) -> AsyncIterator[Runner[Any, Any]]:
        """One instance of a service."""
        options = LoopOptions(heartbeat=0.02, takeover_after=30.0)
        runner: Runner[Any, Any] = Runner(
            service, self.logs, self.bus, f"{service.name}-0", options=options, clock=self.clock
        )
        context: Any = SimpleNamespace(
            group=WHOLE,
            projection=runner.projection,
            health=runner.health,
            clock=runner.clock,
            mark=runner.mark,
            connection=None,
            guard=runner.guard,
            appender=runner.appender,
            logs=self.logs,
            metrics=KitMetrics(service.name),
            blobs=Blobs(self.logs["BLOBS"]),
        )
        await service.start(context)
        task = asyncio.create_task(runner.run())
        try:
            yield runner
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await service.stop()

    def messages(self, pattern: str) -> list[tuple[Message, Any]]:
        """Facts of matching subjects with their messages."""
        found = self.facts.since(0, [pattern], 10_000)
        return [(message, decode(message.subject, message.data)) for message in found]

    def read(self, pattern: str) -> list[Any]:
        """Facts of matching subjects."""
        return [event for _, event in self.messages(pattern)]

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait for what the services bring about."""
        await eventually(condition)
