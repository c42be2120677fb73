"""Failover, scheduler and renderer on one log, each as far behind as chance has it and restarted at any moment."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.eviction import EvictionFinished, EvictionRequested
from schemas.events.placement import PlacementDecided, PlacementFailed
from schemas.events.rollup import Cleared, ClusterStatusItem, StatusRolledUp
from schemas.events.work import WorkRendered, WorkWithdrawn
from services._kit.log.stream_port import Message
from services.failover.decide import Rules
from tests.support.eviction_invariants import broken_evictions
from tests.support.facts import KEY, binding, cluster, template
from tests.support.harness import RENDERER, SCHEDULER, Harness, events_of, failover_with

NOW = 1_700_000_000.0
STEPS = 120
MEMBERS = ("m1", "m2", "m3")
RULES = Rules(taint_eviction=True, timeout=3.0)
TAINT = {"key": "x", "value": "y", "effect": "NoExecute"}
EVEN = {
    "replicaScheduling": {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {
            "staticWeightList": [{"targetCluster": {"clusterNames": [name]}, "weight": 1} for name in MEMBERS]
        },
    }
}
COPIES = {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}}
FOR_A_WHILE = {"clusterTolerations": [{"key": "x", "operator": "Exists", "tolerationSeconds": 30}]}


class Reader(Harness):
    """One service: its state, and how far it has read the common log."""

    def restart(self, log: list[Known]) -> None:
        """Start with the last event of every subject."""
        whole = Harness(self.logic)
        whole.log = [(Message(subject_of(event), seq, NOW, {}, b""), event) for seq, event in enumerate(log, 1)]
        again = whole.restarted()
        self.state, self.log = again.state, again.log

    def step(self, log: list[Known], until: int, now: float) -> int:
        """Read up to a position and append what follows; the number of events."""
        self.now = now
        self.given(*log[self.seq : until])
        decided = [
            replace(event, provenance=replace(event.provenance, as_of=self.seq, decided_at=now))
            for event in events_of(self.decision())
        ]
        log.extend(decided)
        if decided:
            # A service sees its own events before it decides again.
            self.given(*log[self.seq :])
        return len(decided)


class World:
    """The log and its readers; members do what works say whenever the world reports."""

    def __init__(self, seed: int, placement: dict[str, Any], **spec: Any) -> None:
        self.random = random.Random(seed)
        self.now = NOW
        self.log: list[Known] = []
        self.readers = [Reader(failover_with(RULES)), Reader(SCHEDULER), Reader(RENDERER)]
        self.flips = 0
        self.log.extend(cluster(name) for name in MEMBERS)
        self.log.extend([template(), binding(6, placement, **spec)])
        self.settle()

    def taint(self, name: str, *, on: bool) -> None:
        stamp = datetime.fromtimestamp(self.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.flips += 1
        self.log.append(cluster(name, taints=[{**TAINT, "timeAdded": stamp}] if on else []))

    def report(self) -> bool:
        """Every member runs what its work asks for; whether that is news."""
        works = self.works()
        items = tuple(
            ClusterStatusItem(cluster=name, applied=True, health="Healthy", status=Raw(_status(work)))
            for name, work in sorted(works.items())
        )
        eviction = self.last(EvictionRequested | EvictionFinished)
        tasks = eviction.tasks if isinstance(eviction, EvictionRequested) else ()
        cleared = tuple(
            Cleared(task.from_cluster, task.created_at)
            for task in tasks
            if task.purge_mode == "Directly" and not task.removed and task.from_cluster not in works
        )
        before = self.last(StatusRolledUp)
        if before is not None and before.items == items and before.cleared == cleared:
            return False
        seen = Provenance(as_of=len(self.log), decided_at=self.now)
        self.log.append(StatusRolledUp(key=KEY, uid="u1", items=items, cleared=cleared, provenance=seen))
        return True

    def works(self) -> dict[str, WorkRendered]:
        found: dict[str, WorkRendered] = {}
        for event in self.log:
            if isinstance(event, WorkRendered):
                found[event.cluster] = event
            elif isinstance(event, WorkWithdrawn):
                found.pop(event.cluster, None)
        return found

    def last(self, kind: Any) -> Any:
        return next((event for event in reversed(self.log) if isinstance(event, kind)), None)

    def check_tasks(self) -> None:
        """Where all is said: each task is for a cluster that is driven out of, holds a copy, or waits for its end."""
        eviction, placed = (
            self.last(EvictionRequested | EvictionFinished),
            self.last(PlacementDecided | PlacementFailed),
        )
        works, failover = self.works(), self.readers[0]
        for task in eviction.tasks if isinstance(eviction, EvictionRequested) else ():
            name = task.from_cluster
            assert failover.state.clusters.get(name), f"{name} is left without a taint"
            assert name in works or isinstance(placed, PlacementFailed), f"nothing is in {name}, and all is placed"
            assert failover.decision().wake_at is not None, f"nothing ends the task for {name}"

    def disturb(self) -> None:
        """Something happens: somebody reads on, is restarted, time goes by, members report."""
        reader = self.random.choices(self.readers, (3, 1, 2))[0]
        match self.random.randrange(8):
            case 0:
                reader.restart(self.log)
            case 1:
                self.now += self.random.choice([0.1, 5.0, 5.0, 40.0])
            case 2:
                self.report()
            case 3:
                self.taint(self.random.choice(MEMBERS[:2]), on=self.random.random() < 0.6)
            case _:
                reader.step(self.log, self.random.randint(reader.seq, len(self.log)), self.now)

    def settle(self) -> None:
        """Everybody reads to the end until nobody has anything to say."""
        for _ in range(60):
            said = sum(reader.step(self.log, len(self.log), self.now) for reader in self.readers)
            if not said and not self.report():
                self.check_tasks()
                return
        kinds = [type(event).__name__ for event in self.log[-30:]]
        raise AssertionError(f"no end to it: {kinds}")


def _status(work: WorkRendered) -> bytes:
    assert isinstance(work.manifest, Raw)
    replicas = msgspec.json.decode(work.manifest)["spec"]["replicas"]
    return msgspec.json.encode({"replicas": replicas, "readyReplicas": replicas})


@pytest.mark.parametrize("placement", [EVEN, COPIES, {**EVEN, **FOR_A_WHILE}, {**COPIES, **FOR_A_WHILE}])
@pytest.mark.parametrize("mode", ["Gracefully", "Directly"])
@pytest.mark.parametrize("seed", range(10))
def test_objects_end_where_they_may_run(seed: int, placement: dict[str, Any], mode: str) -> None:
    world = World(seed, placement, failover={"cluster": {"purgeMode": mode}})
    for _ in range(STEPS):
        world.disturb()
    world.taint("m1", on=True)
    world.taint("m2", on=False)
    world.settle()
    world.now += 700
    world.settle()
    placed = world.last(PlacementDecided)
    names = [target.name for target in placed.clusters]
    assert "m1" not in names
    assert sum(target.replicas for target in placed.clusters) == 6 * (len(names) if "Dupl" in str(placement) else 1)
    assert sorted(world.works()) == names
    said = [event for event in world.log if isinstance(event, EvictionRequested)]
    assert len(said) <= 2 * world.flips + 2
    assert broken_evictions(enumerate(world.log, 1)) == []


ONLY_M1 = {"clusterAffinity": {"clusterNames": ["m1"]}}


@pytest.mark.parametrize("placement", [{**EVEN, **ONLY_M1}, {**COPIES, **ONLY_M1}])
def test_a_cluster_that_is_back_keeps_what_fits_nowhere_else(placement: dict[str, Any]) -> None:
    world = World(0, placement)
    world.taint("m1", on=True)
    world.settle()
    assert isinstance(world.last(PlacementDecided | PlacementFailed), PlacementFailed)
    assert set(world.works()) == {"m1"}
    world.now += 1
    world.taint("m1", on=False)
    world.settle()
    placed = world.last(PlacementDecided | PlacementFailed)
    assert isinstance(placed, PlacementDecided)
    assert [target.replicas for target in placed.clusters] == [6]
    assert len([event for event in world.log if isinstance(event, WorkRendered)]) == 1
    assert not [event for event in world.log if isinstance(event, WorkWithdrawn)]


@pytest.mark.parametrize("division", [EVEN, COPIES])
def test_a_cluster_that_fits_no_more_loses_what_it_kept(division: dict[str, Any]) -> None:
    labelled = {"clusterAffinity": {"labelSelector": {"matchLabels": {"fits": "yes"}}}}
    world = World(0, {**division, **labelled})
    world.log.append(cluster("m1", labels={"fits": "yes"}))
    world.settle()
    assert set(world.works()) == {"m1"}
    world.log.append(cluster("m1", taints=[TAINT]))
    world.settle()
    failed = world.last(PlacementFailed)
    world.now += 1
    world.log.append(cluster("m1"))
    world.settle()
    assert world.last(PlacementFailed).message == failed.message
    assert isinstance(world.last(PlacementDecided | PlacementFailed), PlacementFailed)
    assert not world.works()


@pytest.mark.parametrize("mode", ["Gracefully", "Directly"])
def test_what_is_tolerated_for_no_time_moves_once(mode: str) -> None:
    at_once = {"clusterTolerations": [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}]}
    world = World(0, {**EVEN, **at_once}, failover={"cluster": {"purgeMode": mode}})
    world.taint("m1", on=True)
    world.settle()
    assert set(world.works()) == {"m2", "m3"}
    assert isinstance(world.last(EvictionRequested | EvictionFinished), EvictionFinished)
    assert len([event for event in world.log if isinstance(event, EvictionRequested)]) == (
        1 if mode == "Gracefully" else 2
    )
    world.taint("m1", on=False)
    world.log.append(binding(7, {**EVEN, **at_once}))
    world.settle()
    assert set(world.works()) == {"m1", "m2", "m3"}
