"""Objects of a lane have their turns: one look each at a time, and those that wait for scripts keep nobody waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from schemas.keys import ObjectKey
from services._kit.delivery.lane_parts import LaneSettings
from services._kit.delivery.work_scheduler import FairQueue, WorkScheduler

A, B, C = (ObjectKey("", "configmaps", "default", name) for name in "abc")
SLOW = [ObjectKey("example.io", "widgets", "default", f"w{number}") for number in range(40)]


class Looks:
    """Looks that last until they are let go; slow objects are those of another group."""

    def __init__(self) -> None:
        self.under_way: list[ObjectKey] = []
        self.most: dict[ObjectKey, int] = {}
        self.done: list[ObjectKey] = []
        self.held: set[ObjectKey] = set()
        self._moved = asyncio.Condition()

    async def look(self, key: ObjectKey) -> None:
        async with self._moved:
            self.under_way.append(key)
            self.most[key] = max(self.most.get(key, 0), self.under_way.count(key))
            self._moved.notify_all()
            await self._moved.wait_for(lambda: key not in self.held)
            self.under_way.remove(key)
            self.done.append(key)
            self._moved.notify_all()

    async def release(self, *keys: ObjectKey) -> None:
        async with self._moved:
            self.held.difference_update(keys)
            self._moved.notify_all()

    async def started(self, key: ObjectKey) -> None:
        await self.until(lambda: key in self.under_way)

    async def ended(self, key: ObjectKey, times: int) -> None:
        await self.until(lambda: self.done.count(key) == times)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60), self._moved:
            await self._moved.wait_for(condition)


@pytest.fixture
def looks() -> Looks:
    return Looks()


@pytest.fixture
async def turns(looks: Looks) -> AsyncIterator[WorkScheduler]:
    up = asyncio.Event()
    up.set()
    settings = LaneSettings(concurrency=4, scripted_concurrency=2, backoff=0.001, longest_backoff=0.002)
    made = WorkScheduler(looks.look, lambda key: key.group == "example.io", up, settings)
    made.start()
    yield made
    await made.close()


async def test_many_changes_of_one_object_are_two_turns(turns: WorkScheduler, looks: Looks) -> None:
    for key in (A, SLOW[0]):
        looks.held.add(key)
        turns.look_at(key)
        await looks.started(key)
        for _ in range(100):
            turns.look_at(key)
        await looks.release(key)
        await looks.ended(key, times=2)
        turns.look_at(B)
        await looks.until(lambda: B in looks.done)
        assert (looks.done.count(key), looks.most[key]) == (2, 1)
        looks.done.clear()


async def test_objects_that_wait_for_scripts_keep_no_others_waiting(turns: WorkScheduler, looks: Looks) -> None:
    looks.held.update(SLOW)
    for key in SLOW:
        turns.look_at(key)
    await looks.until(lambda: len(looks.under_way) == 2)
    for key in (A, B, C):
        turns.look_at(key)
    await looks.until(lambda: {A, B, C} <= set(looks.done))
    assert looks.under_way == SLOW[:2], "no more of them than have workers"
    assert turns.backlog == len(SLOW)
    await looks.release(*SLOW)
    await looks.until(lambda: set(SLOW) <= set(looks.done))


async def test_kinds_that_wait_for_scripts_leave_each_other_places(looks: Looks) -> None:
    up = asyncio.Event()
    up.set()
    made = WorkScheduler(looks.look, lambda _: True, up, LaneSettings(scripted_concurrency=6))
    made.start()
    gadgets = [ObjectKey("example.io", "gadgets", "default", f"g{number}") for number in range(10)]
    try:
        looks.held.update(SLOW)
        for key in SLOW:
            made.look_at(key)
        await looks.until(lambda: len(looks.under_way) == 4)
        for key in gadgets:
            made.look_at(key)
        await looks.until(lambda: set(gadgets) <= set(looks.done))
        assert looks.under_way == SLOW[:4]
        await looks.release(*SLOW)
        await looks.until(lambda: set(SLOW) <= set(looks.done))
    finally:
        await made.close()


def test_kinds_take_turns_and_a_single_place_serves_all() -> None:
    line = FairQueue(1)
    gadget = ObjectKey("example.io", "gadgets", "default", "g")
    for key in (*SLOW[:3], gadget):
        line.add(key)
    order = []
    while len(line):
        key = line.take()
        assert key is not None
        order.append(key)
        line.leave(key)
    assert order == [SLOW[0], gadget, SLOW[1], SLOW[2]]


async def test_nothing_is_taken_in_line_after_the_end(turns: WorkScheduler, looks: Looks) -> None:
    await turns.close()
    for key in (A, SLOW[0]):
        turns.look_at(key)
    assert turns.backlog == 0


async def test_slow_object_has_one_turn_at_a_time(looks: Looks) -> None:
    slow: set[ObjectKey] = set()
    up = asyncio.Event()
    made = WorkScheduler(looks.look, slow.__contains__, up, LaneSettings(concurrency=2, scripted_concurrency=2))
    made.start()
    try:
        looks.held.add(A)
        made.look_at(A)
        slow.add(A)
        made.look_at(A)
        assert made.backlog == 2
        up.set()
        await looks.until(lambda: A in looks.under_way)
        made.look_at(B)
        await looks.until(lambda: B in looks.done)
        await looks.release(A)
        await looks.until(lambda: looks.done.count(A) == 2)
        assert looks.most[A] == 1
    finally:
        await made.close()


async def test_backoff_grows_with_failures_until_a_success(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("services._kit.base.pacing.random.uniform", lambda least, most: 1.0)
    made = WorkScheduler(looks.look, lambda _: False, asyncio.Event(), LaneSettings(backoff=0.1, longest_backoff=0.5))

    def fail() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(asyncio.get_running_loop(), "call_later", lambda pause, *_: pauses.append(pause))
            made.retry(A)
        # Its turn came.
        made._delayed.cancel(A)

    for _ in range(5):
        fail()
    made.forgive(A)
    fail()
    assert pauses == [0.1, 0.2, 0.4, 0.5, 0.5, 0.1]
