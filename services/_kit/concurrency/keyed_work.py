"""Carries out side effects beside the decision loop: per key one at a time, the latest only, retried with backoff."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from services._kit.base.late_logger import LateLogger
from services._kit.concurrency.supervision import spawn
from services._kit.concurrency.tasks import end

K = TypeVar("K", bound=Hashable)
Work = Callable[[], Awaitable[None]]

log = LateLogger("background")


class Background(Generic[K]):
    """Bounded concurrent work. A newer submission for a key replaces one that has not started.

    Work that raises one of `retry` is repeated with growing pauses (up to `longest_pause` seconds) until it succeeds or
    is replaced; any other exception is logged and the work dropped.
    """

    def __init__(
        self, *, concurrency: int = 16, retry: tuple[type[Exception], ...] = (), longest_pause: float = 15.0
    ) -> None:
        self._free = concurrency
        self._retry = retry
        self._longest = longest_pause
        self._waiting: dict[K, Work] = {}
        self._running: set[K] = set()
        self._failures: dict[K, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def pending(self) -> int:
        """Work not yet done."""
        return len(self._waiting) + len(self._running) + len(self._timers)

    def submit(self, key: K, work: Work) -> None:
        """Do this for a key as soon as there is room."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._waiting.pop(key, None)
        self._waiting[key] = work
        self._idle.clear()
        self._fill()

    def forget(self, key: K) -> None:
        """Drop what has not started for a key."""
        self._waiting.pop(key, None)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _fill(self) -> None:
        while self._free > 0:
            key = next((key for key in self._waiting if key not in self._running), None)
            if key is None:
                return
            work = self._waiting.pop(key)
            self._free -= 1
            self._running.add(key)
            task = spawn("background", self._do(key, work))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _do(self, key: K, work: Work) -> None:
        try:
            await work()
            self._failures.pop(key, None)
        except self._retry as error:
            self._later(key, work, error)
        except Exception as error:  # noqa: BLE001 - one broken piece of work must not stop the others
            self._failures.pop(key, None)
            log.error("background_work_failed", key=str(key), error=f"{type(error).__name__}: {error}")
        finally:
            self._running.discard(key)
            self._free += 1
            self._fill()
            if not self.pending:
                self._idle.set()

    def _later(self, key: K, work: Work, error: Exception) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        pause = min(0.05 * 2.0 ** min(failures, 12), self._longest) * (0.5 + random.random())
        log.info("background_work_retried", key=str(key), error=str(error), failures=failures, pause_seconds=pause)
        if key in self._waiting:
            return

        def again() -> None:
            self._timers.pop(key, None)
            self._waiting.setdefault(key, work)
            self._fill()

        self._timers[key] = asyncio.get_running_loop().call_later(pause, again)

    async def drained(self) -> None:
        """Return once everything submitted is done."""
        await self._idle.wait()

    async def close(self) -> None:
        """Drop what waits and cancel what runs."""
        self._waiting.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        await end(*self._tasks)
