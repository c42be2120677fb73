"""Records of requests on their way from an agent to the hub: in order, again after a refusal, bounded."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from schemas.agent import MAX_RECORDS, Reported, ReportedAnswer
from schemas.events.request import MemberRequested
from services._kit.base.log_errors import Ambiguous
from services._kit.base.pacing import Backoff
from services._kit.concurrency.tasks import end
from services._kit.proxying.request_journal import BURST
from services.agent.tunnel import record_sender
from services.agent.tunnel.record_sender import RecordSender
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually


class FakeHub:
    """Keeps requests; answers with a problem, or not at all, as often as a test says."""

    def __init__(self) -> None:
        self.asked: list[Reported] = []
        self.problems: list[str | Exception] = []

    async def wait_connected(self) -> None:
        """It is."""

    async def request(self, subject: str, data: bytes, timeout: float) -> Any:
        """Take what was reported."""
        assert subject == "reports.m1"
        self.asked.append(msgspec.json.decode(data, type=Reported))
        problem = self.problems.pop(0) if self.problems else ""
        if isinstance(problem, Exception):
            raise problem
        return SimpleNamespace(data=msgspec.json.encode(ReportedAnswer(problem=problem)))


def told(number: int) -> MemberRequested:
    """The record of one of many requests."""
    return MemberRequested(cluster="m1", side="agent", by="a", user="anna", method="GET", path=f"/{number}")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    """A hub, and no pauses."""
    monkeypatch.setattr(record_sender, "GATHERED_SECONDS", 0.0)
    monkeypatch.setattr(record_sender, "BACKOFF", Backoff(0.001, 0.001))
    return FakeHub()


async def test_records_are_sent_again_until_the_hub_has_them(hub: FakeHub) -> None:
    hub.problems = ["another session", Ambiguous("no answer"), ""]
    sender = RecordSender(hub, "m1", ManualClock(), lambda: "s")  # type: ignore[arg-type]  # what it needs of a hub
    task = asyncio.create_task(sender.run())
    for number in range(MAX_RECORDS + 50):
        sender.take(told(number))
    await eventually(lambda: sender.sent == MAX_RECORDS + 50, "all records sent")
    await end(task)
    *refused, first, second = hub.asked
    assert [len(request.requests) for request in (*refused, first, second)] == [MAX_RECORDS] * 3 + [50]
    paths = [event.path for request in (first, second) for event in request.requests]
    assert paths == [f"/{number}" for number in range(MAX_RECORDS + 50)]
    assert {request.session for request in hub.asked} == {"s"}


async def test_a_flood_of_records_is_counted(hub: FakeHub) -> None:
    clock = ManualClock()
    sender = RecordSender(hub, "m1", clock, lambda: "s")  # type: ignore[arg-type]  # what it needs of a hub
    for number in range(int(BURST) + 101):
        sender.take(told(number))
    assert sender.lost == 100
    clock.advance(10.0)
    sender.take(told(0))
    task = asyncio.create_task(sender.run())
    await eventually(lambda: sender.sent == BURST + 2, "all records sent")
    await end(task)
    assert hub.asked[-1].requests[-1].missed == 100
