"""Closes what a test opened."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")


@asynccontextmanager
async def closing(opened: T) -> AsyncIterator[T]:
    """Something with a coroutine `close`, for the length of a block."""
    made: Any = opened
    try:
        yield opened
    finally:
        await made.close()
