"""Seats are shared fairly between flows, and queues are bounded; levels follow from who asks for what."""

from __future__ import annotations

import asyncio

import pytest

from services.apiserver.core.request import resource_path
from services.apiserver.core.request_context import Identity
from services.apiserver.core.status_errors import ApiError
from services.apiserver.flow.fair_seats import FULL, LATE, FairSeats, Refused
from services.apiserver.flow.priority_levels import classified, seats_of_body, seats_of_list
from services.apiserver.flow.request_seats import RequestSeats


def seats(total: int = 4, share: int = 2, queue: int = 3, patience: float = 60.0) -> FairSeats:
    return FairSeats("test", total, share, queue, patience)


async def settled() -> None:
    """Let all tasks run until each waits."""
    for _ in range(5):
        await asyncio.sleep(0)


class Order:
    """Starts waits and records in which order they are seated."""

    def __init__(self, level: FairSeats) -> None:
        self.level = level
        self.seated: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def ask(self, flow: str, width: int = 1) -> None:
        async def wait() -> None:
            await self.level.wait(flow, width)
            self.seated.append(flow)

        self.tasks.append(asyncio.create_task(wait()))
        await settled()

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def test_one_flow_has_no_more_than_its_share() -> None:
    level = seats()
    assert [level.take("a", 1), level.take("a", 1), level.take("a", 1)] == [True, True, False]
    assert level.take("b", 2)
    assert not level.take("c", 1)
    level.leave("a", 1)
    assert level.take("c", 1)


async def test_waiting_flows_are_seated_in_turn() -> None:
    level = seats(total=2, share=2)
    assert level.take("x", 2)
    order = Order(level)
    for flow in ("a", "a", "a", "b", "c"):
        await order.ask(flow)
    for _ in range(3):
        level.leave("x" if not order.seated else order.seated[-1], 1)
        await settled()
    assert order.seated == ["a", "b", "c"]
    await order.end()


async def test_a_full_flow_does_not_hold_up_another() -> None:
    level = seats(total=4, share=2)
    assert level.take("a", 2)
    order = Order(level)
    await order.ask("a")
    assert level.take("b", 1)
    await order.ask("c")
    assert order.seated == ["c"]
    await order.end()


async def test_a_wide_request_is_not_overtaken_for_ever() -> None:
    level = seats(total=4, share=4)
    assert level.take("a", 3)
    order = Order(level)
    await order.ask("wide", 4)
    assert not level.take("b", 1)
    level.leave("a", 3)
    await settled()
    assert order.seated == ["wide"]
    await order.end()


async def test_a_full_queue_refuses_at_once() -> None:
    level = seats(total=1, share=1, queue=2)
    assert level.take("x", 1)
    order = Order(level)
    for _ in range(2):
        await order.ask("a")
    with pytest.raises(Refused) as refused:
        await level.wait("a", 1)
    assert refused.value.reason == FULL
    assert level.waiting == 2
    await order.end()
    assert level.waiting == 0


async def test_waiting_ends_after_the_patience() -> None:
    level = seats(total=1, share=1, patience=0.01)
    assert level.take("x", 1)
    with pytest.raises(Refused) as refused:
        await level.wait("a", 1)
    assert refused.value.reason == LATE
    level.leave("x", 1)
    assert level.take("a", 1)


async def test_seats_of_the_cancelled_are_given_back() -> None:
    level = seats(total=1, share=1)
    assert level.take("x", 1)
    waiting = asyncio.create_task(level.wait("a", 1))
    await settled()
    level.leave("x", 1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert (level.taken, level.waiting) == (0, 0)
    assert level.take("b", 1)


async def test_flows_without_requests_are_forgotten() -> None:
    level = seats()
    for number in range(100):
        assert level.take(f"u{number}", 1)
        level.leave(f"u{number}", 1)
    assert not level._flows


MASTER = Identity("admin", "", ("system:masters",))
PLAIN = ("system:authenticated",)


@pytest.mark.parametrize(
    ("user", "path", "expected"),
    [
        (MASTER, "api/v1/pods", ("", "")),
        (Identity("jane", "", PLAIN), "api/v1/pods", ("global-default", "jane")),
        (Identity("jane", "", PLAIN), "healthz", ("", "")),
        (Identity("jane", "", PLAIN), "openapi/v2", ("global-default", "jane")),
        (Identity("fleetlog:detector", "", ("fleetlog",)), "api/v1/pods", ("system", "fleetlog:detector")),
        (Identity("system:anonymous"), "api/v1/pods", ("catch-all", "system:anonymous")),
        (Identity("system:anonymous"), "readyz", ("", "")),
        (Identity("system:node:n1", "", ("system:nodes",)), "api/v1/pods", ("system", "system:node:n1")),
        (
            Identity("system:kube-scheduler", "", PLAIN),
            "apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler",
            ("leader-election", "system:kube-scheduler"),
        ),
        (
            Identity("jane", "", PLAIN),
            "apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler",
            ("global-default", "jane"),
        ),
        (
            Identity("system:serviceaccount:team:a", "", PLAIN),
            "api/v1/pods",
            ("workload-low", "system:serviceaccount:team"),
        ),
        (
            Identity("system:serviceaccount:kube-system:gc", "", PLAIN),
            "api/v1/pods",
            ("system", "system:serviceaccount:kube-system"),
        ),
    ],
)
def test_levels_follow_from_users_and_paths(user: Identity, path: str, expected: tuple[str, str]) -> None:
    parts = path.split("/")
    assert classified(user, resource_path(parts), parts) == expected


def test_wide_requests_take_more_seats() -> None:
    assert [seats_of_list(n) for n in (0, 199, 1000, 10**6)] == [1, 1, 6, 50]
    assert [seats_of_body(n) for n in (0, 1000, 1 << 20, 1 << 30)] == [1, 1, 9, 50]


def test_open_watches_of_a_user_are_bounded() -> None:
    requests = RequestSeats(100, 10, 1.0, 3)
    for _ in range(3):
        requests.watch_begins("global-default", "jane")
    with pytest.raises(ApiError) as refused:
        requests.watch_begins("global-default", "jane")
    assert (refused.value.code, refused.value.headers) == (429, {"Retry-After": "1"})
    requests.watch_begins("global-default", "john")
    requests.watch_begins("", "jane")
    for _ in range(2):
        requests.watch_ends("jane")
    requests.watch_begins("global-default", "jane")
