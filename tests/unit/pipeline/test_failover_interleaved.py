"""Failover, scheduler and renderer on one log, each as far behind as chance has it and restarted at any moment."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.eviction import EvictionFinished, EvictionRequested
from schemas.events.placement import PlacementDecided
from schemas.events.rollup import Cleared, ClusterStatusItem, StatusRolledUp
from schemas.events.work import WorkRendered, WorkWithdrawn
from services._rules.effective import evicted_clusters
from services.failover.decide import Rules
from services.failover.decide import decide as decide_failover
from services.failover.state import FailoverState
from services.failover.state import fold as fold_failover
from services.override_renderer.decide import AtHand
from services.override_renderer.decide import decide as decide_works
from services.override_renderer.state import RendererState
from services.override_renderer.state import fold as fold_works
from services.scheduler.state import SchedulerState
from services.scheduler.state import fold as fold_placement
from tests.support.facts import KEY, binding, cluster, template
from tests.support.placements import decide as decide_placement

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


class Reader:
    """One service: its projection, how far it has read, and what it decides."""

    def __init__(
        self,
        new: Callable[[], Any],
        fold: Callable[[Any, int, str, Known], Iterable[Any]],
        decide: Callable[[Any, float], Iterable[Known]],
    ) -> None:
        self._new, self._fold, self._decide = new, fold, decide
        self.state = new()
        self.position = 0

    def restart(self, log: list[Known]) -> None:
        """Start with the last event of every subject."""
        self.state, self.position = self._new(), len(log)
        newest = {subject_of(event): (seq, event) for seq, event in enumerate(log, 1)}
        for subject, (seq, event) in sorted(newest.items(), key=lambda item: item[1][0]):
            list(self._fold(self.state, seq, subject, event) or ())

    def step(self, log: list[Known], until: int, now: float) -> int:
        """Read up to a position and append what follows; the number of events."""
        for seq in range(self.position + 1, until + 1):
            event = log[seq - 1]
            list(self._fold(self.state, seq, subject_of(event), event) or ())
        self.position = max(self.position, until)
        decided = list(self._decide(self.state, now))
        for event in decided:
            seen = replace(event.provenance, as_of=self.position, decided_at=now)
            log.append(replace(event, provenance=seen))
        if decided:
            # A service sees its own events before it decides again.
            self.step_to_end(log)
        return len(decided)

    def step_to_end(self, log: list[Known]) -> None:
        for seq in range(self.position + 1, len(log) + 1):
            event = log[seq - 1]
            list(self._fold(self.state, seq, subject_of(event), event) or ())
        self.position = len(log)


def _only(event: Known | None) -> list[Known]:
    return [] if event is None else [event]


class World:
    """The log and its readers; members do what works say whenever the world reports."""

    def __init__(self, seed: int, placement: dict[str, Any], **spec: Any) -> None:
        self.random = random.Random(seed)
        self.now = 1_700_000_000.0
        self.log: list[Known] = []
        self.readers = [
            Reader(FailoverState, fold_failover, lambda s, now: decide_failover(s, KEY, now, RULES).events),
            Reader(
                SchedulerState, fold_placement, lambda s, now: _only(decide_placement(s, KEY, now, "default-scheduler"))
            ),
            Reader(RendererState, fold_works, lambda s, _: decide_works(s, KEY, AtHand()).events),
        ]
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
                reader.step(self.log, self.random.randint(reader.position, len(self.log)), self.now)

    def settle(self) -> None:
        """Everybody reads to the end until nobody has anything to say."""
        for _ in range(60):
            said = sum(reader.step(self.log, len(self.log), self.now) for reader in self.readers)
            if not said and not self.report():
                return
        kinds = [type(event).__name__ for event in self.log[-30:]]
        raise AssertionError(f"no end to it: {kinds}")


def _status(work: WorkRendered) -> bytes:
    assert isinstance(work.manifest, Raw)
    replicas = msgspec.json.decode(work.manifest)["spec"]["replicas"]
    return msgspec.json.encode({"replicas": replicas, "readyReplicas": replicas})


def check_never_resurrected(log: list[Known]) -> None:
    """No work is written for a cluster between its eviction and a placement that was decided in view of it."""
    away: dict[str, int] = {}
    for seq, event in enumerate(log, 1):
        if isinstance(event, EvictionRequested | EvictionFinished):
            away.update((name, away.get(name, seq)) for name in evicted_clusters(event))
        elif isinstance(event, PlacementDecided):
            for target in event.clusters:
                if event.provenance.as_of >= away.get(target.name, 0):
                    away.pop(target.name, None)
        elif isinstance(event, WorkRendered) and event.cluster in away:
            # Whoever rendered it may not have read the eviction yet, but nobody may write it knowing of it.
            assert event.provenance.as_of < away[event.cluster], f"{event.cluster} came back at {seq}"


@pytest.mark.parametrize("placement", [EVEN, COPIES, {**EVEN, **FOR_A_WHILE}, {**COPIES, **FOR_A_WHILE}])
@pytest.mark.parametrize("mode", ["Gracefully", "Directly"])
@pytest.mark.parametrize("seed", range(10))
def test_whatever_happens_in_between_objects_end_where_they_may_be(
    seed: int, placement: dict[str, Any], mode: str
) -> None:
    world = World(seed, placement, failover={"cluster": {"purgeMode": mode}})
    for _ in range(STEPS):
        world.disturb()
    check_never_resurrected(world.log)
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
    check_never_resurrected(world.log)
