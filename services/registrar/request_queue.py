"""Queue of one cluster's requests: bounded in number, size and time, and paced by the delays its handler returns."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from nats.aio.msg import Msg

from services._kit.concurrency.supervision import supervise

Attend = Callable[[Sequence[tuple[str, Msg]]], Awaitable[float]]
"""Answers requests, each with its family; how many seconds to wait before the next are answered."""


Turn = Callable[[str, Msg], Awaitable[None]]
"""Takes a request that is not answered, with its family."""
WAIT_AT_MOST: Final = 2.0
"""Seconds: what waited longer is turned away, so that what an agent asked too much holds it up no longer."""


class RequestQueue:
    """A queue and the task that works it off; `together` hands over everything that waits at once.

    `turn_away` is called with every request that waited too long.
    """

    def __init__(
        self, name: str, attend: Attend, turn_away: Turn, requests: int, size: int, *, together: bool = False
    ) -> None:
        self._attend = attend
        self._turn_away = turn_away
        self._most, self._most_bytes = requests, size
        self._together = together
        self._waiting: deque[tuple[float, str, Msg]] = deque()
        self._bytes = 0
        self._some = asyncio.Event()
        self._task = supervise(name, self._run)

    def take(self, family: str, message: Msg) -> bool:
        """Put a request in line; false where too many wait, or too much of them."""
        if len(self._waiting) >= self._most or (self._waiting and self._bytes + len(message.data) > self._most_bytes):
            return False
        self._waiting.append((asyncio.get_running_loop().time(), family, message))
        self._bytes += len(message.data)
        self._some.set()
        return True

    async def close(self) -> None:
        """Stop answering."""
        await self._task.close()

    async def _run(self) -> None:
        while True:
            await self._some.wait()
            since = asyncio.get_running_loop().time() - WAIT_AT_MOST
            while self._waiting and self._waiting[0][0] < since:
                await self._turn_away(*self._pop())
            taken = [self._pop() for _ in range(len(self._waiting) if self._together else 1) if self._waiting]
            if not self._waiting:
                self._some.clear()
            if taken and (pause := await self._attend(taken)):
                await asyncio.sleep(pause)

    def _pop(self) -> tuple[str, Msg]:
        _, family, message = self._waiting.popleft()
        self._bytes -= len(message.data)
        return family, message
