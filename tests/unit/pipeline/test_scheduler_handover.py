"""Schedulers of different names run side by side: each places its own bindings, and an object may change hands."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.events.binding import BindingRequested
from schemas.events.placement import PlacementDecided, PlacementReleased
from services._kit.base.settings import SettingsError
from services.scheduler.app import Scheduler
from services.scheduler.ownership import HANDOVER_SECONDS, handed_over_until
from services.scheduler.settings import SchedulerSettings
from tests.support.facts import ANYWHERE, KEY, NOW, binding, cluster, key, released
from tests.support.harness import SCHEDULER, Harness, place
from tests.support.memory_installation import MemoryInstallation

OTHER = "other"


def asked(name: str, scheduler: str, replicas: int = 1) -> BindingRequested:
    return binding(replicas, ANYWHERE, name=name, schedulerName=scheduler)


def scheduler(house: MemoryInstallation, name: str = "default-scheduler") -> Any:
    return house.running(Scheduler(SchedulerSettings(scheduler_name=name)))


def by(house: MemoryInstallation, name: str) -> list[str]:
    """Schedulers that placed an object, in order."""
    placed = [event for event in house.read("placement.>") if isinstance(event, PlacementDecided)]
    return [event.scheduler for event in placed if event.key == key(name)]


async def test_each_scheduler_places_its_own_bindings() -> None:
    house = MemoryInstallation()
    await house.given(
        cluster("m1"), asked("mine", "default-scheduler"), asked("theirs", OTHER), asked("nobodys", "third")
    )
    async with scheduler(house), scheduler(house, OTHER):
        await house.until(lambda: by(house, "mine") and by(house, "theirs"))
        await house.given(cluster("m2"))
        await house.until(lambda: len(by(house, "mine")) == 2 and len(by(house, "theirs")) == 2)
    assert set(by(house, "mine")) == {"default-scheduler"}
    assert set(by(house, "theirs")) == {OTHER}
    assert by(house, "nobodys") == []
    assert {lease.service for lease in house.read("lease.*")} == {"scheduler", "scheduler-other"}


async def test_handover_keeps_one_unbroken_history() -> None:
    house = MemoryInstallation()

    def ended() -> int:
        return sum(isinstance(event, PlacementReleased) for event in house.read("placement.>"))

    names = [f"web-{number}" for number in range(20)]
    await house.given(cluster("m1"), *(asked(name, "default-scheduler") for name in names))
    async with scheduler(house), scheduler(house, OTHER):
        await house.until(lambda: all(by(house, name) for name in names))
        for number, name in enumerate(names):
            # Some change hands while their first scheduler is still at work on them.
            if number % 2:
                await house.given(asked(name, "default-scheduler", 5))
            await house.given(asked(name, OTHER, 2))
        await house.until(lambda: all(by(house, name)[-1] == OTHER for name in names))
        await house.given(*(released(name) for name in names))
        await house.until(lambda: ended() == len(names))
    last: dict[str, int] = {}
    for message, event in house.messages("placement.>"):
        assert event.prev == last.get(message.subject, 0), f"{message.seq} does not follow what stands before it"
        last[message.subject] = message.seq
    assert ended() == len(names)


def test_new_scheduler_waits_for_the_handover() -> None:
    handing = Harness(SCHEDULER, cluster("m1"), binding(1, ANYWHERE))
    state, now = handing.state, handing.now
    handing.decides()
    handing.given(binding(3, ANYWHERE, schedulerName=OTHER))
    assert handing.decided() is None
    assert handed_over_until(state, KEY, now, "default-scheduler") is None
    assert handed_over_until(state, KEY, now, OTHER) == now + HANDOVER_SECONDS
    assert handed_over_until(state, KEY, now + HANDOVER_SECONDS, OTHER) is None
    now = handing.now = now + 100
    handing.given(binding(4, ANYWHERE, schedulerName=OTHER))
    assert handed_over_until(state, KEY, now, OTHER) is None, "it was handed over long ago"


def test_placement_is_released_by_its_own_scheduler() -> None:
    placing = Harness(SCHEDULER, cluster("m1"), binding(1, ANYWHERE))
    assert isinstance(placing.decides(), PlacementDecided)
    placing.given(released())
    assert place(placing.state, KEY, NOW, OTHER) is None
    assert isinstance(placing.decided(), PlacementReleased)


def test_empty_scheduler_name_is_refused() -> None:
    with pytest.raises(SettingsError, match="FLEETLOG_SCHEDULER_NAME is empty"):
        SchedulerSettings(scheduler_name="")
