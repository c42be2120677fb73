"""Kubernetes Events are written at a bounded rate, counted, combined, and dropped by worth when there are too many."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from msgspec.structs import replace

from schemas.keys import ObjectKey
from services._kit.kube.client import KubeClient
from services._kit.kube.event_recorder import SIMILAR, EventPace, EventRecorder
from services._rules.kubernetes.event_objects import COMBINED, Note, event_name
from tests.support.endpoints import answering
from tests.support.manual_clock import ManualClock


class Server:
    """Keeps Events by name as an API server does."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.order: list[str] = []
        self.second = asyncio.Event()

    async def answer(self, request: web.Request) -> web.Response:
        name = request.path.rpartition("/")[2]
        if request.method == "POST":
            event = json.loads(await request.text())
            name = event["metadata"]["name"]
            if name in self.events:
                return web.json_response({"kind": "Status", "reason": "AlreadyExists", "code": 409}, status=409)
            self.events[name] = event
            self.order.append(event["message"])
            if len(self.order) == 2:
                self.second.set()
        elif request.method == "PATCH":
            self.events[name] |= json.loads(await request.text())
        return web.json_response(self.events[name])


@pytest.fixture
async def served() -> AsyncIterator[tuple[Server, KubeClient]]:
    server = Server()
    async with answering(server.answer) as client:
        yield server, client


def note(message: str, *, name: str = "nginx", **more: Any) -> Note:
    key = ObjectKey("", "configmaps", "default", name)
    return Note(key, "u", "v1", "ConfigMap", "R", message, "test", **more)


def recorder(client: KubeClient, **pace: Any) -> EventRecorder:
    return EventRecorder(client, ManualClock().now, gather_seconds=0.0, repeat_seconds=0.0, pace=EventPace(**pace))


def test_names_that_no_event_may_begin_with_give_uuids() -> None:
    odd = note("said", name="system:demo")
    assert str(UUID(event_name(odd))) == event_name(odd) == event_name(note("said", name="system:demo"))
    assert event_name(odd) != event_name(note("other", name="system:demo"))
    assert event_name(note("said", name="")) != event_name(odd)
    assert event_name(note("said")).startswith("nginx.")
    assert len(event_name(note("said", name="a" * 253))) <= 253


async def test_too_many_events_leave_out_details_first(served: tuple[Server, KubeClient]) -> None:
    server, client = served
    recording = recorder(client, waiting=2)
    recording.tell(note("detail", name="a", detail=True))
    recording.tell(note("failed", name="b", warning=True))
    recording.tell(note("plain", name="c"))
    assert (recording.waiting, recording.dropped) == (2, 1)
    await recording.drained()
    assert server.order == ["failed", "plain"]
    recording.tell(note("detail", name="a", detail=True))
    await recording.drained()
    assert server.order[-1] == "detail", "what was dropped is no repetition when it is told again"
    await recording.drop()


async def test_events_wait_for_their_turn_in_a_burst(
    served: tuple[Server, KubeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, client = served
    monkeypatch.setattr("services._kit.kube.event_recorder.BUSY", 5)
    recording = recorder(client, per_second=0.001, at_once=1)
    for number in range(5):
        recording.tell(note(f"said {number}", name=f"n{number}"))
    async with asyncio.timeout(60):
        await server.second.wait()
    assert (len(server.order), recording.waiting) == (2, 3)
    await recording.drop()


async def test_many_messages_about_one_object_are_combined(served: tuple[Server, KubeClient]) -> None:
    server, client = served
    recording = recorder(client)
    for number in range(SIMILAR + 5):
        recording.tell(note(f"failed {number}"))
    await recording.drained()
    assert len(server.events) == SIMILAR + 1
    (one,) = [event for event in server.events.values() if event["message"].startswith(COMBINED)]
    assert (one["message"], one["count"]) == (f"{COMBINED}failed {SIMILAR + 4}", 5)
    await recording.drop()


async def test_an_event_of_an_earlier_process_goes_on_counting(served: tuple[Server, KubeClient]) -> None:
    server, client = served
    first, second = recorder(client), recorder(client)
    said = note("again")
    for recording in (first, second):
        recording.tell(said)
        recording.tell(replace(said))
        await recording.drained()
        await recording.drop()
    (event,) = server.events.values()
    assert event["count"] == 4


async def test_what_is_settled_before_it_is_written_is_told(served: tuple[Server, KubeClient]) -> None:
    server, client = served
    recording = recorder(client)
    told = note("taken over")
    recording.tell_once(told)
    recording.settled(told.key)
    await recording.drained()
    assert server.order == ["taken over"]
