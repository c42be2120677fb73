"""Pieces of concurrent work: what the first returns counts, and nothing goes on afterwards."""

from __future__ import annotations

import asyncio

import pytest

from services._kit.concurrency.tasks import Shared, all_of, first_of


class Waiting:
    """Waits for ever; `ended` is set once that is over."""

    def __init__(self) -> None:
        self.ended = False

    async def run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.ended = True


async def _gives(value: str) -> str:
    return value


async def _raises() -> None:
    raise KeyError("items")


async def test_the_first_result_counts_and_the_others_have_ended():
    other = Waiting()
    assert await first_of(other.run(), _gives("a")) == "a"
    assert other.ended
    assert await first_of(_gives("a"), _gives("b")) == "a"


async def test_an_error_beside_a_result_is_raised():
    with pytest.raises(KeyError):
        await first_of(_gives("a"), _raises())


async def test_nothing_within_the_time_is_an_error():
    other = Waiting()
    with pytest.raises(TimeoutError):
        await first_of(other.run(), seconds=0.01)
    assert other.ended


async def test_the_first_error_ends_all_parts():
    other = Waiting()
    with pytest.raises(KeyError):
        await all_of([other.run(), _raises()])
    assert other.ended


async def test_a_call_is_shared_and_outlives_a_cancelled_caller():
    calls, go = 0, asyncio.Event()

    async def call() -> int:
        nonlocal calls
        calls += 1
        await go.wait()
        return calls

    shared = Shared(call)
    first, second = asyncio.create_task(shared()), asyncio.create_task(shared())
    await asyncio.sleep(0)
    first.cancel()
    go.set()
    assert await second == 1
    assert await shared() == 2
