"""What one neighbour sends gets its turn and its share of the processor."""

from __future__ import annotations

import asyncio
from itertools import count, pairwise, repeat

import pytest

from services._kit.kube.answers import share as shares
from services._kit.kube.answers.share import SLICE_SECONDS, Share
from tests.support.waiting import eventually


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


class Machine:
    """Time that passes by work and by pauses only."""

    def __init__(self) -> None:
        self.now = 0.0
        self.used = 0.0
        self.Lock = asyncio.Lock

    def work(self, _: int) -> None:
        """A millisecond of it."""
        self.now += 0.001
        self.used += 0.001

    async def sleep(self, seconds: float) -> None:
        """As asyncio's, which never takes no time at all."""
        self.now += seconds + 1e-6
        await asyncio.sleep(0)


async def test_others_get_the_loop_between_slices() -> None:
    machine = Machine()
    turns: list[float] = []
    over = False

    async def other() -> None:
        while not over:
            turns.append(machine.now)
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    share = Share(clock=lambda: machine.now)
    await asyncio.gather(*(share.each(repeat(0, 20), machine.work) for _ in range(10)))
    over = True
    await task
    assert machine.used == pytest.approx(0.2)
    assert max(later - earlier for earlier, later in pairwise([*turns, machine.now])) < 2 * SLICE_SECONDS


async def test_over_time_a_neighbour_has_its_share_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    monkeypatch.setattr(shares, "BURST_SECONDS", 0.1)
    monkeypatch.setattr(shares, "asyncio", machine)
    share = Share(0.25, clock=lambda: machine.now)
    task = asyncio.create_task(share.each(count(), machine.work))
    await eventually(lambda: machine.now > 20.0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert machine.used == pytest.approx(0.25 * machine.now, abs=0.2)


async def test_a_neighbour_that_sends_little_never_waits() -> None:
    machine = Machine()
    share = Share(0.25, clock=lambda: machine.now)
    for _ in range(100):
        await share.each(range(10), machine.work)
    assert share.waited == 0
