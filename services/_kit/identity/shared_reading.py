"""One reading serves all that wait for it, and all that has begun before it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from services._kit.kube.answers.exchange import bare
from services._kit.kube.client import Unreachable


class SharedReading:
    """Shares the readings of one endpoint; `read` raises Unreachable, or one of its kinds, where it fails."""

    def __init__(self, read: Callable[[], Awaitable[None]]) -> None:
        self._read = read
        self._reading = asyncio.Lock()
        self._asked = self._answered = 0
        self._problem: Unreachable | None = None

    def moment(self) -> int:
        """A number for the present moment, at least 1: a reading that begins after it has seen what was before it."""
        self._asked += 1
        return self._asked

    async def since(self, moment: int = 0) -> None:
        """Return once a reading that began after a moment (0: after now) has ended well.

        Raises what the reading raises.
        """
        if 0 < moment <= self._answered and self._problem is None:
            return
        mine = self.moment()
        async with self._reading:
            if self._answered < mine:
                covered = self._asked
                self._problem = None
                try:
                    await self._read()
                except Unreachable as error:
                    self._problem = bare(error)
                self._answered = covered
            if self._problem is not None:
                raise type(self._problem)(str(self._problem)) from self._problem.__cause__ or self._problem
