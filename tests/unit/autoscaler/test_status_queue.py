"""Statuses: behind rounds and scales, for a bounded time; not what is shown already, and again after a refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from msgspec import Raw

from schemas.keys import PolicyKey
from services._kit.kube.client import ApiError
from services.autoscaler import status_queue
from services.autoscaler.reading.object_watch import Watched
from services.autoscaler.scaling_effects import WriteStatus
from services.autoscaler.status_queue import StatusQueue
from tests.support.waiting import eventually

KEY = PolicyKey("FederatedHPA", "default", "web")
ONE = {"currentReplicas": 1}


class Shown:
    """An object, what was written of it, and scales that are written once they may be."""

    def __init__(self) -> None:
        self.written: list[Mapping[str, object]] = []
        self.refusals: list[ApiError] = []
        self.scales_written = asyncio.Event()
        self.scales_written.set()
        self.queue = StatusQueue(self.found, self.write, self.until_scales_are_written)

    def found(self, key: PolicyKey) -> Watched | None:
        return Watched("h1", 1, Raw(b"{}"), {}, {"observedGeneration": 1}, {}) if key == KEY else None

    async def write(self, key: PolicyKey, uid: str, status: Mapping[str, object]) -> None:
        assert (key, uid) == (KEY, "h1")
        if self.refusals:
            raise self.refusals.pop()
        self.written.append(status)

    async def until_scales_are_written(self) -> None:
        await self.scales_written.wait()

    async def nothing_moves(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)


async def test_status_is_written_after_scales() -> None:
    shown = Shown()
    shown.scales_written.clear()
    shown.queue.submit(WriteStatus(KEY, "h1", ONE))
    await shown.nothing_moves()
    assert shown.written == []
    shown.scales_written.set()
    await eventually(lambda: shown.written == [ONE])


async def test_status_is_written_after_the_round() -> None:
    shown = Shown()
    with shown.queue.held():
        shown.queue.submit(WriteStatus(KEY, "h1", ONE))
        await shown.nothing_moves()
        assert shown.written == []
    await eventually(lambda: shown.written == [ONE])


async def test_status_waits_for_what_follows_a_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_queue, "_FOLLOWING_SECONDS", 0.1)
    shown = Shown()
    shown.queue.scaled()
    ends = asyncio.get_running_loop().time() + 0.1
    shown.queue.submit(WriteStatus(KEY, "h1", ONE))
    await eventually(lambda: shown.written == [ONE])
    assert asyncio.get_running_loop().time() >= ends


async def test_status_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_queue, "_SCALES_FIRST_SECONDS", 0.05)
    shown = Shown()
    shown.scales_written.clear()
    shown.queue.scaled()
    with shown.queue.held():
        shown.queue.submit(WriteStatus(KEY, "h1", ONE))
        await eventually(lambda: shown.written == [ONE])


async def test_what_is_shown_is_not_written() -> None:
    shown = Shown()
    shown.queue.submit(WriteStatus(KEY, "h1", {"observedGeneration": 1}))
    shown.queue.submit(WriteStatus(KEY, "another", ONE))
    shown.queue.submit(WriteStatus(PolicyKey("FederatedHPA", "default", "gone"), "h1", ONE))
    shown.queue.submit(WriteStatus(KEY, "h1", ONE))
    await eventually(lambda: shown.written == [ONE])
    # The watch shows it later; it counts as shown from the write on.
    shown.queue.submit(WriteStatus(KEY, "h1", ONE))
    await shown.nothing_moves()
    assert shown.written == [ONE]


async def test_refused_status_is_written_again_if_that_can_help() -> None:
    shown = Shown()
    shown.refusals = [ApiError(503, "ServiceUnavailable", "not now")]
    shown.queue.submit(WriteStatus(KEY, "h1", ONE))
    await eventually(lambda: shown.written == [ONE])
    shown.refusals = [ApiError(422, "Invalid", "never")]
    shown.queue.submit(WriteStatus(KEY, "h1", {"currentReplicas": 2}))
    await eventually(lambda: not shown.refusals)
    await shown.nothing_moves()
    assert shown.written == [ONE]


async def test_nothing_is_written_after_a_drop() -> None:
    shown = Shown()
    with shown.queue.held():
        shown.queue.submit(WriteStatus(KEY, "h1", ONE))
        await shown.nothing_moves()
        await shown.queue.drop()
    await shown.nothing_moves()
    assert shown.written == []
    shown.queue.submit(WriteStatus(KEY, "h1", ONE))
    await eventually(lambda: shown.written == [ONE])
