"""What one neighbour sends gets its turn and its share of the processor."""

from __future__ import annotations

import asyncio
from itertools import count, repeat
from time import perf_counter

import pytest

from services._kit.kube.answers import share as shares
from services._kit.kube.answers.share import SLICE_SECONDS, Share


def busy(seconds: float) -> None:
    until = perf_counter() + seconds
    while perf_counter() < until:
        pass


async def test_all_items_are_taken_in_order() -> None:
    taken: list[int] = []
    await Share().each(range(1000), taken.append)
    assert taken == list(range(1000))


async def test_what_fails_fails_and_leaves_the_turn_to_the_next() -> None:
    share = Share()

    def refuse(_: int) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await share.each([1], refuse)
    await share.each([1], lambda _: None)


async def test_others_get_the_loop_between_slices() -> None:
    turns = 0
    over = False

    async def other() -> None:
        nonlocal turns
        while not over:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    share = Share()
    work = 50 * SLICE_SECONDS
    await asyncio.gather(*(share.each(repeat(0.001, int(work * 100)), busy) for _ in range(10)))
    over = True
    await task
    assert turns >= work / SLICE_SECONDS / 2


async def test_over_time_a_neighbour_has_its_share_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "BURST_SECONDS", 0.1)
    share = Share(0.25)
    used = 0.0

    def work(_: int) -> None:
        nonlocal used
        began = perf_counter()
        busy(0.001)
        used += perf_counter() - began

    began = perf_counter()
    task = asyncio.create_task(share.each(count(), work))
    await asyncio.sleep(2.0)
    passed = perf_counter() - began
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert 0.1 < used < 0.4 * passed + 0.1


async def test_a_neighbour_that_sends_little_never_waits() -> None:
    share = Share(0.25)
    for _ in range(100):
        await share.each(range(10), lambda _: None)
    assert share.waited == 0
