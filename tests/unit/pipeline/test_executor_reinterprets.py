"""Another interpretation has the executor look at all objects of that kind in every lane, and at no other objects."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from schemas.codec import encode, subject_of
from schemas.events.policy import PolicyDeleted
from schemas.events.work import WorkWithdrawn
from schemas.keys import ObjectKey
from schemas.shard_groups import WHOLE
from services._kit.log.stream_port import Message
from services.executor.app import Executor
from services.executor.settings import ExecutorSettings
from services.executor.state import ExecutorState
from tests.support.widgets import API_VERSION, config_map_work, customization, key_of, widget_work


class Lane:
    """Remembers what it was asked to look at."""

    def __init__(self) -> None:
        self.asked: list[ObjectKey] = []

    def look_afresh(self, key: ObjectKey) -> None:
        self.asked.append(key)


class Bench:
    """An executor with lanes to m1 and m2 that has these works."""

    def __init__(self) -> None:
        self.executor = Executor(ExecutorSettings(control_kubeconfig="none"))
        self.state = ExecutorState()
        self.lanes = {"m1": Lane(), "m2": Lane()}
        self.inside: Any = self.executor
        self.inside._context = SimpleNamespace(appender=SimpleNamespace(producer="executor/e-1"), group=WHOLE)
        self.inside._lanes = {name: (None, lane) for name, lane in self.lanes.items()}
        self.inside._acting = True
        gone = WorkWithdrawn(cluster="m1", key=key_of("gone"), uid="u1", api_version=API_VERSION, kind="Widget")
        for event in (widget_work("a"), config_map_work("c"), gone, widget_work("b", cluster="m2")):
            self.take(event)
        for kind in ((API_VERSION, "Widget"), ("v1", "ConfigMap")):
            self.inside._interpretation.offered(*kind)

    def take(self, event: Any) -> Any:
        return self.executor.fold(self.state, Message(subject_of(event), 9, 2.0, {}, encode(event)), event)

    async def asked(self) -> dict[str, list[str]]:
        if self.inside._looking is not None:
            await self.inside._looking
        found = {name: [key.name for key in lane.asked] for name, lane in self.lanes.items()}
        for lane in self.lanes.values():
            lane.asked.clear()
        return found


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def test_every_lane_looks_at_the_objects_of_the_kind(bench: Bench) -> None:
    change = customization()
    assert list(bench.take(change)) == []
    assert await bench.asked() == {"m1": ["a"], "m2": ["b"]}
    bench.take(change)
    assert await bench.asked() == {"m1": [], "m2": []}, "nothing changed"
    bench.take(PolicyDeleted(key=change.key, uid=change.uid))
    assert await bench.asked() == {"m1": ["a"], "m2": ["b"]}


async def test_changes_in_a_row_are_looked_into_together(bench: Bench) -> None:
    for number in range(5):
        bench.take(customization(retention=f"-- {number}"))
    bench.take(customization("v1", "ConfigMap"))
    assert await bench.asked() == {"m1": ["a", "c"], "m2": ["b"]}


async def test_change_during_the_notification_is_not_lost(bench: Bench) -> None:
    bench.take(customization())
    await asyncio.sleep(0)
    bench.take(customization("v1", "ConfigMap"))
    asked = await bench.asked()
    assert set(asked["m1"]) == {"a", "c"}


async def test_follower_learns_customizations_and_asks_no_lane(bench: Bench) -> None:
    bench.inside._acting = False
    bench.take(customization())
    assert await bench.asked() == {"m1": [], "m2": []}
    assert bench.inside._interpretation.offered(API_VERSION, "Widget").retain
