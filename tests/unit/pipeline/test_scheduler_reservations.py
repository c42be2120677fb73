"""Two workloads that each fit alone but not together do not both get the same room; it is given on once it is free."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.binding import BindingReleased, BindingRequested
from schemas.events.estimate import CapacityEstimated, ClusterEstimate
from schemas.events.lease import LeaseTaken
from schemas.events.placement import PlacementDecided, PlacementEvent, PlacementFailed, PlacementReleased
from schemas.events.rollup import ClusterStatusItem, StatusRolledUp
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._kit.log.stream_port import Message
from services._rules.decision import Decision
from services.scheduler.app import ROOM, Scheduler
from services.scheduler.settings import SchedulerSettings
from tests.support.facts import binding, cluster

NOW = 1_793_232_000.0
AGGREGATED: Manifest = {
    "clusterAffinity": {"clusterNames": ["m1", "m2"]},
    "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
}


def member(name: str, cpu: int, used: int = 0) -> Known:
    fact = cluster(name)
    manifest = msgspec.json.decode(fact.manifest)
    summary = {"allocatable": {"cpu": str(cpu), "pods": "300"}, "allocated": {"cpu": str(used)}}
    manifest["status"]["resourceSummary"] = summary
    return msgspec.structs.replace(fact, manifest=msgspec.Raw(msgspec.json.encode(manifest)))


def key(name: str) -> ObjectKey:
    return ObjectKey("apps", "deployments", "default", name)


def asked(name: str, replicas: int, cpu: str = "1") -> BindingRequested:
    needs = {"replicaRequirements": {"resourceRequest": {"cpu": cpu}}}
    return msgspec.structs.replace(binding(replicas, AGGREGATED, **needs), key=key(name))


class Desk:
    """A scheduler at the end of a log; decided events are appended only when the test says so."""

    def __init__(self, *events: Known) -> None:
        self.service = Scheduler(SchedulerSettings())
        self.state = self.service.new_state()
        self.state.watch.begin()
        self.log: list[tuple[int, float, Known]] = []
        self.now = NOW
        self.given(*events)

    def given(self, *events: Known) -> None:
        for event in events:
            self.log.append((len(self.log) + 1, self.now, event))
            self.fold(*self.log[-1])

    def fold(self, seq: int, at: float, event: Known) -> None:
        message = Message(subject_of(event), seq, at, {}, b"")
        list(self.service.fold(self.state, message, event))

    def decides(self, name: str) -> PlacementEvent | None:
        """What is decided, on its way to the log."""
        found: Decision = self.service.decide(self.state, key(name), self.now)
        return found.events[0] if found.events else None  # type: ignore[return-value]

    def places(self, name: str) -> PlacementEvent | None:
        event = self.decides(name)
        if event is not None:
            self.given(msgspec.structs.replace(event, provenance=Provenance(as_of=len(self.log))))
        return event

    def estimates(self, name: str, **counts: int) -> None:
        self.given(
            CapacityEstimated(
                key=key(name),
                uid="u1",
                requirements_digest="x",
                estimates=tuple(ClusterEstimate(at, count) for at, count in counts.items()),
                provenance=Provenance(as_of=len(self.log)),
            )
        )

    def shows(self, name: str, **counts: int) -> None:
        items = tuple(
            ClusterStatusItem(cluster=at, status=msgspec.Raw(msgspec.json.encode({"replicas": count})))
            for at, count in counts.items()
        )
        self.given(StatusRolledUp(key=key(name), uid="u1", items=items))

    def restarted(self) -> Desk:
        """Another scheduler that reads the last fact of every subject."""
        other = Desk()
        last = {subject_of(event): (seq, at, event) for seq, at, event in self.log}
        for seq, at, event in sorted(last.values(), key=lambda item: item[0]):
            other.fold(seq, at, event)
        other.now = self.now
        return other

    def taken(self) -> dict[str, int]:
        return {name: sum(self.state.ledger.taken(name).values()) for name in ("m1", "m2")}


def shares(event: PlacementEvent | None) -> dict[str, int | None]:
    assert isinstance(event, PlacementDecided), event
    return {target.name: target.replicas for target in event.clusters}


def test_what_fits_alone_but_not_together_is_not_placed_twice_on_the_same_room() -> None:
    desk = Desk(member("m1", 4), member("m2", 2), asked("one", 4), asked("two", 4))
    assert shares(desk.places("one")) == {"m1": 4}
    second = desk.places("two")
    assert isinstance(second, PlacementFailed)
    assert second.reason == "Unschedulable"


def test_what_is_decided_counts_before_it_is_on_the_log() -> None:
    desk = Desk(member("m1", 4), asked("one", 4), asked("two", 4))
    assert shares(desk.decides("one")) == {"m1": 4}
    assert isinstance(desk.decides("two"), PlacementFailed)


def test_a_decision_that_is_made_again_does_not_stand_in_its_own_way() -> None:
    desk = Desk(member("m1", 4), asked("one", 4))
    assert shares(desk.decides("one")) == {"m1": 4}
    assert shares(desk.decides("one")) == {"m1": 4}


def test_room_is_given_on_once_its_holder_is_gone() -> None:
    desk = Desk(member("m1", 4), asked("one", 4), asked("two", 4))
    desk.places("one")
    desk.places("two")
    desk.given(BindingReleased(key=key("one"), uid="u1"))
    assert isinstance(desk.places("one"), PlacementReleased)
    assert shares(desk.places("two")) == {"m1": 4}


def test_pods_are_not_counted_both_as_given_away_and_in_the_summary() -> None:
    desk = Desk(member("m1", 4), asked("one", 2), asked("two", 2))
    desk.places("one")
    desk.now += 1
    desk.shows("one", m1=2)
    desk.now += 1
    desk.given(member("m1", 4, used=2))
    assert desk.taken()["m1"] == 0
    assert shares(desk.places("two")) == {"m1": 2}


def test_who_found_no_room_looks_again_when_a_reservation_ends_by_itself() -> None:
    desk = Desk(member("m1", 4), asked("one", 4), asked("two", 4))
    desk.places("one")
    found = desk.service.decide(desk.state, key("two"), desk.now)
    assert isinstance(found.events[0], PlacementFailed)
    assert found.also == [ROOM]
    assert found.wake_at is None
    desk.given(msgspec.structs.replace(found.events[0], provenance=Provenance(as_of=len(desk.log))))
    helped: list[ObjectKey] = []
    while not helped:
        look = desk.service.decide(desk.state, ROOM, desk.now)
        helped = list(look.also)
        if not helped:
            assert look.wake_at is not None
            assert desk.now < look.wake_at <= NOW + 305
            desk.now = look.wake_at
    assert helped == [key("two")]
    assert desk.now >= NOW + 300
    assert shares(desk.places("two")) == {"m1": 4}


def test_an_answer_from_before_other_placements_counts_less() -> None:
    desk = Desk(LeaseTaken(service="estimator", instance="e"), member("m1", 40), asked("one", 3), asked("two", 3))
    desk.estimates("one", m1=4)
    desk.estimates("two", m1=4)
    first = desk.places("one")
    assert shares(first) == {"m1": 3}
    assert isinstance(first, PlacementDecided)
    assert first.estimates == (ClusterEstimate("m1", 4),)
    second = desk.places("two")
    assert isinstance(second, PlacementFailed)
    assert second.estimates == (ClusterEstimate("m1", 1, reserved=3),)


def test_an_answer_from_after_other_placements_counts_whole() -> None:
    desk = Desk(LeaseTaken(service="estimator", instance="e"), member("m1", 40), asked("one", 3), asked("two", 3))
    desk.estimates("one", m1=4)
    desk.places("one")
    desk.estimates("two", m1=4)
    assert shares(desk.places("two")) == {"m1": 3}


def test_another_leader_does_not_count_what_the_former_only_decided() -> None:
    desk = Desk(member("m1", 4), asked("one", 4))
    desk.decides("one")
    desk.state.ledger.withdraw_all()
    assert desk.taken()["m1"] == 0


STEPS = st.lists(
    st.tuples(st.sampled_from(["place", "grow", "drop"]), st.integers(0, 3), st.integers(1, 4)), max_size=25
)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(2, 8), st.integers(2, 8))
def test_no_cluster_is_given_more_than_it_has(steps: list[tuple[str, int, int]], first: int, second: int) -> None:
    """Whatever is asked for and dropped: placements never add up to more than the clusters' room."""
    desk = Desk(member("m1", first), member("m2", second))
    for act, number, count in steps:
        name = f"web-{number}"
        desk.now += 1
        if act == "grow":
            desk.given(asked(name, count))
        elif act == "drop":
            desk.given(BindingReleased(key=key(name), uid="u1"))
            desk.places(name)
        elif act == "place" and key(name) in desk.state.objects:
            desk.places(name)
        total = {"m1": 0, "m2": 0}
        for scheduled in desk.state.objects.values():
            if scheduled.placed is not None:
                for target in scheduled.placed.clusters:
                    total[target.name] += target.replicas or 0
        assert total["m1"] <= first, steps
        assert total["m2"] <= second, steps
        assert desk.restarted().taken() == desk.taken()
