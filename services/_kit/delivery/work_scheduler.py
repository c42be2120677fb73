"""Schedules objects: one reconciliation per object at a time, retries after failures, and a queue for slow ones."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import Final

import structlog

from schemas.keys import ObjectKey
from services._kit.base.pacing import Backoff
from services._kit.concurrency.keyed_work import DelayedKeys
from services._kit.concurrency.supervision import Supervised, supervise
from services._kit.concurrency.tasks import end
from services._kit.delivery.lane_parts import LaneSettings

log = structlog.get_logger("delivery.turns")
ASSURED: Final = 2
"""Places that a kind gets whatever others take, and that are kept free for the next kind."""


class FifoQueue:
    """Objects that wait, each once, first come, first served; `some` is set when one may have become due.

    There are as many places as workers.
    """

    def __init__(self) -> None:
        self.some = asyncio.Event()
        self._keys: dict[ObjectKey, None] = {}

    def add(self, key: ObjectKey) -> None:
        """Put an object in line."""
        self._keys[key] = None
        self.some.set()

    def take(self) -> ObjectKey | None:
        """The next object, which has a place from now on; None where none waits."""
        for key in self._keys:
            del self._keys[key]
            return key
        return None

    def leave(self, key: ObjectKey) -> None:
        """Nothing to give back: a worker is a place."""

    def __len__(self) -> int:
        return len(self._keys)


class FairQueue:
    """Kinds take turns; one that does not end its own leaves places to others, as long as there are any."""

    def __init__(self, places: int) -> None:
        self.some = asyncio.Event()
        self._free = places
        self._waiting: dict[tuple[str, str], dict[ObjectKey, None]] = {}
        self._taken: dict[tuple[str, str], int] = {}

    def add(self, key: ObjectKey) -> None:
        """Put an object in line behind those of its kind."""
        self._waiting.setdefault((key.group, key.resource), {})[key] = None
        self.some.set()

    def take(self) -> ObjectKey | None:
        """The next object of the next kind that may take a place; None where there is none."""
        for kind, keys in self._waiting.items():
            taken = self._taken.get(kind, 0)
            if taken >= ASSURED and self._free <= ASSURED:
                continue
            key = next(iter(keys))
            del keys[key], self._waiting[kind]
            if keys:
                # To the end: the others are next.
                self._waiting[kind] = keys
            self._taken[kind] = taken + 1
            self._free -= 1
            return key
        return None

    def leave(self, key: ObjectKey) -> None:
        """Give the place of an object back."""
        kind = (key.group, key.resource)
        left = self._taken[kind] - 1
        if left:
            self._taken[kind] = left
        else:
            del self._taken[kind]
        self._free += 1
        if self._waiting:
            self.some.set()

    def __len__(self) -> int:
        return sum(len(keys) for keys in self._waiting.values())


class WorkScheduler:
    """The order of one lane. `look` is awaited for one object at a time each, and only while `up` is set.

    Objects that `is_slow` names wait for processes of scripts; they have workers of their own, so that all others
    never wait behind them.
    """

    def __init__(
        self,
        look: Callable[[ObjectKey], Awaitable[None]],
        is_slow: Callable[[ObjectKey], bool],
        up: asyncio.Event,
        settings: LaneSettings,
    ) -> None:
        self._look = look
        self._is_slow = is_slow
        self._up = up
        self._settings = settings
        self._quick = FifoQueue()
        self._slow = FairQueue(settings.scripted_concurrency)
        self._running: set[ObjectKey] = set()
        self._again: set[ObjectKey] = set()
        self._delayed = DelayedKeys(self.look_at, Backoff(settings.backoff, settings.longest_backoff, (0.75, 1.25)))
        self._tasks: list[Supervised] = []
        self._has_slow_workers = False
        self._closed = False

    @property
    def backlog(self) -> int:
        """Objects that wait for a turn or have one."""
        return len(self._quick) + len(self._slow) + len(self._running) + len(self._delayed)

    def start(self) -> None:
        """Work until closed."""
        self._begin(self._quick, self._settings.concurrency)

    async def close(self) -> None:
        """Stop at once, and take nothing in line any more."""
        self._closed = True
        self._delayed.clear()
        await end(*(worker.task for worker in self._tasks))

    def look_at(self, key: ObjectKey) -> None:
        """Give an object a turn as soon as there is room; after the present one if it has one."""
        if self._closed:
            return
        self._delayed.cancel(key)
        if key in self._running:
            self._again.add(key)
            return
        if self._is_slow(key):
            self._want_slow_workers()
            self._slow.add(key)
        else:
            self._quick.add(key)

    def retry(self, key: ObjectKey, at_least: float = 0.0, at_most: float = inf) -> None:
        """Give an object another turn after a pause (seconds) that grows with every failure in a row."""
        self._delayed.after(key, max(self._delayed.failed(key, at_most), at_least))

    def failures(self, key: ObjectKey) -> int:
        """How often in a row an object has failed."""
        return self._delayed.failures(key)

    def forgive(self, key: ObjectKey) -> None:
        """Forget the failures of an object: the next pause is a short one."""
        self._delayed.forget(key)

    def _want_slow_workers(self) -> None:
        """Most clusters never need them."""
        if not self._has_slow_workers:
            self._has_slow_workers = True
            self._begin(self._slow, self._settings.scripted_concurrency)

    def _begin(self, line: FifoQueue | FairQueue, count: int) -> None:
        self._tasks += [supervise("turns", partial(self._work, line)) for _ in range(count)]

    async def _work(self, line: FifoQueue | FairQueue) -> None:
        while True:
            await self._up.wait()
            key = line.take()
            if key is None:
                line.some.clear()
                await line.some.wait()
                continue
            if key in self._running:
                # It changed lines while it waited in the other one.
                line.leave(key)
                self._again.add(key)
                continue
            self._running.add(key)
            try:
                await self._look(key)
            except Exception as error:  # noqa: BLE001 - whatever it is concerns one object, which keeps its place
                # Its words could quote a Secret.
                where = traceback.extract_tb(error.__traceback__)[-1]
                at = f"{where.filename}:{where.lineno}"
                log.error("turn_failed", key=str(key), error=type(error).__name__, at=at)
                self.retry(key)
            finally:
                self._running.discard(key)
                line.leave(key)
            if key in self._again:
                self._again.discard(key)
                self.look_at(key)
