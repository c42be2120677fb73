"""A report on an object that its cluster has not looked at yet waits a moment for the next one; others go at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest
from msgspec import UNSET, Raw, UnsetType

from schemas.events.observed import WorkObserved
from schemas.keys import ObjectKey
from services._kit.delivery import reports as module
from services._kit.delivery.reports import Reports, about_to_change

WEB = ObjectKey("apps", "deployments", "default", "web")
OTHER = ObjectKey("apps", "deployments", "default", "other")


class Sent:
    """Keeps what was published, and tells when something was."""

    def __init__(self) -> None:
        self.batches: list[list[WorkObserved]] = []
        self._news = asyncio.Event()

    async def publish(self, events: Sequence[WorkObserved]) -> bool:
        self.batches.append(list(events))
        self._news.set()
        return True

    async def some(self, number: int) -> list[WorkObserved]:
        async with asyncio.timeout(60):
            while len(found := [event for batch in self.batches for event in batch]) < number:
                self._news.clear()
                await self._news.wait()
        return found


def started(**limits: float) -> tuple[Sent, Reports]:
    sent = Sent()
    reports = Reports(sent, **limits)
    reports.start()
    return sent, reports


def report(key: ObjectKey = WEB, *, operation: str = "", looked: bool | None = None, at: float = 1.0) -> WorkObserved:
    """`looked`: whether the cluster has looked at the object; None for one without a status."""
    status: Raw | UnsetType = UNSET
    if looked is not None:
        status = Raw(msgspec.json.encode({"generation": 1, "observedGeneration": int(looked)}))
    return WorkObserved(
        cluster="m", key=key, uid="u", work_seq=1, digest="d", at=at, applied=True, operation=operation, status=status
    )


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held stays held for as long as the test lasts."""
    monkeypatch.setattr(module, "HELD_SECONDS", 3600.0)


async def test_write_is_reported_together_with_its_result(never: None) -> None:
    sent, reports = started()
    reports.report(report(operation="created", looked=False))
    reports.report(report(OTHER, operation="created"))
    assert [event.key for event in await sent.some(1)] == [OTHER]
    reports.report(report(looked=True, at=2.0))
    last = (await sent.some(2))[-1]
    assert (last.key, last.operation, last.at) == (WEB, "created", 2.0)
    await reports.close()


async def test_held_report_keeps_its_operation_until_observed(never: None) -> None:
    sent, reports = started()
    reports.report(report(operation="created", looked=False))
    reports.report(report(looked=False, at=2.0))
    reports.report(report(OTHER))
    assert [event.key for event in await sent.some(1)] == [OTHER]
    held = reports.latest("m", WEB)
    assert held is not None
    assert (held.operation, held.at, reports.backlog) == ("created", 2.0, 1)
    await reports.close()
    assert reports.backlog == 0


async def test_cluster_without_observation_is_reported_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_SECONDS", 0.001)
    sent, reports = started()
    reports.report(report(operation="updated", looked=False))
    assert [event.operation for event in await sent.some(1)] == ["updated"]
    await reports.close()


@pytest.mark.parametrize(
    ("event", "held"),
    [
        (report(operation="created", looked=False), True),
        (report(operation="created", looked=True), False),
        (report(looked=False), False),
        (report(operation="created"), False),
        (msgspec.structs.replace(report(operation="created", looked=False), applied=False), False),
        (msgspec.structs.replace(report(operation="created"), status=Raw(b'"odd"')), False),
    ],
)
def test_only_unobserved_writes_are_held(event: WorkObserved, held: bool) -> None:
    assert about_to_change(event) is held


def large(cluster: str, number: int, size: int) -> WorkObserved:
    key = ObjectKey("apps", "deployments", "default", f"web-{number}")
    status = Raw(msgspec.json.encode({"text": "x" * size, "number": number}))
    return WorkObserved(cluster=cluster, key=key, uid="u", at=float(number), applied=True, status=status)


async def test_reports_of_one_noisy_cluster_are_rate_limited() -> None:
    sent, reports = started(rate=1.0, burst=2_000_000)
    for number in range(20):
        reports.report(large("loud", number, 900_000))
    reports.report(large("calm", 0, 10))
    await sent.some(2)
    for number in range(1, 50):
        reports.report(large("calm", number, 10))
        reports.report(large("loud", 19, 900_000 + number))
        loud = sum(event.cluster == "loud" for batch in sent.batches for event in batch)
        await sent.some(loud + number + 1)
    found = [event for batch in sent.batches for event in batch]
    assert [event for event in found if event.cluster == "calm"] == [large("calm", number, 10) for number in range(50)]
    assert len([event for event in found if event.cluster == "loud"]) <= 5, "the burst, and what fits into one batch"
    assert reports.backlog == 20 - len({event.key for event in found if event.cluster == "loud"})
    await reports.close()


async def test_who_rested_goes_on_with_the_newest() -> None:
    sent, reports = started(rate=5_000_000.0, burst=1.0)
    reports.report(large("loud", 1, 900_000))
    await sent.some(1)
    for number in range(900_001, 900_010):
        reports.report(large("loud", 1, number))
    found = await sent.some(2)
    assert found[-1] == large("loud", 1, 900_009)
    await asyncio.sleep(0)
    assert not reports.backlog
    await reports.close()
