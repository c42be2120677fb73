"""Requests of one cluster that wait: a bounded number and size of them, answered at the pace that the answers say."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from nats.aio.msg import Msg

from services._kit.supervision import supervise

Attend = Callable[[Sequence[tuple[str, Msg]]], Awaitable[float]]
"""Answers requests, each with its family; how many seconds to wait before the next are answered."""


class Line:
    """A queue and the task that works it off; `together` hands over everything that waits at once."""

    def __init__(self, name: str, attend: Attend, requests: int, size: int, *, together: bool = False) -> None:
        self._attend = attend
        self._most, self._most_bytes = requests, size
        self._together = together
        self._waiting: deque[tuple[str, Msg]] = deque()
        self._bytes = 0
        self._some = asyncio.Event()
        self._task = supervise(name, self._run)

    def take(self, family: str, message: Msg) -> bool:
        """Put a request in line; false where too many wait, or too much of them."""
        if len(self._waiting) >= self._most or (self._waiting and self._bytes + len(message.data) > self._most_bytes):
            return False
        self._waiting.append((family, message))
        self._bytes += len(message.data)
        self._some.set()
        return True

    async def close(self) -> None:
        """Stop answering."""
        await self._task.close()

    async def _run(self) -> None:
        while True:
            await self._some.wait()
            count = len(self._waiting) if self._together else 1
            taken = [self._waiting.popleft() for _ in range(count)]
            self._bytes -= sum(len(message.data) for _, message in taken)
            if not self._waiting:
                self._some.clear()
            pause = await self._attend(taken)
            if pause:
                await asyncio.sleep(pause)
