"""Notices clients that are gone without a word: who is silent is asked, who does not answer is let go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

PING_SECONDS: Final = 30.0
"""A client from which nothing came for so long is asked; it has half of that to answer."""


async def until_silent(ask: Callable[[], Awaitable[None]], heard: Callable[[], int], full: Callable[[], bool]) -> None:
    """Return once a client is gone: what it sent, as `heard` counts it, does not rise although it was asked.

    While what was sent before waits for its reader (`full`), an answer cannot come; the question alone shows whether
    there is still a connection.
    """
    while True:
        before = heard()
        await asyncio.sleep(PING_SECONDS)
        if heard() != before:
            continue
        try:
            await ask()
        except ConnectionError:
            return
        await asyncio.sleep(PING_SECONDS / 2)
        if heard() == before and not full():
            return
