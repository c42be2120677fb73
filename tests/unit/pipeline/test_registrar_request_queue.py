"""Requests of one cluster wait in a line: bounded in number and size, and turned away when they waited too long."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from services.registrar import request_queue as lines
from services.registrar.request_queue import RequestQueue
from tests.support.waiting import eventually


class Counter:
    """A line with what came of its requests."""

    def __init__(self, *, together: bool = False) -> None:
        self.attended: list[list[str]] = []
        self.turned_away: list[str] = []
        self.pause = 0.0
        self.line = RequestQueue("counter", self._attend, self._turn_away, 3, 100, together=together)

    async def _attend(self, requests: Sequence[tuple[str, Msg]]) -> float:
        self.attended.append([bytes(message.data).decode() for _, message in requests])
        return self.pause

    async def _turn_away(self, _: str, message: Msg) -> None:
        self.turned_away.append(bytes(message.data).decode())

    def take(self, *texts: str) -> list[bool]:
        return [self.line.take("hello", Msg(Client(), data=text.encode())) for text in texts]

    async def until(self, count: int) -> None:
        await eventually(lambda: sum(map(len, self.attended)) + len(self.turned_away) == count)


async def test_requests_are_bounded_in_number_and_size() -> None:
    counter = Counter()
    assert counter.take("a", "b", "c", "d") == [True, True, True, False]
    await counter.until(3)
    assert counter.attended == [["a"], ["b"], ["c"]]
    assert counter.take("x" * 200, "y") == [True, False], "a large one passes alone"
    await counter.until(4)
    await counter.line.close()


async def test_requests_that_waited_too_long_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counter = Counter()
    monkeypatch.setattr(lines, "WAIT_AT_MOST", -1.0)
    counter.take("a", "b")
    await counter.until(2)
    assert counter.turned_away == ["a", "b"]
    monkeypatch.undo()
    assert counter.take("x" * 90, "d") == [True, True], "what was turned away takes no place"
    await counter.until(4)
    assert counter.attended == [["x" * 90], ["d"]]
    await counter.line.close()


async def test_the_next_request_waits_as_long_as_the_handler_says(monkeypatch: pytest.MonkeyPatch) -> None:
    counter, sleep = Counter(), asyncio.sleep
    paused, over = asyncio.Event(), asyncio.Event()

    async def pause(seconds: float) -> None:
        if seconds == counter.pause:
            paused.set()
            await over.wait()
        else:
            await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", pause)
    counter.pause = 7.0
    counter.take("a", "b")
    await paused.wait()
    assert counter.attended == [["a"]]
    counter.pause = 0.0
    over.set()
    await counter.until(2)
    await counter.line.close()


async def test_reports_are_handed_over_together() -> None:
    counter = Counter(together=True)
    counter.take("a", "b", "c")
    await counter.until(3)
    assert counter.attended == [["a", "b", "c"]]
    await counter.line.close()
