"""What the estimator answers, when, and that it is quiet otherwise; what the scheduler makes of it."""

from __future__ import annotations

from typing import Any

from schemas.codec import Known
from schemas.events.estimate import CapacityEstimated, ClusterEstimate
from schemas.events.eviction import EvictionFinished
from schemas.events.lease import LeaseTaken
from schemas.events.placement import PlacementDecided, PlacementEvent, PlacementFailed, PlacementReleased
from schemas.hints import Gone, Purged
from schemas.manifest import Manifest
from services._rules.capacity.node_index import MemberRooms
from services._rules.capacity.replica_estimate import Answers, Picture
from services.estimator import decide as estimator
from services.estimator.remote import MemberAnswers
from services.scheduler.decide import waits_until
from tests.support.facts import (
    AGGREGATED,
    DYNAMIC,
    KEY,
    NOW,
    STATIC,
    binding,
    cluster,
    cpus,
    edited,
    evicted,
    member,
    node,
    only,
    released,
    removed,
    rollup,
    targets,
)
from tests.support.harness import ESTIMATOR, SCHEDULER, Harness, place

TIMEOUT = 3.0


NEEDS = cpus(3)


def pod(name: str, on: str, cpu: str) -> Manifest:
    container = {"resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name, "namespace": "n"}, "spec": {"nodeName": on, "containers": [container]}}


def rooms(nodes: int = 3) -> MemberRooms:
    made = MemberRooms()
    made.list_nodes([node(f"node{number}") for number in range(nodes)])
    made.list_pods([])
    return made


class Pair(Harness):
    """Estimator and scheduler at the end of one log; what one of them decides both fold."""

    def __init__(self, *events: Known) -> None:
        self.scheduler, self.members = Harness(SCHEDULER).state, MemberAnswers()
        super().__init__(ESTIMATOR, LeaseTaken(service="estimator", instance="estimator-0"), *events)
        self.estimator = self.state

    def given(self, *events: Known) -> set[Any]:
        """Fold events into both."""
        before = self.seq
        marked = super().given(*events)
        for message, event in self.log[before:]:
            list(SCHEDULER.fold(self.scheduler, message, event))
        return marked

    def watches(self, **members: MemberRooms) -> None:
        for name, view in members.items():
            picture = Picture(quotas=False)
            picture.rooms = view
            self.members.nodes[name] = Answers(picture)

    def estimates(self) -> dict[str, int] | None:
        """What the estimator appends, by cluster; None where it has nothing to say."""
        event = next(iter(self.asked().events), None)
        if event is None:
            return None
        assert isinstance(event, CapacityEstimated)
        self.takes([event])
        return {item.cluster: item.replicas for item in event.estimates}

    def asked(self) -> estimator.EstimateDecision:
        """What the estimator makes of the answers of members."""
        return estimator.decide(self.estimator, self.members, KEY, NOW)

    def shows(self, event: PlacementEvent | None) -> None:
        """The members report what was placed."""
        self.given(rollup(**{name: {"replicas": count} for name, count in targets(event).items()}))

    def waits(self, now: float = NOW) -> float | None:
        return waits_until(self.scheduler, KEY, now, "default-scheduler", TIMEOUT)

    def places(self) -> PlacementEvent | None:
        event = place(self.scheduler, KEY)
        self.takes([] if event is None else [event])
        return event


def nodes(name: str, count: int = 3, **more: Any) -> Known:
    """The fact about a member of so many nodes with four CPUs, as its summary tells it."""
    return member(name, 4 * count, pods=300, **more)


def two(replicas: int = 4, placement: Manifest = AGGREGATED) -> Pair:
    """Two members with three nodes each, and a request."""
    return Pair(nodes("m1"), nodes("m2"), binding(replicas, placement, **NEEDS))


def said(name: str, replicas: int) -> ClusterEstimate:
    return ClusterEstimate(name, replicas, "nodes", at=NOW)


def settled(replicas: int = 4, placement: Manifest = AGGREGATED) -> Pair:
    """A pair that placed an object with an estimate of two members with three nodes each."""
    pair = two(replicas, placement)
    pair.watches(m1=rooms(), m2=rooms())
    assert pair.estimates() == {"m1": 3, "m2": 3}
    pair.shows(pair.places())
    return pair


def test_estimate_counts_what_fits_on_single_nodes() -> None:
    pair = two()
    alone = place(pair.scheduler, KEY)
    assert list(targets(alone).values()) == [4]
    assert isinstance(alone, PlacementDecided)
    assert alone.estimate_missed
    assert alone.estimates == ()
    pair.watches(m1=rooms(), m2=rooms())
    assert pair.estimates() == {"m1": 3, "m2": 3}
    event = pair.places()
    assert targets(event) == {"m1": 2, "m2": 2}
    assert isinstance(event, PlacementDecided)
    assert event.estimates == (said("m1", 3), said("m2", 3))
    assert not event.estimate_missed


def test_each_request_is_estimated_once() -> None:
    pair = settled()
    assert pair.estimates() is None
    pair.members.nodes["m1"].picture.rooms.put_pod(pod("p", "node0", "3"))
    assert pair.estimates() is None
    assert list(pair.estimator.due()) == []


def test_no_estimate_without_division_by_capacity() -> None:
    for placement in (STATIC, only("m1", "m2")):
        pair = two(4, placement)
        pair.watches(m1=rooms(), m2=rooms())
        assert pair.estimates() is None
        assert pair.waits() is None
        event = pair.places()
        assert isinstance(event, PlacementDecided)
        assert not event.estimate_missed
    pair = Pair(nodes("m1"), binding(0, AGGREGATED))
    assert pair.estimates() is None


def test_decision_waits_for_the_estimate_until_the_timeout() -> None:
    pair = two()
    assert pair.waits() == NOW + TIMEOUT
    assert pair.waits(NOW + TIMEOUT) is None
    pair.watches(m1=rooms(), m2=rooms())
    pair.estimates()
    assert pair.waits() is None
    pair.places()
    assert pair.waits() is None


def test_placed_object_waits_for_no_estimate() -> None:
    pair = two()
    pair.places()
    assert pair.waits() is None


def test_no_estimate_is_missed_without_an_estimator() -> None:
    pair = Pair(nodes("m1"), binding(1, AGGREGATED, **NEEDS))
    pair.scheduler.has_estimator = False
    assert pair.waits() is None
    event = pair.places()
    assert isinstance(event, PlacementDecided)
    assert not event.estimate_missed


def test_scaling_needs_another_estimate() -> None:
    pair = settled()
    pair.given(binding(6, AGGREGATED, **NEEDS))
    assert pair.waits() == NOW + TIMEOUT
    pair.members.nodes["m2"].picture.rooms.put_pod(pod("p", "node0", "3"))
    assert pair.estimates() == {"m1": 3, "m2": 2}
    assert pair.waits() is None
    assert sum(count or 0 for count in targets(pair.places()).values()) == 6


def test_eviction_needs_another_estimate() -> None:
    pair = settled(2, DYNAMIC)
    pair.given(evicted("m2"))
    assert pair.waits() == NOW + TIMEOUT
    assert pair.estimates() == {"m1": 3}
    assert pair.waits() is None
    assert targets(pair.places()) == {"m1": 2}
    pair.given(EvictionFinished(key=KEY, uid="u1", left=("m2",)))
    assert pair.estimates() is None


def test_leaving_target_needs_another_estimate() -> None:
    pair = settled(4)
    pair.given(nodes("m2", deleting=True))
    assert pair.waits() == NOW + TIMEOUT
    assert pair.estimates() == {"m1": 3}
    # Three fit, two run already.
    assert targets(pair.places()) == {"m1": 4}
    pair.given(removed("m2"))
    assert pair.estimates() is None
    assert pair.waits() is None


def test_unschedulable_is_estimated_again_when_it_differs() -> None:
    pair = two()
    first, second = rooms(1), rooms(2)
    pair.watches(m1=first, m2=second)
    assert pair.estimates() == {"m1": 1, "m2": 2}
    event = pair.places()
    assert isinstance(event, PlacementFailed)
    assert event.estimates == (said("m1", 1), said("m2", 2))
    assert pair.estimator.unplaced == {KEY}
    second.put_pod(pod("small", "node0", "500m"))
    assert pair.estimates() is None
    first.put_node(node("node1"))
    assert pair.estimates() == {"m1": 2, "m2": 2}
    assert targets(pair.places()) == {"m1": 2, "m2": 2}
    assert pair.estimator.unplaced == set()


def test_silent_member_changes_no_estimate() -> None:
    pair = two(9)
    pair.watches(m1=rooms(1), m2=rooms(2))
    pair.estimates()
    assert isinstance(pair.places(), PlacementFailed)
    del pair.members.nodes["m2"]
    assert pair.estimates() is None


def test_summary_counts_for_members_without_a_view() -> None:
    pair = two(4, DYNAMIC)
    pair.watches(m1=rooms(1))
    assert pair.estimates() == {"m1": 1, "m2": -1}
    event = pair.places()
    assert targets(event) == {"m1": 1, "m2": 3}
    assert isinstance(event, PlacementDecided)
    assert event.estimates == (said("m1", 1),)


def test_member_being_read_is_waited_for() -> None:
    pair = two()
    pair.watches(m1=rooms(), m2=MemberRooms())
    pair.members.opening["m2"] = NOW + 1
    assert pair.asked().wake_at == NOW + 1
    pair.members.opening["m2"] = NOW
    assert pair.estimates() == {"m1": 3, "m2": -1}


def test_unreadable_binding_gets_an_empty_estimate() -> None:
    broken = {"replicaRequirements": {"resourceRequest": {"cpu": "a lot"}}}
    pair = Pair(nodes("m1"), binding(4, AGGREGATED, **broken))
    assert pair.estimates() == {}
    assert pair.waits() is None
    assert isinstance(pair.places(), PlacementFailed)


def test_tolerations_node_selectors_and_cordons_count() -> None:
    claim = {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    needs = {"replicaRequirements": {"resourceRequest": {"cpu": "1"}, "nodeClaim": claim}}
    pair = Pair(nodes("m1"), binding(4, AGGREGATED, **needs))
    view = rooms(0)
    fast = {"metadata": {"name": "fast", "labels": {"disk": "ssd"}}, "status": node("x")["status"]}
    view.put_node({**fast, "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}})
    view.put_node(node("slow"))
    view.put_node({**fast, "metadata": {"name": "off", "labels": {"disk": "ssd"}}, "spec": {"unschedulable": True}})
    pair.watches(m1=view)
    assert pair.estimates() == {"m1": 4}


def test_new_object_of_same_name_is_estimated_and_forgotten() -> None:
    pair = settled()
    pair.given(released())
    assert pair.estimates() is None
    pair.given(binding(4, AGGREGATED, uid="u2", **NEEDS))
    assert pair.estimates() == {"m1": 3, "m2": 3}
    pair.given(released(uid="u2"), PlacementReleased(key=KEY, uid="u1"))
    pair.estimator.forget(Purged(objects=(Gone(KEY, pair.seq),)))
    assert pair.estimator.objects == {}
    assert pair.estimator.subjects == {}


def test_only_ready_push_members_are_watched() -> None:
    pair = Pair(nodes("m1"), nodes("m2", syncMode="Pull"))
    assert set(pair.estimator.access) == {"m1"}
    pair.given(edited(cluster("m1"), status={"conditions": [{"type": "Ready", "status": "False"}]}))
    assert pair.estimator.access == {}


def test_binding_stored_by_a_clock_ahead_is_not_waited_for() -> None:
    pair = two()
    assert pair.waits(NOW - TIMEOUT / 2) == NOW + TIMEOUT
    assert pair.waits(NOW - 3600.0) is None
