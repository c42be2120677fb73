"""Waits for what a test expects, by looking again and again; fails with what was missing."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE = 60.0
"""Seconds until something has to be so; half of what pytest gives a test, so that a failure says what was missing."""
_LONGEST_PAUSE = 0.3
_LOOK_PAUSES = 0.005, 0.05
"""Between two looks that may cost something: the first pause, and the longest."""


async def eventually(look: Callable[[], Any], what: str = "the condition") -> Any:
    """The first true value that a function, or a coroutine function, answers."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    pause, longest = _LOOK_PAUSES
    while True:
        value = look()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        assert asyncio.get_running_loop().time() < deadline, f"{what} never came true"
        await asyncio.sleep(pause)
        pause = min(pause * 1.2, longest)


async def comes_to(what: str, look: Callable[[], Awaitable[object]], wanted: object = True) -> None:
    """Wait until `look`, which may be costly, answers `wanted`; fails with what was seen last."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    pause = 0.02
    while (seen := await look()) != wanted:
        assert asyncio.get_running_loop().time() < deadline, f"{what}: wanted {wanted!r}, last seen {seen!r}"
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)
