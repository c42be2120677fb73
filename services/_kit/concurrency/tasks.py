"""Structured pieces of concurrent work: each ends before the call that began it returns.

What outlives a call belongs to a Supervisor instead (supervision.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until they have ended, however they do."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def set_within(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait until an event is set, at most for so many seconds; whether it is."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


@overload
async def first_of(
    first: Coroutine[Any, Any, T], second: Coroutine[Any, Any, U], /, *, seconds: float | None = None
) -> T | U: ...
@overload
async def first_of(
    first: Coroutine[Any, Any, T],
    second: Coroutine[Any, Any, U],
    third: Coroutine[Any, Any, V],
    /,
    *,
    seconds: float | None = None,
) -> T | U | V: ...
@overload
async def first_of(*parts: Coroutine[Any, Any, T], seconds: float | None = None) -> T: ...
async def first_of(*parts: Coroutine[Any, Any, Any], seconds: float | None = None) -> Any:
    """Run several coroutines until one ends, cancel the others, and return what the first returned.

    Of those that end at the same moment the earlier argument counts, unless another raised. Raises what the first
    raised, and TimeoutError when none ended within `seconds`.
    """
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        results = [task.result() for task in tasks if task.done()]
        if not results:
            raise TimeoutError(f"nothing within {seconds:g} s")
        return results[0]
    finally:
        await end(*tasks)


async def all_of(parts: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all parts until all have ended; the first that raises ends the others, and its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(part)
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None


def child(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task of the call under way, which takes its result or its error, and ends it before it returns."""
    return asyncio.create_task(work)


def part_of(group: asyncio.TaskGroup, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task of a group, which waits for it and ends with its error."""
    return group.create_task(work)


async def first_end(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Wait until one of several tasks ends; raises what it raised."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


class Shared(Generic[T]):
    """One call at a time, shared by concurrent callers; a caller that is cancelled does not end it for others."""

    def __init__(self, call: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._call = call
        self._task: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        """The result of the call under way, or of a new one; raises what it raises."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._call())
            self._task.add_done_callback(_seen)
        return await asyncio.shield(self._task)

    @property
    def running(self) -> bool:
        """Whether a call is under way."""
        return self._task is not None and not self._task.done()

    def cancel(self) -> None:
        """End the call under way; its callers are cancelled."""
        if self._task is not None:
            self._task.cancel()


def _seen(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of an abandoned task, so that the loop does not report it."""
    if not task.cancelled():
        task.exception()
