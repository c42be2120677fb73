"""A simulated member that serves Widgets, and a lane into it whose works and reports the test holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from schemas.events.observed import WorkObserved
from schemas.events.policy import PolicyChanged
from schemas.events.work import WorkEvent, WorkRendered
from schemas.keys import ObjectKey
from services._kit.delivery.interpretation_levels import Interpretation
from services._kit.delivery.lane import Lane
from services._kit.delivery.lane_parts import LaneSettings, WorkSource
from services._kit.interpretation.interpreter_levels import Interpreters
from services._kit.kube.client import KubeClient
from services.member_sim.app import Running, run_member
from services.member_sim.settings import MemberSettings
from tests.support import widgets
from tests.support.waiting import eventually

PATIENCE = 60.0


class Scripts:
    """Runs no script: answers with what the test wants, once the test lets it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.answer: Callable[[str, Sequence[Any]], Any] = lambda *_: {}
        self.open = asyncio.Event()
        self.open.set()

    async def evaluate(self, operation: str, script: str, arguments: Sequence[Any]) -> Any:
        """Note the call, wait until answers are given, answer."""
        self.calls.append((operation, arguments[-1]))
        await self.open.wait()
        return self.answer(operation, arguments)

    async def close(self) -> None:
        """Nothing is open."""


class Ground:
    """The hub's side of one lane: works, the last report on each, customizations."""

    def __init__(self, kubeconfig: Path, client: KubeClient, pool: Any, settings: LaneSettings) -> None:
        self.client = client
        self.interpretation = Interpretation(Interpreters(pool))
        self.seen: dict[ObjectKey, WorkObserved] = {}
        self.reports: list[WorkObserved] = []
        self._works: dict[ObjectKey, tuple[WorkEvent, int]] = {}
        self._moved = asyncio.Condition()
        self._telling: set[asyncio.Task[None]] = set()
        source = WorkSource(
            work=self._works.get,
            observed=self.seen.get,
            blob=self._blob,
            previous=self._previous,
            report=self._report,
            now=lambda: 1.0,
        )
        opening = lambda: KubeClient.from_kubeconfig(kubeconfig)  # noqa: E731 # a thunk
        self.lane = Lane("m1", opening, source, settings, self.interpretation)

    async def _blob(self, digest: str) -> bytes:
        raise AssertionError(f"{digest} is inline")

    async def _previous(self, key: ObjectKey, current: WorkRendered) -> bytes | None:
        return None

    def _report(self, event: WorkObserved) -> None:
        self.seen[event.key] = event
        self.reports.append(event)
        task = asyncio.create_task(self._tell())
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell(self) -> None:
        async with self._moved:
            self._moved.notify_all()

    async def reported(self, condition: Callable[[], Any]) -> None:
        """Return once reports make a condition true."""
        try:
            async with asyncio.timeout(PATIENCE), self._moved:
                await self._moved.wait_for(condition)
        except TimeoutError:
            raise AssertionError(msgspec.json.encode(self.reports[-5:]).decode()) from None

    def want(self, *works: WorkRendered) -> None:
        """Works as they are from now on."""
        for work in works:
            before = self._works.get(work.key)
            self._works[work.key] = (work, before[1] + 1 if before else 1)
            self.lane.look_at(work.key)

    def configure(self, **scripts: str) -> None:
        """Interpret Widgets by these scripts from now on."""
        self.take(widgets.customization(**scripts))

    def take(self, event: PolicyChanged) -> None:
        """Interpret as a customization says from now on."""
        touched = self.interpretation.take(event)
        for key, (work, _) in self._works.items():
            if (work.api_version, work.kind) in touched:
                self.lane.look_afresh(key)

    async def watched(self, key: ObjectKey, phase: str) -> None:
        """Return once the lane has heard of a Widget's phase."""
        inside: Any = self.lane
        kind = await inside._acting.kinds.of(widgets.API_VERSION, "Widget")
        await eventually(
            lambda: kind.live[key.namespace, key.name].get("status") == {"phase": phase}, f"{key.name} is {phase}"
        )

    async def widget(self, name: str = "w") -> dict[str, Any]:
        """A Widget as the member has it."""
        return await self.client.get(widgets.path_of(widgets.key_of(name)))

    async def become(self, phase: str, name: str = "w") -> None:
        """What a controller in the member says of a Widget."""
        path = f"{widgets.path_of(widgets.key_of(name))}/status"
        await self.client.patch(path, {"status": {"phase": phase}})


@pytest.fixture
async def member(tmp_path: Path) -> AsyncIterator[Running]:
    """A simulated member without nodes."""
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    settings = MemberSettings(name="m1", nodes=0, data_dir=tmp_path / "m1")
    task = asyncio.create_task(run_member(settings, ready.set_result, stop))
    await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    yield await ready
    stop.set()
    await task


@pytest.fixture
def scripts() -> Scripts:
    """Answers in place of scripts."""
    return Scripts()


@pytest.fixture
def pool(scripts: Scripts) -> Any:
    """Who runs scripts; a test that wants Lua gives another."""
    return scripts


@pytest.fixture
def settings() -> LaneSettings:
    """With pauses like these nothing in a test comes from trying again."""
    return LaneSettings(backoff=600.0, longest_backoff=600.0)


@pytest.fixture
async def ground(member: Running, pool: Any, settings: LaneSettings) -> AsyncIterator[Ground]:
    """A lane at work."""
    client = await KubeClient.from_kubeconfig(member.kubeconfig)
    await widgets.define(client)
    made = Ground(member.kubeconfig, client, pool, settings)
    made.lane.start()
    yield made
    await made.lane.close()
    await made.interpretation.close()
    await client.close()
