"""Schedulers of different names run side by side: each places its own bindings, and an object may change hands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from schemas.codec import Known, decode, encode, subject_of
from schemas.events.binding import BindingReleased, BindingRequested
from schemas.events.lease import LeaseTaken
from schemas.events.placement import PlacementDecided, PlacementEvent, PlacementReleased
from schemas.keys import ObjectKey
from schemas.topology import STREAMS
from services._kit.base.settings import SettingsError
from services._kit.log.stream_port import Message, NewMessage
from services._kit.runtime.decision_loop import LoopOptions
from services._kit.runtime.runner import Runner
from services.scheduler.app import Scheduler
from services.scheduler.decide import HANDOVER_SECONDS, handed_over_until
from services.scheduler.settings import SchedulerSettings
from services.scheduler.state import SchedulerState, fold
from tests.support.facts import KEY, binding, cluster
from tests.support.memory_bus import MemoryBus
from tests.support.memory_log import MemoryLog
from tests.support.placements import decide

PATIENCE = 60.0
ANYWHERE: dict[str, Any] = {"clusterAffinity": {}}
OTHER = "other"
QUICK = LoopOptions(heartbeat=0.02, takeover_after=0.2)


def key(name: str) -> ObjectKey:
    return ObjectKey("apps", "deployments", "default", name)


def asked(name: str, scheduler: str, replicas: int = 1) -> BindingRequested:
    return msgspec.structs.replace(binding(replicas, ANYWHERE, schedulerName=scheduler), key=key(name))


class House:
    """A log in memory and the schedulers that run on it."""

    def __init__(self) -> None:
        self.logs = {stream.name: MemoryLog(stream) for stream in STREAMS}
        self.facts = self.logs["FACTS"]
        self.bus = MemoryBus()

    async def say(self, *events: Known) -> None:
        for event in events:
            await self.facts.append([NewMessage(subject_of(event), encode(event), {})])

    @asynccontextmanager
    async def scheduler(self, name: str) -> AsyncIterator[Runner[SchedulerState, ObjectKey]]:
        service = Scheduler(SchedulerSettings(scheduler_name=name))
        runner = Runner(service, self.logs, self.bus, f"{name}-0", options=QUICK)
        service._context = _Context(runner)  # type: ignore[assignment]
        task = asyncio.create_task(runner.run())
        try:
            yield runner
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def placements(self) -> list[tuple[Message, PlacementEvent]]:
        found = self.facts.since(0, ["placement.>"], 10_000)
        return [(message, decode(message.subject, message.data)) for message in found]  # type: ignore[misc]

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await self.facts.grown((await self.facts.identity()).last_seq)


class _Context:
    """What the service reads of its surroundings."""

    def __init__(self, runner: Runner[SchedulerState, ObjectKey]) -> None:
        self.projection = runner.projection
        self.clock = runner.clock


def by(house: House, name: str) -> list[str]:
    """Schedulers that placed an object, in order."""
    return [event.scheduler for _, event in house.placements() if event.key == key(name) and _placed(event)]  # type: ignore[union-attr]


def _placed(event: PlacementEvent) -> bool:
    return isinstance(event, PlacementDecided)


async def test_each_scheduler_places_its_own_bindings_under_a_lease_of_its_own() -> None:
    house = House()
    await house.say(
        cluster("m1"), asked("mine", "default-scheduler"), asked("theirs", OTHER), asked("nobodys", "third")
    )
    async with house.scheduler("default-scheduler"), house.scheduler(OTHER):
        await house.until(lambda: by(house, "mine") and by(house, "theirs"))
        await house.say(cluster("m2"))
        await house.until(lambda: len(by(house, "mine")) == 2 and len(by(house, "theirs")) == 2)
    assert set(by(house, "mine")) == {"default-scheduler"}
    assert set(by(house, "theirs")) == {OTHER}
    assert by(house, "nobodys") == []
    leases = [decode(item.subject, item.data) for item in house.facts.since(0, ["lease.*"], 100)]
    assert {item.service for item in leases if isinstance(item, LeaseTaken)} == {"scheduler", "scheduler-other"}


async def test_an_object_that_changes_hands_keeps_one_unbroken_history() -> None:
    house = House()
    names = [f"web-{number}" for number in range(20)]
    await house.say(cluster("m1"), *(asked(name, "default-scheduler") for name in names))
    async with house.scheduler("default-scheduler"), house.scheduler(OTHER):
        await house.until(lambda: all(by(house, name) for name in names))
        for number, name in enumerate(names):
            # Some change hands while their first scheduler is still at work on them.
            if number % 2:
                await house.say(asked(name, "default-scheduler", 5))
            await house.say(asked(name, OTHER, 2))
        await house.until(lambda: all(by(house, name)[-1] == OTHER for name in names))
        await house.say(*(BindingReleased(key=key(name), uid="u1") for name in names))
        released = PlacementReleased
        await house.until(lambda: sum(isinstance(event, released) for _, event in house.placements()) == len(names))
    last: dict[str, int] = {}
    for message, event in house.placements():
        assert event.prev == last.get(message.subject, 0), f"{message.seq} does not follow what stands before it"
        last[message.subject] = message.seq
    assert sum(isinstance(event, released) for _, event in house.placements()) == len(names)


def test_who_takes_over_lets_the_other_see_that_it_is_not_asked_any_more() -> None:
    state, now = SchedulerState(), 1_793_232_000.0

    def happens(seq: int, event: Known) -> None:
        list(fold(state, seq, subject_of(event), event, now))

    happens(1, cluster("m1"))
    happens(2, binding(1, ANYWHERE))
    happens(3, decide(state, KEY, now, "default-scheduler"))  # type: ignore[arg-type]
    happens(4, binding(3, ANYWHERE, schedulerName=OTHER))
    assert decide(state, KEY, now, "default-scheduler") is None
    assert handed_over_until(state, KEY, now, "default-scheduler") is None
    assert handed_over_until(state, KEY, now, OTHER) == now + HANDOVER_SECONDS
    assert handed_over_until(state, KEY, now + HANDOVER_SECONDS, OTHER) is None
    now += 100
    happens(5, binding(4, ANYWHERE, schedulerName=OTHER))
    assert handed_over_until(state, KEY, now, OTHER) is None, "it was handed over long ago"


def test_the_one_that_placed_it_ends_a_placement() -> None:
    state = SchedulerState()
    for seq, event in enumerate([cluster("m1"), binding(1, ANYWHERE)], 1):
        list(fold(state, seq, subject_of(event), event))
    placed = decide(state, KEY, 1.0, "default-scheduler")
    assert isinstance(placed, PlacementDecided)
    for seq, event in enumerate([placed, BindingReleased(key=KEY, uid="u1")], 3):
        list(fold(state, seq, subject_of(event), event))
    assert decide(state, KEY, 2.0, OTHER) is None
    assert isinstance(decide(state, KEY, 2.0, "default-scheduler"), PlacementReleased)


def test_a_scheduler_needs_a_name() -> None:
    with pytest.raises(SettingsError, match="FLEETLOG_SCHEDULER_NAME is empty"):
        SchedulerSettings(scheduler_name="")
