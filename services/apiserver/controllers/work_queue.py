"""A small work queue for controllers: keys are handled one after the other, each again later when it failed."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import structlog

from services._kit.concurrency.supervision import Supervised, supervise

log = structlog.get_logger(__name__)

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Calls `handle(key)` for every key added; a key waiting is not added twice. `handle` returns seconds to retry."""

    def __init__(self, name: str, handle: Callable[[K], Awaitable[float | None]]) -> None:
        self._name = name
        self._handle = handle
        self._waiting: dict[K, None] = {}
        self._failures: dict[K, int] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()
        self._task: Supervised | None = None

    def add(self, key: K) -> None:
        """Handle a key soon."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._waiting[key] = None
        self._wake.set()

    def start(self) -> None:
        """Begin handling."""
        self._task = supervise(f"queue:{self._name}", self._run)

    async def stop(self) -> None:
        """Stop; waiting keys are dropped."""
        for timer in self._timers.values():
            timer.cancel()
        if self._task is not None:
            await self._task.close()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            if not self._waiting:
                self._wake.clear()
                continue
            key = next(iter(self._waiting))
            del self._waiting[key]
            try:
                again = await self._handle(key)
                self._failures.pop(key, None)
            except Exception as e:  # noqa: BLE001 - one bad key never stops the others
                count = self._failures[key] = self._failures.get(key, 0) + 1
                again = min(0.05 * 2 ** min(count, 12), 30.0)
                log.warning("will be tried again", queue=self._name, key=str(key), error=str(e), seconds=again)
            if again is not None and key not in self._waiting and key not in self._timers:
                self._timers[key] = asyncio.get_running_loop().call_later(again, self._later, key)

    def _later(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)
