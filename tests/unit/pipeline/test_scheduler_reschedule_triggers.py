"""What makes a binding be scheduled anew, what does not, and which generation counts as scheduled (reference 02 §1)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from schemas.events.binding import BindingRequested, RescheduleRequest
from schemas.events.cluster import ClusterRemoved
from schemas.events.placement import PlacementDecided, PlacementFailed, PlacementReleased, TargetCluster
from services._rules.scheduling.scheduling_views import SchedulingOptions
from services.gateway.state import Bound, Since
from services.gateway.views.binding_views import build
from services.scheduler.decide import Rules
from tests.support.facts import (
    AGGREGATED,
    NOW,
    ONE_CLUSTER,
    STATIC,
    binding,
    cluster,
    cpus,
    member,
    released,
    targets,
)
from tests.support.harness import Harness, scheduler_with

SEVERAL_TEMPLATES = scheduler_with(Rules(SchedulingOptions(several_templates=True)))


def at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_reschedule_request_is_answered_once() -> None:
    scheduler = Harness(SEVERAL_TEMPLATES, cluster("m1"), cluster("m2"), binding(2))
    first = scheduler.decides()
    scheduler.now += 60
    scheduler.given(binding(2, rescheduleTriggeredAt=at(scheduler.now - 10)))
    event = scheduler.decides()
    assert isinstance(first, PlacementDecided)
    assert isinstance(event, PlacementDecided)
    assert event.clusters == first.clusters
    assert event.trigger == "a reschedule was requested"
    assert event.scheduled_at == scheduler.now
    assert scheduler.decides() is None


def test_reschedule_request_from_the_future_waits() -> None:
    scheduler = Harness(SEVERAL_TEMPLATES, cluster("m1"), cluster("m2"), binding(2))
    scheduler.decides()
    scheduler.given(binding(2, rescheduleTriggeredAt=at(NOW + 3600)))
    assert scheduler.decides() is None
    scheduler.now += 3600
    assert isinstance(scheduler.decides(), PlacementDecided)
    assert scheduler.decides() is None


def components(**more: Any) -> BindingRequested:
    placement = {**AGGREGATED, **ONE_CLUSTER}
    parts = [{"name": "workers", "replicas": 2, **cpus()}]
    return replace(binding(0, placement, components=parts, **more), workload=True)


def test_unplaced_component_set_is_retried_and_placed_one_stays() -> None:
    scheduler = Harness(SEVERAL_TEMPLATES, member("m1", 1), components())
    assert isinstance(scheduler.decides(), PlacementFailed)
    scheduler.given(member("m1", 8))
    event = scheduler.decides()
    assert isinstance(event, PlacementDecided)
    assert list(targets(event)) == ["m1"]
    assert scheduler.decides() is None
    scheduler.given(member("m2", 80))
    assert scheduler.decides() is None


def test_resumed_binding_schedules_what_changed_meanwhile() -> None:
    scheduler = Harness(SEVERAL_TEMPLATES, cluster("m1"), cluster("m2"), binding(2))
    scheduler.decides()
    scheduler.given(binding(6, suspension={"scheduling": True}))
    assert scheduler.decides() is None
    scheduler.given(binding(6))
    event = scheduler.decides()
    assert isinstance(event, PlacementDecided)
    assert event.replicas == 6


def test_binding_claimed_again_is_scheduled_again() -> None:
    scheduler = Harness(SEVERAL_TEMPLATES, cluster("m1"), cluster("m2"), binding(2))
    scheduler.decides()
    scheduler.given(released())
    assert isinstance(scheduler.decides(), PlacementReleased)
    scheduler.given(binding(2))
    event = scheduler.decides()
    assert isinstance(event, PlacementDecided)
    assert event.trigger == "the placement changed"


def test_released_binding_ends_failed_placement() -> None:
    scheduler = Harness(SEVERAL_TEMPLATES, binding(2))
    assert isinstance(scheduler.decides(), PlacementFailed)
    scheduler.given(released())
    assert isinstance(scheduler.decides(), PlacementReleased)
    assert scheduler.decides() is None


def shown(request: BindingRequested, placed: PlacementDecided | PlacementFailed, observed: int) -> dict[str, Any]:
    bound = Bound(
        binding=request, placement=placed, scheduled=Since(True, NOW), observed_generation=observed, placement_seq=2
    )
    status: dict[str, Any] = build(bound, "7")["status"]
    return status


def decided(**more: Any) -> tuple[Harness, PlacementDecided]:
    scheduler = Harness(SEVERAL_TEMPLATES, cluster("m1"), cluster("m2"), binding(2, **more))
    event = scheduler.decides()
    assert isinstance(event, PlacementDecided)
    return scheduler, event


def test_change_without_scheduling_need_counts_as_scheduled() -> None:
    scheduler, event = decided()
    later = replace(binding(2, conflictResolution="Overwrite"), generation=4)
    scheduler.given(later)
    assert scheduler.decides() is None
    assert event.changes == 1
    assert shown(later, event, 1)["schedulerObservedGeneration"] == 4 + event.changes


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
def test_undecided_change_does_not_count_as_scheduled(later: BindingRequested) -> None:
    _, event = decided()
    later = replace(later, generation=4)
    assert shown(later, event, 1)["schedulerObservedGeneration"] == 1


def asked(seconds: float, *by: str, generation: int = 2, replicas: int = 2, **more: Any) -> BindingRequested:
    """A binding with a request of rebalancers."""
    request = binding(replicas, rescheduleTriggeredAt=at(seconds), **more)
    return replace(request, generation=generation, reschedule=RescheduleRequest(by or ("all",), generation))


def test_request_in_the_second_of_the_last_success_counts_once() -> None:
    scheduler = Harness(SEVERAL_TEMPLATES, cluster("m1"), cluster("m2"), binding(2))
    first = scheduler.decides()
    assert isinstance(first, PlacementDecided)
    scheduler.now += 0.4
    scheduler.given(asked(NOW))
    event = scheduler.decides()
    assert isinstance(event, PlacementDecided)
    assert event.trigger == "rescheduled because of WorkloadRebalancer all"
    assert event.rescheduled == 2
    assert scheduler.decides() is None
    assert scheduler.restarted().decided() is None
    scheduler.given(asked(NOW, "all", "more", generation=3))
    assert isinstance(scheduler.decides(), PlacementDecided)
    assert scheduler.decides() is None


def test_request_of_an_older_rebalancer_is_ignored() -> None:
    scheduler = Harness(SEVERAL_TEMPLATES, cluster("m1"), cluster("m2"), binding(2))
    scheduler.decides()
    scheduler.given(asked(NOW - 5))
    scheduler.now += 60
    assert scheduler.decides() is None


def test_request_by_a_clock_ahead_is_answered_once() -> None:
    scheduler = Harness(SEVERAL_TEMPLATES, cluster("m1"), cluster("m2"), binding(2))
    scheduler.decides()
    scheduler.given(asked(NOW + 3600))
    assert isinstance(scheduler.decides(), PlacementDecided)
    assert scheduler.decides() is None


def test_drifted_replicas_return_to_their_weights() -> None:
    scheduler = Harness(SEVERAL_TEMPLATES, cluster("m1"), cluster("m2"), binding(4, STATIC))
    placed = scheduler.decides()
    scheduler.given(replace(placed, clusters=(TargetCluster("m2", 4),)))
    assert scheduler.decides() is None
    scheduler.now += 60
    scheduler.given(asked(scheduler.now, replicas=4, placement=STATIC))
    assert targets(scheduler.decides()) == {"m1": 2, "m2": 2}


def test_request_stays_open_until_a_success() -> None:
    """given a request that no cluster can take, when clusters are back, then the success answers it."""
    scheduler = Harness(SEVERAL_TEMPLATES, cluster("m1"), cluster("m2"), binding(4, STATIC))
    scheduler.decides()
    scheduler.given(ClusterRemoved(name="m1", uid="u"), ClusterRemoved(name="m2", uid="u"))
    scheduler.now += 60
    scheduler.given(asked(scheduler.now, replicas=4, placement=STATIC))
    failed = scheduler.decides()
    assert isinstance(failed, PlacementFailed)
    assert failed.rescheduled == 0
    scheduler.given(cluster("m1"), cluster("m2"))
    placed = scheduler.decides()
    assert targets(placed) == {"m1": 2, "m2": 2}
    assert placed.rescheduled == 2
    assert scheduler.decides() is None
