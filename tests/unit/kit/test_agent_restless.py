"""In a rush the agent does not look at its member all the time, and saves a large state more rarely."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from schemas.agent import Hello, HelloAnswer
from schemas.keys import ObjectKey
from services._kit.base.answer_limits import Limits
from services._kit.concurrency.debounce import Debouncer
from services._kit.kube.answers.share import Share
from services._kit.kube.client import ApiResource
from services.agent.heartbeat_sender import HeartbeatSender
from services.agent.state import AgentState
from services.agent.state_storage import LONGEST_PAUSE, PAUSE, pause_after
from tests.support.manual_clock import ManualClock


async def test_every_change_puts_the_look_off_until_it_is_quiet() -> None:
    looks: list[str] = []
    restless = Debouncer(lambda: looks.append("look"), quiet=100.0, longest=3600.0)
    assert restless.due == 0.0
    restless.changed()
    first = restless.due
    restless.changed()
    assert restless.due >= first > 0
    assert looks == []
    restless.close()
    assert restless.due == 0.0


async def test_who_is_never_quiet_is_looked_at_all_the_same() -> None:
    restless = Debouncer(lambda: None, quiet=100.0, longest=50.0)
    restless.changed()
    first = restless.due
    for _ in range(3):
        restless.changed()
    assert restless.due == pytest.approx(first, abs=1e-3)
    restless.close()


async def test_after_a_look_the_time_of_the_next_counts_anew() -> None:
    looks: asyncio.Queue[float] = asyncio.Queue()
    restless = Debouncer(lambda: looks.put_nowait(restless.due), quiet=0.0, longest=0.0)
    for _ in range(2):
        restless.changed()
        async with asyncio.timeout(60):
            assert await looks.get() == 0.0


async def test_a_change_of_an_agent_s_member_is_not_looked_at_at_once() -> None:
    nobody = cast("Any", None)
    agent = HeartbeatSender(
        nobody, AgentState(cluster="m"), "agent-0", nobody, ManualClock(), lambda: None, lambda _: None
    )
    agent.something_changed(ObjectKey("", "configmaps", "default", "a"))
    assert agent._restless.due > 0
    assert not agent._early.is_set()
    agent._restless.close()


def test_a_state_that_takes_long_to_save_is_saved_more_rarely() -> None:
    assert pause_after(0.001) == PAUSE
    assert PAUSE < pause_after(0.2) < pause_after(0.5) < LONGEST_PAUSE
    assert pause_after(60.0) == LONGEST_PAUSE


class Member:
    """A member's client that counts how often it is asked for all that it serves."""

    server = "https://member"
    limits = Limits()

    def __init__(self) -> None:
        self.share = Share()
        self.asked = 0

    async def request(self, method: str, path: str, **_: object) -> bytes:
        return b'{"gitVersion":"v1.30.0"}' if path == "/version" else b'{"items":[]}'

    async def discover(self, *, preferred: bool) -> list[ApiResource]:
        self.asked += 1
        return []


async def test_agent_discovers_again_after_changed_definitions_only() -> None:
    member, nobody = Member(), cast("Any", None)
    agent = HeartbeatSender(
        nobody, AgentState(cluster="m"), "a", cast("Any", member), ManualClock(), lambda: None, nobody
    )
    agent._models = ()
    await agent._look()
    agent.something_changed(ObjectKey("", "configmaps", "default", "a"))
    await agent._look()
    assert member.asked == 1
    agent.something_changed(ObjectKey("apiextensions.k8s.io", "customresourcedefinitions", "", "things.example.io"))
    await agent._look()
    assert member.asked == 2
    agent._interval = 0.0
    await agent._look()
    assert member.asked == 3
    agent._restless.close()


class Hub:
    """Answers heartbeats with resource models, and asks for the next one in an hour."""

    is_connected = True
    models = ({"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "9223372036854775807"}]},)

    def __init__(self) -> None:
        self.hellos: asyncio.Queue[Hello] = asyncio.Queue()

    async def request(self, subject: str, data: bytes, timeout: float) -> SimpleNamespace:
        self.hellos.put_nowait(msgspec.json.decode(data, type=Hello))
        return SimpleNamespace(data=msgspec.json.encode(HelloAnswer(models=self.models, heartbeat_seconds=3600.0)))


async def test_restarted_agent_reports_capacity_once_it_knows_models() -> None:
    """A summary without modelings would change the status of the Cluster at every restart."""
    hub = Hub()
    agent = HeartbeatSender(
        cast("Any", hub), AgentState(cluster="m"), "a", cast("Any", Member()), ManualClock(), lambda: None, print
    )
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        running = group.create_task(agent.run())
        first, second = await hub.hellos.get(), await hub.hellos.get()
        running.cancel()
    assert first.sample is not None
    assert first.sample.online
    assert first.sample.summary is None
    assert second.sample is not None
    assert second.sample.summary is not None
    assert second.sample.summary["resourceSummary"]["allocatableModelings"] == [{"grade": 0, "count": 0}]
