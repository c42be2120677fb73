"""Ends requests that take too long: one look at all of them now and then, instead of a timer for each."""

from __future__ import annotations

import asyncio
from typing import Final

_LOOK_SECONDS: Final = 0.5
"""By how much a request may exceed its time."""


class RequestDeadlines:
    """The tasks of requests under way and their ends; tasks that are late are cancelled."""

    def __init__(self) -> None:
        self._ends: dict[asyncio.Task[object], float] = {}
        self._late: set[asyncio.Task[object]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, seconds: float, loop: asyncio.AbstractEventLoop) -> asyncio.Task[object]:
        """Give the present task so many seconds; it has to call `end`. `loop` is the running one."""
        task = asyncio.current_task(loop)
        assert task is not None
        self._ends[task] = loop.time() + seconds
        if self._timer is None:
            self._timer = loop.call_later(_LOOK_SECONDS, self._look)
        return task

    def late(self, task: asyncio.Task[object]) -> bool:
        """Whether a task was cancelled because its time was over."""
        return task in self._late

    def end(self, task: asyncio.Task[object]) -> None:
        """The work is done."""
        if self._ends.pop(task, None) is None:
            self._late.discard(task)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for task in [task for task, end in self._ends.items() if end <= now]:
            del self._ends[task]
            self._late.add(task)
            task.cancel()
        self._timer = loop.call_later(_LOOK_SECONDS, self._look) if self._ends else None
