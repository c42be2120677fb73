"""Stops an HTTP server without losing what is under way: aiohttp drops the bytes of bodies once its clean-up begins."""

from __future__ import annotations

import asyncio
from types import TracebackType

from aiohttp.web_runner import BaseRunner, ServerRunner


class Underway:
    """Counts the requests that are being answered; a context manager around each, or `begin` and `end`."""

    def __init__(self) -> None:
        self.count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def begin(self) -> None:
        """A request has come."""
        self.count += 1
        if self.count == 1:
            self._idle.clear()

    def end(self) -> None:
        """Its answer is there."""
        self.count -= 1
        if not self.count:
            self._idle.set()

    def __enter__(self) -> None:
        self.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    async def ended(self, seconds: float) -> bool:
        """Wait until nothing is under way; False where that takes longer."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True


async def stop(runner: BaseRunner | ServerRunner, underway: Underway, seconds: float) -> None:
    """Take no more connections, wait for what is under way, its bodies included, and close all connections."""
    for site in list(runner.sites):
        await site.stop()
    await underway.ended(seconds)
    await runner.cleanup()
