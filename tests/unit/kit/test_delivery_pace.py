"""A cluster gets as many requests at once as it takes: fewer when it complains, is silent or slow, else more."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest

from services._kit.delivery.concurrency_limiter import SLOW_SECONDS, ConcurrencyLimiter, RequestOutcome, Window
from services._kit.kube.api import ApiError, NotLeading, Unreachable


def round_of(window: Window, outcome: RequestOutcome, now: float, taken: float = 0.01) -> float:
    """As many requests as may be, all begun at once and ended together; returns when they ended."""
    began = 0
    while window.may_begin(now):
        window.begin()
        began += 1
    for _ in range(began):
        window.ended(outcome, now, now + taken)
    return now + taken


def test_one_round_of_complaints_halves_once_and_never_below_one() -> None:
    window = Window(16)
    now = round_of(window, RequestOutcome.PUSHED_BACK, 0.0)
    assert window.limit == 8
    for _ in range(9):
        now = round_of(window, RequestOutcome.PUSHED_BACK, now)
    assert window.limit == 1
    assert window.may_begin(now)


def test_silence_counts_like_a_complaint() -> None:
    window = Window(16)
    round_of(window, RequestOutcome.SILENT, 0.0)
    assert window.limit == 8


def test_good_rounds_add_about_one_each_up_to_the_most() -> None:
    window = Window(8)
    now = round_of(window, RequestOutcome.PUSHED_BACK, 0.0)
    limits = []
    for _ in range(12):
        now = round_of(window, RequestOutcome.ANSWERED, now)
        limits.append(window.limit)
    assert limits == sorted(limits)
    assert max(b - a for a, b in itertools.pairwise(limits)) <= 1.001
    assert limits[-1] == 8


def test_room_that_is_not_used_does_not_grow() -> None:
    window = Window(8)
    now = round_of(window, RequestOutcome.PUSHED_BACK, 0.0)
    for step in range(100):
        window.begin()
        window.ended(RequestOutcome.ANSWERED, now + step, now + step + 0.01)
    assert window.limit == 4


def test_answers_much_slower_than_the_best_reduce() -> None:
    window = Window(10)
    now = round_of(window, RequestOutcome.ANSWERED, 0.0, taken=0.05)
    now = round_of(window, RequestOutcome.ANSWERED, now, taken=SLOW_SECONDS * 2)
    assert window.limit == 8
    round_of(window, RequestOutcome.ANSWERED, now, taken=SLOW_SECONDS * 2)
    assert window.limit == pytest.approx(6.4)


def test_slowness_alone_leaves_a_quarter_and_complaints_do_not() -> None:
    window = Window(16)
    now = round_of(window, RequestOutcome.ANSWERED, 0.0, taken=0.05)
    for _ in range(20):
        now = round_of(window, RequestOutcome.ANSWERED, now, taken=SLOW_SECONDS * 2)
        window.begin()
        window.ended(RequestOutcome.ANSWERED, now, now + 0.05)
    assert window.limit == 4
    now = round_of(window, RequestOutcome.PUSHED_BACK, now)
    assert window.limit == 2
    round_of(window, RequestOutcome.ANSWERED, now, taken=SLOW_SECONDS * 2)
    assert window.limit == 2


def test_a_cluster_that_is_far_away_is_not_slow() -> None:
    window, now = Window(10), 0.0
    for _ in range(5):
        now = round_of(window, RequestOutcome.ANSWERED, now, taken=3.0)
    assert window.limit == 10


def test_a_time_the_cluster_names_is_kept_within_reason() -> None:
    window = Window(4, longest_pause=30.0)
    window.begin()
    window.ended(RequestOutcome.PUSHED_BACK, 0.0, 1.0, retry_after=5.0)
    assert not window.may_begin(5.9)
    assert window.may_begin(6.0)
    window.begin()
    window.ended(RequestOutcome.PUSHED_BACK, 6.0, 7.0, retry_after=86400.0)
    assert not window.may_begin(36.9)
    assert window.may_begin(37.0)


class Cluster:
    """Answers when told to; counts what is under way."""

    def __init__(self) -> None:
        self.open: list[asyncio.Future[int]] = []
        self.most = 0

    async def ask(self) -> int:
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.open.append(answer)
        self.most = max(self.most, len(self.open))
        try:
            return await answer
        finally:
            self.open.remove(answer)

    async def answers(self, answer: int | Exception) -> None:
        """Answer all that is under way alike."""
        for asked in list(self.open):
            if isinstance(answer, Exception):
                asked.set_exception(answer)
            else:
                asked.set_result(answer)
        await settled()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


Sent = tuple[ConcurrencyLimiter, Cluster, list[asyncio.Task[int]]]


async def sending(count: int, at_once: int) -> Sent:
    """Requests of which only some may be under way at once."""
    pace, cluster = ConcurrencyLimiter(at_once), Cluster()
    tasks = [asyncio.create_task(pace.send(cluster.ask)) for _ in range(count)]
    await settled()
    return pace, cluster, tasks


async def test_no_more_are_sent_than_the_limit_and_all_get_their_turn() -> None:
    _, cluster, tasks = await sending(10, at_once=3)
    assert len(cluster.open) == 3
    while not all(task.done() for task in tasks):
        await cluster.answers(1)
    assert cluster.most == 3
    assert [task.result() for task in tasks] == [1] * 10


async def test_complaints_lower_what_is_sent_and_are_passed_on() -> None:
    pace, cluster, tasks = await sending(8, at_once=4)
    await cluster.answers(ApiError(429, "TooManyRequests", "slow down"))
    assert len(cluster.open) == 2
    await cluster.answers(ApiError(422, "Invalid", "the object is wrong"))
    assert len(cluster.open) == 2, "a refusal of an object says nothing about load"
    await cluster.answers(Unreachable("no answer"))
    await asyncio.gather(*tasks, return_exceptions=True)
    assert pace.window.under_way == 0
    assert pace.window.limit < 2


async def test_a_pause_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    timers: list[tuple[float, Callable[[], None]]] = []
    now = loop.time()
    pace, cluster = ConcurrencyLimiter(2), Cluster()
    first = asyncio.create_task(pace.send(cluster.ask))
    await settled()
    cluster.open[0].set_exception(ApiError(503, "ServiceUnavailable", "later", retry_after=20.0))
    await settled()
    assert isinstance(first.exception(), ApiError)

    def remember(delay: float, call: Callable[[], None]) -> asyncio.Handle:
        timers.append((delay, call))
        return loop.call_soon(int)

    with monkeypatch.context() as patched:
        patched.setattr(loop, "call_later", remember)
        second = asyncio.create_task(pace.send(cluster.ask))
        await settled()
        assert cluster.open == []
        assert timers[0][0] > 10
        patched.setattr(loop, "time", lambda: now + 60)
        timers[0][1]()
        await settled()
        cluster.open[0].set_result(5)
        await settled()
    assert await second == 5


async def test_who_gives_up_waiting_leaves_its_turn_to_the_next() -> None:
    pace, cluster, tasks = await sending(3, at_once=1)
    cluster.open[0].set_result(1)
    tasks[1].cancel()
    await settled()
    assert len(cluster.open) == 1
    cluster.open[0].set_result(3)
    assert await tasks[2] == 3
    assert tasks[1].cancelled()
    assert pace.window.under_way == 0


async def test_a_turn_that_comes_with_the_cancellation_is_handed_on() -> None:
    pace, cluster, tasks = await sending(3, at_once=1)
    cluster.open[0].set_result(1)
    assert await tasks[0] == 1
    tasks[1].cancel()
    await settled()
    cluster.open[0].set_result(3)
    assert await tasks[2] == 3
    assert pace.window.under_way == 0


async def test_what_was_not_sent_says_nothing_about_the_cluster() -> None:
    pace = ConcurrencyLimiter(4)

    async def unsent() -> None:
        raise NotLeading("another instance leads")

    with pytest.raises(NotLeading):
        await pace.send(unsent)
    assert pace.window.limit == 4
