"""From a Deployment and its policy to replicas that moved: detector, scheduler, descheduler, renderer and Events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from schemas.codec import Known
from schemas.events.binding import BindingRequested
from schemas.events.placement import PlacementDecided, PlacementFailed
from schemas.events.work import WorkRendered
from schemas.keys import ObjectKey
from services._kit.runtime.runner import Runner
from services.descheduler.app import Descheduler, NoAnswer
from services.descheduler.settings import DeschedulerSettings
from services.gateway import state as gateway
from services.gateway.views import binding_views as bindings
from services.scheduler.app import Scheduler
from services.scheduler.settings import SchedulerSettings
from services.status_aggregator.event_announcements import announce
from tests.support.detector_harness import DetectorHarness, policy
from tests.support.facts import DYNAMIC, KEY, deployment, member, ready_in
from tests.support.harness import AGGREGATOR, RENDERER, Harness
from tests.support.manual_clock import ManualClock
from tests.support.memory_installation import MemoryInstallation

INTERVAL = 120.0


def asked(replicas: int) -> tuple[Known, ...]:
    """What the detector says of the Deployment."""
    manifest = deployment(replicas)
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "1"}}
    detector = DetectorHarness(policy(placement=DYNAMIC))
    detector.sees(manifest)
    return tuple(detector.decides().events)


class Asker:
    """Knows who waits for a node; None: it does not answer."""

    def __init__(self) -> None:
        self.waiting: dict[str, int] | None = {}
        self.asked: list[tuple[str, ...]] = []

    async def unschedulable(self, key: ObjectKey, clusters: Sequence[str], threshold: float) -> dict[str, int]:
        self.asked.append(tuple(clusters))
        if self.waiting is None:
            raise NoAnswer("cluster m1: away")
        return {name: number for name, number in self.waiting.items() if name in clusters}


class House(MemoryInstallation):
    """A log in memory with a scheduler and a descheduler on it."""

    def __init__(self) -> None:
        super().__init__(ManualClock(1_793_232_007.0))
        self.asker = Asker()

    def scheduler(self) -> Any:
        return self.running(Scheduler(SchedulerSettings()))

    def descheduler(self) -> Any:
        return self.running(Descheduler(DeschedulerSettings(descheduling_interval=INTERVAL), self.asker))

    def placed(self) -> dict[str, int | None]:
        event = self.read("placement.>")[-1]
        assert isinstance(event, PlacementDecided | PlacementFailed)
        return {target.name: target.replicas for target in event.clusters}

    async def next_turn(self, runner: Runner[Any, Any]) -> None:
        """Let the next turn come once the descheduler knows all there is and waits for it."""
        last = self.facts.since(0, list(runner.service.filters), 10_000)[-1].seq

        def waits() -> bool:
            projection, deciding = runner.projection, runner.deciding
            if deciding is None or projection.position.get("FACTS", 0) < last or projection.dirty or deciding.in_flight:
                return False
            return deciding.timers.next() is not None

        await self.until(waits)
        assert runner.deciding is not None
        self.clock.advance(INTERVAL)
        runner.deciding.wake()

    def works(self) -> dict[str, int]:
        """Replicas by cluster in what would be rendered from the log as it stands."""
        rendered = Harness(RENDERER, *self.read(">")).decides_all()
        return {
            event.cluster: msgspec.json.decode(event.manifest)["spec"]["replicas"]
            for event in rendered
            if isinstance(event, WorkRendered)
        }

    def told(self) -> list[str]:
        """Kubernetes Events about the descheduler's facts."""
        state = Harness(AGGREGATOR, *self.read(">")).state
        notes = [note for event in self.read("descheduling.>") for note in announce(state, event)]
        return [f"{note.component} {note.reason}: {note.message}" for note in notes if note.kind == "ResourceBinding"]

    def shown(self) -> list[dict[str, Any]]:
        """spec.clusters of the binding."""
        state = gateway.GatewayState()
        for message, event in self.messages(">"):
            gateway.fold(state, message.seq, message.time, event)
        return list(bindings.build(state.objects[KEY], "1")["spec"]["clusters"])


async def started(replicas: int = 6, waiting: dict[str, int] | None = None) -> House:
    """Members with capacity, a Deployment, and pods that wait for a node."""
    house = House()
    house.asker.waiting = waiting
    await house.given(member("m1", 8), member("m2", 8), *asked(replicas))
    return house


async def test_unschedulable_replicas_move_where_capacity_is() -> None:
    house = await started(waiting={"m1": 2})
    async with house.scheduler(), house.descheduler() as descheduler:
        await house.until(lambda: house.read("placement.>"))
        assert house.placed() == {"m1": 3, "m2": 3}
        # What m1 said of its room was not so.
        await house.given(member("m1", 0), ready_in(m1=1, m2=3))
        await house.next_turn(descheduler)
        await house.until(lambda: len(house.read("placement.>")) == 2)
        assert house.placed() == {"m1": 1, "m2": 5}
        assert house.asker.asked == [("m1",)]
    (event,) = house.read("descheduling.>")
    assert [(item.name, item.before, item.replicas) for item in event.clusters] == [("m1", 3, 1)]
    first, second = house.read("placement.>")
    assert second.provenance.as_of >= event.placement
    assert second.provenance.own["descheduling"] > 0
    assert second.trigger == "the number of replicas changed"
    assert house.works() == {"m1": 1, "m2": 5}
    (told,) = house.told()
    assert told == (
        "karmada-descheduler DescheduleBindingSucceed: Binding has been descheduled, 2 replica(s) in cluster(m1),"
        " 2 total descheduled replica(s)"
    )
    assert first.clusters != second.clusters


async def test_lowered_replicas_hold_until_the_scheduler_answers() -> None:
    house = await started(waiting={"m1": 2})
    async with house.scheduler():
        await house.until(lambda: house.read("placement.>"))
    await house.given(ready_in(m1=1, m2=3))
    async with house.descheduler() as descheduler:
        await house.next_turn(descheduler)
        await house.until(lambda: house.read("descheduling.>"))
    assert house.works() == {"m1": 1, "m2": 3}, "no scheduler runs: what found no node is gone nevertheless"
    assert house.shown() == [{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 3}]
    await house.given(member("m1", 0), member("m2", 0))
    async with house.scheduler():
        await house.until(lambda: isinstance(house.read("placement.>")[-1], PlacementFailed))
    assert house.placed() == {"m1": 1, "m2": 3}, "nobody has room: what runs stays, and what was taken is not back"
    assert house.works() == {"m1": 1, "m2": 3}


async def test_silent_estimator_is_asked_again_in_the_next_turn() -> None:
    house = await started()
    async with house.scheduler(), house.descheduler() as descheduler:
        await house.until(lambda: house.read("placement.>"))
        await house.given(ready_in(m1=1, m2=3))
        await house.next_turn(descheduler)
        await house.until(lambda: len(house.asker.asked) == 1)
        assert house.read("descheduling.>") == []
        house.asker.waiting = {"m1": 1}
        await house.next_turn(descheduler)
        await house.until(lambda: house.read("descheduling.>"))


async def test_new_leader_lowers_nothing_twice() -> None:
    house = await started(waiting={"m1": 2})
    async with house.scheduler():
        await house.until(lambda: house.read("placement.>"))
    await house.given(ready_in(m1=1, m2=3))
    async with house.descheduler() as descheduler:
        await house.next_turn(descheduler)
        await house.until(lambda: house.read("descheduling.>"))
    async with house.descheduler() as descheduler:
        await house.until(lambda: descheduler.active and not descheduler.projection.dirty)
        house.clock.advance(INTERVAL)
        assert descheduler.deciding is not None
        descheduler.deciding.wake()
        await house.given(ready_in(m1=0, m2=3))
        await house.until(lambda: descheduler.deciding.timers.next() is not None)
    assert len(house.read("descheduling.>")) == 1
    assert [len(asked) for asked in house.asker.asked] == [1]
    binding = house.read("binding.>")[-1]
    assert isinstance(binding, BindingRequested)
