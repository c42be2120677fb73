"""Runs the parts of something that ends when its first part does."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until they have ended, however they do."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def first_end(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Wait until one of them ends; raises what it raised."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


async def until_first_ends(parts: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all parts until one ends or raises, then cancel the others; raises what the first raised."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        await first_end(tasks)
    finally:
        await end(*tasks)
