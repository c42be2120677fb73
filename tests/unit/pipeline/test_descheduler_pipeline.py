"""From a Deployment and its policy to replicas that moved: detector, scheduler, descheduler, renderer and Events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from schemas.codec import Known, decode, encode, subject_of
from schemas.events.binding import BindingRequested
from schemas.events.descheduling import ReplicasDescheduled
from schemas.events.placement import PlacementDecided, PlacementFailed
from schemas.events.work import WorkRendered
from schemas.keys import ObjectKey
from schemas.topology import STREAMS
from services._kit.base.metrics import KitMetrics
from services._kit.log.stream_port import NewMessage
from services._kit.runtime.decision_loop import LoopOptions
from services._kit.runtime.runner import Runner
from services.descheduler.app import Descheduler, NoAnswer
from services.descheduler.settings import DeschedulerSettings
from services.gateway import state as gateway
from services.gateway.views import binding_views as bindings
from services.override_renderer import state as renderer
from services.override_renderer.decide import AtHand
from services.override_renderer.decide import decide as render
from services.scheduler.app import Scheduler
from services.scheduler.settings import SchedulerSettings
from services.status_aggregator import state as aggregator
from services.status_aggregator.event_announcements import announce
from tests.log.running import eventually
from tests.support.facts import KEY, cluster, deployment
from tests.support.manual_clock import ManualClock
from tests.support.memory_bus import MemoryBus
from tests.support.memory_log import MemoryLog
from tests.unit.pipeline import test_descheduler as facts
from tests.unit.pipeline import test_detector as detecting

INTERVAL = 120.0
DYNAMIC: dict[str, Any] = {
    "clusterAffinity": {"clusterNames": ["m1", "m2"]},
    "replicaScheduling": {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    },
}


def member(name: str, cpu: int) -> Known:
    fact = cluster(name)
    manifest = msgspec.json.decode(fact.manifest)
    manifest["status"]["resourceSummary"] = {"allocatable": {"cpu": str(cpu), "pods": "1000"}}
    return msgspec.structs.replace(fact, manifest=msgspec.Raw(msgspec.json.encode(manifest)))


def asked(replicas: int) -> tuple[Known, ...]:
    """What the detector says of the Deployment."""
    manifest = deployment(replicas)
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "1"}}
    world = detecting.World(detecting.policy(placement=DYNAMIC))
    world.sees(manifest)
    return tuple(world.decides().events)


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


class _Context:
    """What services read of their surroundings."""

    def __init__(self, runner: Runner[Any, Any]) -> None:
        self.projection = runner.projection
        self.clock = runner.clock
        self.mark = runner.mark
        self.connection = None
        self.logs: dict[str, Any] = {}
        self.metrics = KitMetrics(runner.service.name)


class House:
    """A log in memory with a scheduler and a descheduler on it."""

    def __init__(self) -> None:
        self.logs = {stream.name: MemoryLog(stream) for stream in STREAMS}
        self.facts = self.logs["FACTS"]
        self.bus = MemoryBus()
        self.clock = ManualClock(1_793_232_007.0)
        self.asker = Asker()

    async def say(self, *events: Known) -> None:
        for event in events:
            await self.facts.append([NewMessage(subject_of(event), encode(event), {})])

    @asynccontextmanager
    async def running(self, service: Any) -> AsyncIterator[Runner[Any, Any]]:
        options = LoopOptions(heartbeat=0.02, takeover_after=0.2)
        runner: Runner[Any, Any] = Runner(
            service, self.logs, self.bus, f"{service.name}-0", options=options, clock=self.clock
        )
        await service.start(_Context(runner))
        task = asyncio.create_task(runner.run())
        try:
            yield runner
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await service.stop()

    def scheduler(self) -> Any:
        return self.running(Scheduler(SchedulerSettings()))

    def descheduler(self) -> Any:
        return self.running(Descheduler(DeschedulerSettings(descheduling_interval=INTERVAL), self.asker))

    def read(self, pattern: str) -> list[Any]:
        return [decode(message.subject, message.data) for message in self.facts.since(0, [pattern], 10_000)]

    def placed(self) -> dict[str, int | None]:
        event = self.read("placement.>")[-1]
        assert isinstance(event, PlacementDecided | PlacementFailed)
        return {target.name: target.replicas for target in event.clusters}

    async def until(self, condition: Any) -> None:
        await eventually(condition)

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
        state = renderer.RendererState()
        for message in self.facts.since(0, [">"], 10_000):
            renderer.fold(state, message.seq, message.subject, decode(message.subject, message.data))
        rendered = [event for event in render(state, KEY, AtHand()).events if isinstance(event, WorkRendered)]
        return {event.cluster: msgspec.json.decode(event.manifest)["spec"]["replicas"] for event in rendered}

    def told(self) -> list[str]:
        """Events about the descheduler's facts."""
        state, notes = aggregator.AggregatorState(), []
        for message in self.facts.since(0, [">"], 10_000):
            event = decode(message.subject, message.data)
            aggregator.fold(state, message.seq, message.subject, event)
            note = announce(state, event) if isinstance(event, ReplicasDescheduled) else None
            notes += [f"{note.component} {note.reason}: {note.message}"] if note is not None else []
        return notes

    def shown(self) -> list[dict[str, Any]]:
        """spec.clusters of the binding."""
        state = gateway.GatewayState()
        for message in self.facts.since(0, [">"], 10_000):
            gateway.fold(state, message.seq, message.time, decode(message.subject, message.data))
        built = bindings.build(state.objects[KEY], "1")
        return list(built["spec"]["clusters"])


async def test_replicas_that_find_no_node_move_to_where_there_is_room() -> None:
    house = House()
    house.asker.waiting = {"m1": 2}
    await house.say(member("m1", 8), member("m2", 8), *asked(6))
    async with house.scheduler(), house.descheduler() as descheduler:
        await house.until(lambda: house.read("placement.>"))
        assert house.placed() == {"m1": 3, "m2": 3}
        # What m1 said of its room was not so.
        await house.say(member("m1", 0), facts.ready(m1=1, m2=3))
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


async def test_what_was_taken_back_holds_until_the_scheduler_answers_and_while_it_cannot() -> None:
    house = House()
    house.asker.waiting = {"m1": 2}
    await house.say(member("m1", 8), member("m2", 8), *asked(6))
    async with house.scheduler():
        await house.until(lambda: house.read("placement.>"))
    await house.say(facts.ready(m1=1, m2=3))
    async with house.descheduler() as descheduler:
        await house.next_turn(descheduler)
        await house.until(lambda: house.read("descheduling.>"))
    assert house.works() == {"m1": 1, "m2": 3}, "no scheduler runs: what found no node is gone nevertheless"
    assert house.shown() == [{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 3}]
    await house.say(member("m1", 0), member("m2", 0))
    async with house.scheduler():
        await house.until(lambda: isinstance(house.read("placement.>")[-1], PlacementFailed))
    assert house.placed() == {"m1": 1, "m2": 3}, "nobody has room: what runs stays, and what was taken is not back"
    assert house.works() == {"m1": 1, "m2": 3}


async def test_an_estimator_that_does_not_answer_is_asked_again_in_the_next_turn() -> None:
    house = House()
    house.asker.waiting = None
    await house.say(member("m1", 8), member("m2", 8), *asked(6))
    async with house.scheduler(), house.descheduler() as descheduler:
        await house.until(lambda: house.read("placement.>"))
        await house.say(facts.ready(m1=1, m2=3))
        await house.next_turn(descheduler)
        await house.until(lambda: len(house.asker.asked) == 1)
        assert house.read("descheduling.>") == []
        house.asker.waiting = {"m1": 1}
        await house.next_turn(descheduler)
        await house.until(lambda: house.read("descheduling.>"))


async def test_a_new_leader_takes_nothing_back_twice() -> None:
    house = House()
    house.asker.waiting = {"m1": 2}
    await house.say(member("m1", 8), member("m2", 8), *asked(6))
    async with house.scheduler():
        await house.until(lambda: house.read("placement.>"))
    await house.say(facts.ready(m1=1, m2=3))
    async with house.descheduler() as descheduler:
        await house.next_turn(descheduler)
        await house.until(lambda: house.read("descheduling.>"))
    async with house.descheduler() as descheduler:
        await house.until(lambda: descheduler.active and not descheduler.projection.dirty)
        house.clock.advance(INTERVAL)
        assert descheduler.deciding is not None
        descheduler.deciding.wake()
        await house.say(facts.ready(m1=0, m2=3))
        await house.until(lambda: descheduler.deciding.timers.next() is not None)
    assert len(house.read("descheduling.>")) == 1
    assert [len(asked) for asked in house.asker.asked] == [1]
    binding = house.read("binding.>")[-1]
    assert isinstance(binding, BindingRequested)
