"""Queues of keys as in Kubernetes' controllers: each key once, one call per key at a time, retried with backoff."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from math import inf
from typing import Final, Generic, TypeVar

from services._kit.base.late_logger import LateLogger
from services._kit.base.pacing import Backoff
from services._kit.concurrency.supervision import spawn
from services._kit.concurrency.tasks import end

K = TypeVar("K", bound=Hashable)
Work = Callable[[], Awaitable[None]]

_REMEMBERED: Final = 100_000
"""Keys whose failures are counted."""

log = LateLogger("background")


class DelayedKeys(Generic[K]):
    """Keys that wait for a moment, each for one at most, and their failures in a row; `due` is called with each."""

    def __init__(self, due: Callable[[K], None], backoff: Backoff = Backoff(0.1, 30.0)) -> None:  # noqa: B008 - immutable
        self._due = due
        self._backoff = backoff
        self._failures: dict[K, int] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def __contains__(self, key: K) -> bool:
        return key in self._timers

    def after(self, key: K, seconds: float) -> None:
        """Have a key wait, unless it does already."""
        if key not in self._timers:
            self._timers[key] = asyncio.get_running_loop().call_later(seconds, self._fire, key)

    def _fire(self, key: K) -> None:
        del self._timers[key]
        self._due(key)

    def failed(self, key: K, at_most: float = inf) -> float:
        """Count a failure; how long to wait before the next try, in seconds."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        if len(self._failures) > _REMEMBERED:
            del self._failures[next(iter(self._failures))]
        return self._backoff.pause(failures, at_most)

    def failures(self, key: K) -> int:
        """How often in a row a key has failed."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """Forget the failures of a key: its next pause is a short one."""
        self._failures.pop(key, None)

    def cancel(self, key: K) -> None:
        """Have a key wait no longer; it is not due."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def clear(self) -> None:
        """Cancel every key, and forget all failures."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._failures.clear()


class WorkQueue(Generic[K]):
    """Calls `handle` for every key added, at most `concurrency` calls at once; a key that waits is not added twice.

    A key whose call returns seconds is added again after them. One whose call raises one of `retry` is added again
    after a pause that grows up to `longest_pause` seconds; any other exception is logged and the key dropped.
    """

    def __init__(
        self,
        handle: Callable[[K], Awaitable[float | None]],
        *,
        concurrency: int = 1,
        retry: tuple[type[Exception], ...] = (Exception,),
        longest_pause: float = 30.0,
    ) -> None:
        self._handle = handle
        self._free = concurrency
        self._retry = retry
        self._waiting: dict[K, None] = {}
        self._running: set[K] = set()
        self._delayed: DelayedKeys[K] = DelayedKeys(self.add, Backoff(0.1, longest_pause))
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def pending(self) -> int:
        """Keys that are not done."""
        return len(self._waiting) + len(self._running) + len(self._delayed)

    def add(self, key: K) -> None:
        """Handle a key as soon as there is room, once more if it is being handled."""
        self._delayed.cancel(key)
        self._waiting[key] = None
        self._idle.clear()
        self._fill()

    def forget(self, key: K) -> None:
        """Drop a key unless it is being handled."""
        self._delayed.cancel(key)
        self._waiting.pop(key, None)

    def _fill(self) -> None:
        while self._free > 0:
            key = next((key for key in self._waiting if key not in self._running), None)
            if key is None:
                return
            del self._waiting[key]
            self._free -= 1
            self._running.add(key)
            task = spawn("background", self._call(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _call(self, key: K) -> None:
        again: float | None = None
        try:
            again = await self._handle(key)
            self._delayed.forget(key)
        except self._retry as error:
            again = self._delayed.failed(key)
            failures = self._delayed.failures(key)
            log.info("background_work_retried", key=str(key), error=str(error), failures=failures, pause_seconds=again)
        except Exception as error:  # noqa: BLE001 - one broken piece of work must not stop the others
            self._delayed.forget(key)
            log.error("background_work_failed", key=str(key), error=f"{type(error).__name__}: {error}")
        finally:
            self._running.discard(key)
            if again is not None and key not in self._waiting:
                self._delayed.after(key, again)
            self._free += 1
            self._fill()
            if not self.pending:
                self._idle.set()

    async def drained(self) -> None:
        """Return once every key is done."""
        await self._idle.wait()

    async def close(self) -> None:
        """Drop what waits and cancel what runs."""
        self._waiting.clear()
        self._delayed.clear()
        await end(*self._tasks)


class Background(WorkQueue[K]):
    """Side effects beside the decision loop, the latest of each key only.

    A newer submission for a key replaces one that has not started. Work that raises one of `retry` is repeated until it
    succeeds or is replaced.
    """

    def __init__(
        self, *, concurrency: int = 16, retry: tuple[type[Exception], ...] = (), longest_pause: float = 15.0
    ) -> None:
        super().__init__(self._carry_out, concurrency=concurrency, retry=retry, longest_pause=longest_pause)
        self._latest: dict[K, Work] = {}

    def submit(self, key: K, work: Work) -> None:
        """Do this for a key as soon as there is room."""
        self._latest[key] = work
        self.add(key)

    async def _carry_out(self, key: K) -> None:
        work = self._latest.pop(key)
        try:
            await work()
        except self._retry:
            self._latest.setdefault(key, work)
            raise

    def forget(self, key: K) -> None:
        """Drop what has not started for a key."""
        super().forget(key)
        self._latest.pop(key, None)

    async def close(self) -> None:
        """Drop what waits and cancel what runs."""
        self._latest.clear()
        await super().close()
