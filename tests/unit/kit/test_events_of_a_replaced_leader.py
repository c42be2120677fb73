"""Kubernetes Events that a leader had not written when it was replaced are dropped, also when it leads again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from schemas.keys import ObjectKey
from services._kit.base.log_errors import FenceLost
from services._kit.kube.client import KubeClient
from services._kit.kube.event_recorder import EventRecorder
from services._rules.kubernetes.event_objects import Note
from tests.support.endpoints import answering
from tests.support.manual_clock import ManualClock


class Shut:
    """A guard that lets nothing through until it is opened."""

    def __init__(self) -> None:
        self.holds = False
        self.asked = asyncio.Event()

    async def wait(self) -> None:
        self.asked.set()
        raise FenceLost(0, "another instance leads")


@pytest.fixture
async def posted() -> AsyncIterator[tuple[list[str], KubeClient]]:
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((await request.json())["message"])
        return web.json_response({})

    async with answering(answer) as client:
        yield seen, client


async def test_events_of_an_earlier_term_are_not_written_later(posted: tuple[list[str], KubeClient]) -> None:
    seen, client = posted
    guard = client.guard = Shut()
    telling = EventRecorder(client, ManualClock().now)
    telling.tell(note("stale"))
    writing = asyncio.create_task(telling.drained())
    async with asyncio.timeout(60):
        await guard.asked.wait()
    writing.cancel()
    await telling.drop()
    guard.holds = True
    telling.tell(note("fresh"))
    await telling.drained()
    assert seen == ["fresh"]
    await telling.drop()


async def test_events_gathered_in_an_earlier_term_are_announced_anew(
    posted: tuple[list[str], KubeClient],
) -> None:
    seen, client = posted
    telling = EventRecorder(client, ManualClock().now, gather_seconds=3600.0)
    telling.tell(note("twice"))
    await telling.drop()
    await telling.drained()
    assert seen == []
    telling.tell(note("twice"))
    await telling.drained()
    assert seen == ["twice"]
    await telling.drop()


async def test_repeated_events_are_one_write_with_a_count(
    posted: tuple[list[str], KubeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, client = posted
    counts: list[int] = []
    writing = asyncio.Event()

    def counted(told: Note, *, first: str, last: str, count: int, message: str) -> dict[str, object]:
        counts.append(count)
        writing.set()
        return {"message": told.message}

    monkeypatch.setattr("services._kit.kube.event_recorder.event_of", counted)
    telling = EventRecorder(client, ManualClock().now, gather_seconds=0.01)
    for _ in range(3):
        telling.tell(note("again"))
    async with asyncio.timeout(60):
        await writing.wait()
    await telling.drained()
    assert (seen, counts) == (["again"], [3])
    await telling.drop()


def note(message: str) -> Note:
    return Note(
        key=ObjectKey("", "configmaps", "default", message),
        api_version="v1",
        kind="ConfigMap",
        uid="u",
        reason="R",
        message=message,
        component="test",
    )
