"""Runs services and waits for conditions in tests."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from services._kit.base.log_errors import Ambiguous, Unavailable
from services._kit.runtime.decision_loop import LoopOptions
from services._kit.runtime.runner import Runner
from tests.support.waiting import PATIENCE, eventually

TAKEOVER_AFTER = 10.0
QUICK = LoopOptions(heartbeat=0.02, takeover_after=TAKEOVER_AFTER, backoff=0.01, longest_backoff=0.05)
"""A process that stands still for a moment loses no lease; a test that kills a leader moves a clock of its own."""


async def insist(ask):
    """The log's answer to a question, asked again while it has none: servers elect a leader, or were just started."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while True:
        try:
            return await ask()
        except (Ambiguous, Unavailable):
            if asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(0.05)


async def as_time_passes(clock, condition, what="the condition", living=()):
    """Move a clock on until a condition holds, as fast as the leaders among the living leases show heartbeats."""

    def holds():
        if condition():
            return True
        if all(lease.holds for lease in living if lease.is_leader):
            clock.advance(TAKEOVER_AFTER / 10)
        return False

    await eventually(holds, what)


class Running:
    """One running instance of a service."""

    def __init__(self, service, backend, instance="toy-0", options=QUICK, logs=None, **more):
        self.service = service
        self.runner = Runner(service, logs or backend.logs, backend.bus, instance, options=options, **more)
        self.task = asyncio.create_task(self.runner.run())

    @property
    def state(self):
        return self.runner.projection.state

    async def until(self, condition, what="the condition"):
        """Wait for a condition, or fail with the runner's error."""

        def holds():
            if self.task.done():
                self.task.result()
                raise AssertionError("the runner ended")
            return condition()

        await eventually(holds, what)

    async def until_idle(self, log):
        """Wait until everything on the log was folded and nothing is left to decide."""
        await self.until(lambda: self.runner.active and self.runner.deciding is not None)
        last = (await insist(log.identity)).last_seq
        while True:
            deciding, projection = self.runner.deciding, self.runner.projection
            idle = deciding is not None and not projection.dirty and not deciding.in_flight
            newest = (await insist(log.identity)).last_seq
            # Everything that these tests put on the log is read by the service: its newest message, too.
            if idle and newest == last and projection.position["FACTS"] >= newest:
                return
            last = newest
            await self.until(lambda: True)
            await asyncio.sleep(0.005)

    async def kill(self):
        """End without a goodbye, as kill -9 does."""
        self.runner.lease._stopping = True
        self.runner.lease.seq = 0
        await self.stop()

    async def stop(self):
        """End in good order."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def running(service, backend, instance="toy-0", **more):
    """A service that runs for the length of a block."""
    one = Running(service, backend, instance, **more)
    try:
        yield one
    finally:
        await one.stop()
