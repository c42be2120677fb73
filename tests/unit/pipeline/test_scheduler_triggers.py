"""What makes a binding be scheduled anew, what does not, and which generation counts as scheduled (reference 02 §1)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.binding import BindingReleased, BindingRequested
from schemas.events.placement import PlacementDecided, PlacementEvent, PlacementFailed, PlacementReleased
from services._rules.scheduling.scheduling_views import SchedulingOptions
from services.gateway.state import Bound, Since
from services.gateway.views.binding_views import build
from services.scheduler.decide import Rules
from services.scheduler.state import SchedulerState, fold
from tests.support.facts import KEY, STATIC, binding, cluster
from tests.support.placements import decide

NOW = 1_793_232_000.0
AGGREGATED: dict[str, Any] = {
    "clusterAffinity": {"clusterNames": ["m1", "m2"]},
    "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
}


def at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class World:
    """A scheduler's state at the end of a log, and the time."""

    def __init__(self, *events: Known, gate: bool = True) -> None:
        self.state = SchedulerState()
        self.rules = Rules(SchedulingOptions(several_templates=gate))
        self.seq = 0
        self.now = NOW
        self.given(*events)

    def given(self, *events: Known) -> None:
        for event in events:
            self.seq += 1
            list(fold(self.state, self.seq, subject_of(event), event, self.now))

    def decides(self) -> PlacementEvent | None:
        event = decide(self.state, KEY, self.now, "default-scheduler", self.rules)
        if event is not None:
            self.given(msgspec.structs.replace(event, provenance=Provenance(as_of=self.seq)))
        return event


def member(name: str, cpu: int) -> Known:
    fact = cluster(name)
    manifest = msgspec.json.decode(fact.manifest)
    manifest["status"]["resourceSummary"] = {"allocatable": {"cpu": str(cpu), "pods": "1000"}}
    return msgspec.structs.replace(fact, manifest=msgspec.Raw(msgspec.json.encode(manifest)))


def test_a_request_for_a_new_schedule_is_answered_once_even_if_nothing_moves() -> None:
    world = World(cluster("m1"), cluster("m2"), binding(2))
    first = world.decides()
    world.now += 60
    world.given(binding(2, rescheduleTriggeredAt=at(world.now - 10)))
    event = world.decides()
    assert isinstance(first, PlacementDecided)
    assert isinstance(event, PlacementDecided)
    assert event.clusters == first.clusters
    assert event.trigger == "a reschedule was requested"
    assert event.scheduled_at == world.now
    assert world.decides() is None


@pytest.mark.parametrize("offset", [0.0, -5.0])
def test_a_request_from_the_second_of_the_last_success_or_before_asks_for_nothing(offset: float) -> None:
    world = World(cluster("m1"), cluster("m2"), binding(2))
    world.decides()
    world.given(binding(2, rescheduleTriggeredAt=at(NOW + offset)))
    world.now += 60
    assert world.decides() is None


def test_a_request_from_the_future_writes_nothing_that_it_would_not_end() -> None:
    world = World(cluster("m1"), cluster("m2"), binding(2))
    world.decides()
    world.given(binding(2, rescheduleTriggeredAt=at(NOW + 3600)))
    assert world.decides() is None
    world.now += 3600
    assert isinstance(world.decides(), PlacementDecided)
    assert world.decides() is None


def test_a_new_schedule_divides_afresh_and_the_next_scaling_does_not() -> None:
    world = World(member("m1", 4), member("m2", 0), binding(4, AGGREGATED))
    world.decides()
    world.given(member("m1", 0), member("m2", 9))
    world.now += 60
    world.given(binding(4, AGGREGATED, rescheduleTriggeredAt=at(world.now - 1)))
    moved = world.decides()
    assert isinstance(moved, PlacementDecided)
    world.now += 60
    world.given(binding(5, AGGREGATED, rescheduleTriggeredAt=at(world.now - 61)))
    scaled = world.decides()
    assert isinstance(scaled, PlacementDecided)
    assert scaled.trigger == "the number of replicas changed"
    kept = {target.name: target.replicas or 0 for target in moved.clusters}
    assert all((target.replicas or 0) >= kept.get(target.name, 0) for target in scaled.clusters)


def components(**more: Any) -> BindingRequested:
    placement = {**AGGREGATED, "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}
    parts = [{"name": "workers", "replicas": 2, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}}]
    return msgspec.structs.replace(binding(0, placement, components=parts, **more), workload=True)


def test_a_set_of_components_that_runs_nowhere_is_tried_again_and_one_that_runs_stays() -> None:
    world = World(member("m1", 1), components())
    assert isinstance(world.decides(), PlacementFailed)
    world.given(member("m1", 8))
    event = world.decides()
    assert isinstance(event, PlacementDecided)
    assert [target.name for target in event.clusters] == ["m1"]
    assert world.decides() is None
    world.given(member("m2", 80))
    assert world.decides() is None


def test_suspending_stops_and_resuming_schedules_what_changed_meanwhile() -> None:
    world = World(cluster("m1"), cluster("m2"), binding(2))
    world.decides()
    world.given(binding(6, suspension={"scheduling": True}))
    assert world.decides() is None
    world.given(binding(6))
    event = world.decides()
    assert isinstance(event, PlacementDecided)
    assert event.replicas == 6


def test_a_binding_that_is_released_and_claimed_again_is_scheduled_again() -> None:
    world = World(cluster("m1"), cluster("m2"), binding(2))
    world.decides()
    world.given(BindingReleased(key=KEY, uid="u1"))
    assert isinstance(world.decides(), PlacementReleased)
    world.given(binding(2))
    event = world.decides()
    assert isinstance(event, PlacementDecided)
    assert event.trigger == "the placement changed"


def test_the_end_of_a_failed_object_is_said_too() -> None:
    world = World(binding(2))
    assert isinstance(world.decides(), PlacementFailed)
    world.given(BindingReleased(key=KEY, uid="u1"))
    assert isinstance(world.decides(), PlacementReleased)
    assert world.decides() is None


def shown(request: BindingRequested, placed: PlacementDecided | PlacementFailed, observed: int) -> dict[str, Any]:
    bound = Bound(
        binding=request, placement=placed, scheduled=Since(True, NOW), observed_generation=observed, placement_seq=2
    )
    status: dict[str, Any] = build(bound, "7")["status"]
    return status


def decided(**more: Any) -> tuple[World, PlacementDecided]:
    world = World(cluster("m1"), cluster("m2"), binding(2, **more))
    event = world.decides()
    assert isinstance(event, PlacementDecided)
    return world, event


def test_a_change_that_asks_for_nothing_new_counts_as_scheduled() -> None:
    world, event = decided()
    later = msgspec.structs.replace(binding(2, conflictResolution="Overwrite"), generation=4)
    world.given(later)
    assert world.decides() is None
    assert shown(later, event, 1)["schedulerObservedGeneration"] == 4


@pytest.mark.parametrize(
    "later",
    [
        binding(3),
        binding(2, {**STATIC, "clusterTolerations": [{"operator": "Exists"}]}),
        binding(2, rescheduleTriggeredAt=at(NOW + 50)),
        binding(2, suspension={"scheduling": True}),
    ],
    ids=["replicas", "placement", "reschedule", "suspended"],
)
def test_a_change_that_is_not_decided_on_yet_does_not(later: BindingRequested) -> None:
    _, event = decided()
    later = msgspec.structs.replace(later, generation=4)
    assert shown(later, event, 1)["schedulerObservedGeneration"] == 1
