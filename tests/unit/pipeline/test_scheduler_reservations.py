"""Two workloads that each fit alone but not together do not both get the same room; it is given on once it is free."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import Known
from schemas.events.estimate import ClusterEstimate
from schemas.events.lease import LeaseTaken
from schemas.events.placement import PlacementDecided, PlacementFailed, PlacementReleased
from schemas.keys import ObjectKey
from services.scheduler.app import ROOM, Scheduler
from services.scheduler.settings import SchedulerSettings
from tests.support.facts import NOW, asked, estimated, key, member, released, rollup, targets
from tests.support.harness import Harness, running


class Reserving(Harness):
    """A scheduler whose decided events are appended only when the test says so."""

    def __init__(self, *events: Known) -> None:
        super().__init__(running(Scheduler(SchedulerSettings())), *events)
        self.state.watch.begin()

    def estimates(self, name: str, **counts: int) -> None:
        self.given(estimated(self.seq, name=name, **counts))

    def taken(self) -> dict[str, int]:
        return taken(self.state)


def taken(state: Any) -> dict[str, int]:
    """CPUs reserved in each cluster."""
    return {name: sum(state.ledger.taken(name).values()) for name in ("m1", "m2")}


def test_decision_reserves_before_it_is_stored() -> None:
    scheduler = Reserving(member("m1", 4), asked("one", 4), asked("two", 4))
    assert targets(scheduler.decided("one")) == {"m1": 4}
    assert isinstance(scheduler.decided("two"), PlacementFailed)


def test_released_placement_frees_its_reservation() -> None:
    scheduler = Reserving(member("m1", 4), asked("one", 4), asked("two", 4))
    scheduler.decides("one")
    scheduler.decides("two")
    scheduler.given(released("one"))
    assert isinstance(scheduler.decides("one"), PlacementReleased)
    assert targets(scheduler.decides("two")) == {"m1": 4}


def test_reservation_ends_once_the_summary_counts_its_pods() -> None:
    scheduler = Reserving(member("m1", 4), asked("one", 2), asked("two", 2))
    scheduler.decides("one")
    scheduler.now += 1
    scheduler.given(rollup(name="one", m1={"replicas": 2}))
    scheduler.now += 1
    scheduler.given(member("m1", 4, used={"cpu": "2"}))
    assert scheduler.taken()["m1"] == 0
    assert targets(scheduler.decides("two")) == {"m1": 2}


def test_expired_reservation_requeues_unschedulable() -> None:
    scheduler = Reserving(member("m1", 4), asked("one", 4), asked("two", 4))
    scheduler.decides("one")
    found = scheduler.decision("two")
    assert isinstance(found.events[0], PlacementFailed)
    assert found.also == [ROOM]
    assert found.wake_at is None
    scheduler.takes(found.events)
    helped: list[ObjectKey] = []
    while not helped:
        look = scheduler.decision(ROOM)
        helped = list(look.also)
        if not helped:
            assert look.wake_at is not None
            assert scheduler.now < look.wake_at <= NOW + 305
            scheduler.now = look.wake_at
    assert helped == [key("two")]
    assert scheduler.now >= NOW + 300
    assert targets(scheduler.decides("two")) == {"m1": 4}


def test_reservations_lower_an_earlier_estimate() -> None:
    scheduler = Reserving(
        LeaseTaken(service="estimator", instance="e"), member("m1", 40), asked("one", 3), asked("two", 3)
    )
    scheduler.estimates("one", m1=4)
    scheduler.estimates("two", m1=4)
    first = scheduler.decides("one")
    assert targets(first) == {"m1": 3}
    assert isinstance(first, PlacementDecided)
    assert first.estimates == (ClusterEstimate("m1", 4),)
    second = scheduler.decides("two")
    assert isinstance(second, PlacementFailed)
    assert second.estimates == (ClusterEstimate("m1", 1, reserved=3),)


def test_later_estimate_includes_earlier_placements() -> None:
    scheduler = Reserving(
        LeaseTaken(service="estimator", instance="e"), member("m1", 40), asked("one", 3), asked("two", 3)
    )
    scheduler.estimates("one", m1=4)
    scheduler.decides("one")
    scheduler.estimates("two", m1=4)
    assert targets(scheduler.decides("two")) == {"m1": 3}


STEPS = st.lists(
    st.tuples(st.sampled_from(["place", "grow", "drop"]), st.integers(0, 3), st.integers(1, 4)), max_size=25
)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(2, 8), st.integers(2, 8))
def test_placements_never_exceed_capacity(steps: list[tuple[str, int, int]], first: int, second: int) -> None:
    """Whatever is asked for and dropped: placements never add up to more than the clusters' room."""
    scheduler = Reserving(member("m1", first), member("m2", second))
    for act, number, count in steps:
        name = f"web-{number}"
        scheduler.now += 1
        if act == "grow":
            scheduler.given(asked(name, count))
        elif act == "drop":
            scheduler.given(released(name))
            scheduler.decides(name)
        elif act == "place" and key(name) in scheduler.state.objects:
            scheduler.decides(name)
        total = {"m1": 0, "m2": 0}
        for scheduled in scheduler.state.objects.values():
            if scheduled.placed is not None:
                for target in scheduled.placed.clusters:
                    total[target.name] += target.replicas or 0
        assert total["m1"] <= first, steps
        assert total["m2"] <= second, steps
        assert taken(scheduler.restarted().state) == scheduler.taken()
