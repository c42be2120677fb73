"""A pool of processes for interpreter scripts: calls go out in batches, a stopped process is replaced, others go on.

A script that was stopped several times is put aside for a while, so that it cannot keep the processes busy for nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog
from msgspec import Raw

from services._kit.concurrency.supervision import spawn
from services._kit.concurrency.tasks import end, set_within
from services._kit.interpretation.lua.messages import LuaCall, encoded
from services._kit.interpretation.lua.process import LuaProcess, WorkerEnded, WorkerUnavailable
from services._rules.interpreter.common.interpretation import InterpretError, InterpretLater, Operation

_BATCH: Final = 16
_REMEMBERED: Final = 256
log = structlog.get_logger("lua")


class _Job:
    __slots__ = ("call", "future")

    def __init__(self, call: LuaCall, future: asyncio.Future[Any]) -> None:
        self.call = call
        self.future = future


class LuaPool:
    """Runs scripts with at most `size` processes, started when there is work.

    `seconds` is the processor time of one call, `memory` the bytes a script may hold, `strikes` how often a script may
    be stopped before it is put aside for `pause` seconds. A process without work for `idle` seconds is ended.
    """

    def __init__(
        self,
        size: int = 2,
        *,
        seconds: float = 1.0,
        memory: int = 64 << 20,
        strikes: int = 3,
        pause: float = 60.0,
        idle: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._size = size
        self._seconds = seconds
        self._memory = memory
        self._strikes = strikes
        self._pause = pause
        self._longest_idle = idle
        self._clock = clock
        self._waiting: deque[_Job] = deque()
        self._arrived = asyncio.Event()
        self._lanes: set[asyncio.Task[None]] = set()
        self._idle = 0
        # How often a script was stopped, and until when it is put aside.
        self._stopped: dict[str, tuple[int, float]] = {}

    async def evaluate(self, operation: Operation, script: str, arguments: Sequence[Any]) -> Any:
        """The result of one operation (docs/sources.md#interpreters); raises InterpretError, WorkerUnavailable."""
        self._refuse_aside(script)
        job = _Job(LuaCall(operation, script, list(arguments)), asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        self._arrived.set()
        if not self._idle and len(self._lanes) < self._size:
            lane = spawn("lua", self._lane())
            self._lanes.add(lane)
            lane.add_done_callback(self._lanes.discard)
        return await job.future

    async def close(self) -> None:
        """End all processes; calls that wait fail with WorkerUnavailable."""
        await end(*self._lanes)
        _fail(self._waiting, WorkerUnavailable("the processes for interpreter scripts are being ended"))
        self._waiting.clear()

    def _refuse_aside(self, script: str) -> None:
        if self._stopped.get(script, (0, 0.0))[1] > self._clock():
            raise self._aside()

    def _aside(self) -> InterpretLater:
        # A constant text, so that a repeated problem is reported once.
        often = "once" if self._strikes == 1 else f"{self._strikes} times"
        return InterpretLater(f"the script was stopped {often} and is not run for {self._pause:g} s at a time; mend it")

    async def _lane(self) -> None:
        worker: LuaProcess | None = None
        batch: list[_Job] = []
        try:
            while True:
                if not await self._work(self._longest_idle if worker is not None else None):
                    assert worker is not None
                    await worker.stop()
                    worker = None
                    continue
                batch = self._take()
                if worker is None:
                    worker = await LuaProcess.start(self._seconds, self._memory)
                if not await self._serve(worker, batch):
                    worker = None
                batch = []
        except WorkerUnavailable as problem:
            log.warning("no process for interpreter scripts", error=str(problem))
            self._leave()
            _fail(batch, problem)
            _fail(self._waiting, problem)
            self._waiting.clear()
        except Exception as problem:
            self._leave()
            _fail([*batch, *self._waiting], WorkerUnavailable(f"{type(problem).__name__}: {problem}"))
            self._waiting.clear()
            raise
        finally:
            if worker is not None:
                await worker.stop()
            self._leave()
            _fail(batch, WorkerUnavailable("the processes for interpreter scripts are being ended"))

    def _leave(self) -> None:
        """Remove this worker lane before a failure is delivered: callers that retry at once must not find it."""
        lane = asyncio.current_task()
        assert lane is not None
        self._lanes.discard(lane)

    async def _work(self, longest: float | None) -> bool:
        """Wait until calls wait; false when none came for so many seconds."""
        while not self._waiting:
            self._arrived.clear()
            self._idle += 1
            try:
                if not await set_within(self._arrived, longest):
                    return bool(self._waiting)
            finally:
                self._idle -= 1
        return True

    def _take(self) -> list[_Job]:
        """The next calls; a script that was stopped before runs alone, so that it delays no other call."""
        batch = [self._waiting.popleft()]
        if batch[0].call.script in self._stopped:
            return batch
        while self._waiting and len(batch) < _BATCH and self._waiting[0].call.script not in self._stopped:
            batch.append(self._waiting.popleft())
        return batch

    async def _serve(self, worker: LuaProcess, batch: list[_Job]) -> bool:
        """Whether the process is still there after a batch; calls behind the one that ended it wait again."""
        await worker.send(_written(batch))
        while batch:
            job = batch[0]
            try:
                answer = await worker.answer()
            except WorkerEnded as problem:
                self._strike(job.call, str(problem))
                batch.pop(0)
                _fail([job], InterpretError(str(problem)))
                self._waiting.extendleft(reversed(batch))
                self._fail_aside(job.call.script)
                return False
            batch.pop(0)
            if answer.wrong:
                _fail([job], InterpretError(answer.wrong, answer.field))
            elif not job.future.done():
                job.future.set_result(answer.result)
        return True

    def _fail_aside(self, script: str) -> None:
        """Answer the calls that wait for a script that is put aside: each would only stop another process."""
        if self._stopped[script][1] > self._clock():
            _fail([job for job in self._waiting if job.call.script == script], self._aside())
            self._waiting = deque(job for job in self._waiting if not job.future.done())

    def _strike(self, call: LuaCall, why: str) -> None:
        count = min(self._stopped.pop(call.script, (0, 0.0))[0] + 1, self._strikes)
        until = self._clock() + self._pause if count >= self._strikes else 0.0
        while len(self._stopped) >= _REMEMBERED:
            del self._stopped[next(iter(self._stopped))]
        self._stopped[call.script] = (count, until)
        log.warning("an interpreter script was stopped", operation=call.operation, times=count, error=why)


def _written(batch: list[_Job]) -> list[Raw]:
    """The calls of a batch as they are sent; those that cannot be written fail and leave the batch."""
    calls: list[Raw] = []
    for job in batch[:]:
        try:
            calls.append(encoded(job.call))
        except ValueError as problem:
            _fail([job], InterpretError(f"the object has no JSON form: {problem}"))
            batch.remove(job)
    return calls


def _fail(jobs: Sequence[_Job] | deque[_Job], problem: Exception) -> None:
    for job in jobs:
        if not job.future.done():
            job.future.set_exception(problem)
