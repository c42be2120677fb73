"""Keys are handled once each, one call per key at a time, and again after a failure with growing pauses."""

from __future__ import annotations

import asyncio

import pytest

from services._kit.base.pacing import EXACT, Backoff
from services._kit.concurrency.keyed_work import Background, DelayedKeys, WorkQueue


class Handled:
    """Keys in the order of their calls; a call waits for `gate` and raises or returns what `outcomes` holds."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.outcomes: list[Exception | float | None] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def handle(self, key: str) -> float | None:
        self.keys.append(key)
        outcome = self.outcomes.pop(0) if self.outcomes else None
        await self.gate.wait()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def test_key_added_meanwhile_is_handled_once_more() -> None:
    handled = Handled()
    handled.gate.clear()
    queue = WorkQueue(handled.handle)
    for key in ("a", "b", "b"):
        queue.add(key)
    await asyncio.sleep(0)
    queue.add("a")
    assert (handled.keys, queue.pending) == (["a"], 3)
    handled.gate.set()
    await queue.drained()
    assert handled.keys == ["a", "b", "a"]


async def test_key_is_requeued_after_backoff_or_asked_seconds() -> None:
    handled = Handled()
    handled.outcomes = [ValueError("busy"), 0.001]
    queue = WorkQueue(handled.handle)
    queue.add("a")
    async with asyncio.timeout(60):
        await queue.drained()
    assert handled.keys == ["a", "a", "a"]


async def test_key_with_a_permanent_error_is_dropped() -> None:
    handled = Handled()
    handled.outcomes = [ValueError("broken")]
    queue = WorkQueue(handled.handle, retry=(OSError,))
    for key in ("a", "b"):
        queue.add(key)
    await queue.drained()
    assert handled.keys == ["a", "b"]


async def test_latest_work_of_a_key_replaces_pending_work() -> None:
    done: list[str] = []
    gate = asyncio.Event()
    background: Background[str] = Background(concurrency=1, retry=(OSError,))

    async def first() -> None:
        await gate.wait()
        raise OSError

    async def work(text: str) -> None:
        done.append(text)

    background.submit("a", first)
    await asyncio.sleep(0)
    for text in ("old", "new"):
        background.submit("a", lambda text=text: work(text))
    background.submit("b", lambda: work("forgotten"))
    background.forget("b")
    gate.set()
    await background.drained()
    assert done == ["new"], "a failure does not bring back what was replaced"


async def test_a_closed_queue_drops_what_waits() -> None:
    handled = Handled()
    handled.gate.clear()
    queue = WorkQueue(handled.handle)
    for key in ("a", "b"):
        queue.add(key)
    await asyncio.sleep(0)
    await queue.close()
    assert (handled.keys, queue.pending) == (["a"], 0)


async def test_failures_of_a_key_count_until_they_are_forgotten() -> None:
    due: asyncio.Queue[str] = asyncio.Queue()
    delayed: DelayedKeys[str] = DelayedKeys(due.put_nowait, Backoff(1.0, 5.0, EXACT))
    assert [delayed.failed("a") for _ in range(4)] == [1.0, 2.0, 4.0, 5.0]
    assert delayed.failed("a", at_most=3.0) == 3.0
    delayed.forget("a")
    assert (delayed.failed("a"), delayed.failures("a")) == (1.0, 1)
    delayed.after("a", 3600.0)
    delayed.cancel("a")
    delayed.after("a", 0.0)
    delayed.after("a", 3600.0)
    assert (await due.get(), len(delayed)) == ("a", 0)


@pytest.mark.parametrize("failures", [1, 3, 5000])
def test_pauses_are_spread_around_the_doubled_first_one(failures: int) -> None:
    pause = Backoff(0.1, 30.0, (0.75, 1.25)).pause(failures)
    assert min(0.1 * 2 ** min(failures - 1, 20), 30.0) * 0.75 <= pause <= 30.0 * 1.25
