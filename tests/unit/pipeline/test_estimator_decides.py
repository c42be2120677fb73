"""What the estimator answers, when, and that it is quiet otherwise; what the scheduler makes of it."""

from __future__ import annotations

from typing import Any

import msgspec

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.binding import BindingReleased
from schemas.events.cluster import ClusterRemoved
from schemas.events.estimate import CapacityEstimated, ClusterEstimate
from schemas.events.eviction import EvictionFinished, EvictionRequested, EvictionTask
from schemas.events.lease import LeaseTaken
from schemas.events.placement import PlacementDecided, PlacementEvent, PlacementFailed, PlacementReleased
from schemas.events.rollup import ClusterStatusItem, StatusRolledUp
from schemas.hints import Gone, Purged
from schemas.manifest import Manifest
from services._rules.capacity.node_index import MemberRooms
from services._rules.capacity.replica_estimate import Answers, Picture
from services.estimator import decide as estimator
from services.estimator import state as estimator_state
from services.scheduler import state as scheduler_state
from services.scheduler.decide import waits_until
from tests.support.facts import KEY, STATIC, binding, cluster
from tests.support.placements import decide as place

NOW = 1_793_232_000.0
TIMEOUT = 3.0
AGGREGATED: Manifest = {
    "clusterAffinity": {"clusterNames": ["m1", "m2"]},
    "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
}
BY_ROOM: Manifest = {
    "clusterAffinity": {"clusterNames": ["m1", "m2"]},
    "replicaScheduling": {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    },
}
NEEDS = {"replicaRequirements": {"resourceRequest": {"cpu": "3"}}}


def member(name: str, nodes: int = 3, *, deleting: bool = False, **more: Any) -> Known:
    """The fact about a member of so many nodes with four CPUs, as its summary tells it."""
    fact = cluster(name, deleting=deleting, **more)
    manifest = msgspec.json.decode(fact.manifest)
    manifest["status"]["resourceSummary"] = {"allocatable": {"cpu": str(4 * nodes), "pods": "300"}}
    return msgspec.structs.replace(fact, manifest=msgspec.Raw(msgspec.json.encode(manifest)))


def node(name: str, cpu: str = "4", **spec: Any) -> Manifest:
    return {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": {"cpu": cpu, "pods": "100"}}}


def pod(name: str, on: str, cpu: str) -> Manifest:
    container = {"resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name, "namespace": "n"}, "spec": {"nodeName": on, "containers": [container]}}


def rooms(nodes: int = 3) -> MemberRooms:
    made = MemberRooms()
    made.list_nodes([node(f"node{number}") for number in range(nodes)])
    made.list_pods([])
    return made


class Pair:
    """Estimator and scheduler at the end of one log; what one of them decides both fold."""

    def __init__(self, *events: Known) -> None:
        self.estimator = estimator_state.EstimatorState()
        self.scheduler = scheduler_state.SchedulerState()
        self.seq = 0
        self.given(LeaseTaken(service="estimator", instance="estimator-0"), *events)

    def given(self, *events: Known) -> None:
        for event in events:
            self.seq += 1
            subject = subject_of(event)
            list(estimator_state.fold(self.estimator, self.seq, subject, event))
            list(scheduler_state.fold(self.scheduler, self.seq, subject, event, NOW))

    def watches(self, **members: MemberRooms) -> None:
        for name, view in members.items():
            picture = Picture(quotas=False)
            picture.rooms = view
            self.estimator.answers[name] = Answers(picture)

    def estimates(self) -> dict[str, int] | None:
        """What the estimator appends, by cluster; None where it has nothing to say."""
        event = next(iter(estimator.decide(self.estimator, KEY, NOW).events), None)
        if event is None:
            return None
        assert isinstance(event, CapacityEstimated)
        self.given(msgspec.structs.replace(event, provenance=Provenance(as_of=self.seq)))
        return {item.cluster: item.replicas for item in event.estimates}

    def shows(self, event: PlacementEvent | None) -> None:
        """The members report what was placed."""
        items = tuple(
            ClusterStatusItem(cluster=name, status=msgspec.Raw(msgspec.json.encode({"replicas": count})))
            for name, count in shares(event).items()
        )
        self.given(StatusRolledUp(key=KEY, uid="u1", items=items))

    def waits(self, now: float = NOW) -> float | None:
        return waits_until(self.scheduler, KEY, now, "default-scheduler", TIMEOUT)

    def places(self) -> PlacementEvent | None:
        event = place(self.scheduler, KEY, NOW, "default-scheduler")
        if event is not None:
            event = msgspec.structs.replace(event, provenance=Provenance(as_of=self.seq))
            self.given(event)
        return event


def said(name: str, replicas: int) -> ClusterEstimate:
    return ClusterEstimate(name, replicas, "nodes", at=NOW)


def shares(event: PlacementEvent | None) -> dict[str, int | None]:
    assert isinstance(event, PlacementDecided)
    return {target.name: target.replicas for target in event.clusters}


def settled(replicas: int = 4, placement: Manifest = AGGREGATED) -> Pair:
    """A pair that placed an object with an estimate of two members with three nodes each."""
    pair = Pair(member("m1"), member("m2"), binding(replicas, placement, **NEEDS))
    pair.watches(m1=rooms(), m2=rooms())
    assert pair.estimates() == {"m1": 3, "m2": 3}
    pair.shows(pair.places())
    return pair


def test_without_an_estimate_the_sum_of_nodes_fools_and_with_it_nothing_is_sent_where_no_node_has_room() -> None:
    pair = Pair(member("m1"), member("m2"), binding(4, AGGREGATED, **NEEDS))
    alone = place(pair.scheduler, KEY, NOW, "default-scheduler")
    assert list(shares(alone).values()) == [4]
    assert isinstance(alone, PlacementDecided)
    assert alone.estimate_missed
    assert alone.estimates == ()
    pair.watches(m1=rooms(), m2=rooms())
    assert pair.estimates() == {"m1": 3, "m2": 3}
    event = pair.places()
    assert shares(event) == {"m1": 2, "m2": 2}
    assert isinstance(event, PlacementDecided)
    assert event.estimates == (said("m1", 3), said("m2", 3))
    assert not event.estimate_missed


def test_dynamic_weights_follow_the_estimate() -> None:
    pair = Pair(member("m1"), member("m2"), binding(4, BY_ROOM, **NEEDS))
    pair.watches(m1=rooms(1), m2=rooms(3))
    assert pair.estimates() == {"m1": 1, "m2": 3}
    assert shares(pair.places()) == {"m1": 1, "m2": 3}


def test_one_question_is_answered_once() -> None:
    pair = settled()
    assert pair.estimates() is None
    pair.estimator.answers["m1"].picture.rooms.put_pod(pod("p", "node0", "3"))
    assert pair.estimates() is None
    assert list(pair.estimator.due()) == []


def test_nobody_asks_for_what_is_not_divided_by_room() -> None:
    duplicated = {"clusterAffinity": {"clusterNames": ["m1", "m2"]}}
    for placement in (STATIC, duplicated):
        pair = Pair(member("m1"), member("m2"), binding(4, placement, **NEEDS))
        pair.watches(m1=rooms(), m2=rooms())
        assert pair.estimates() is None
        assert pair.waits() is None
        event = pair.places()
        assert isinstance(event, PlacementDecided)
        assert not event.estimate_missed
    pair = Pair(member("m1"), binding(0, AGGREGATED))
    assert pair.estimates() is None


def test_a_decision_waits_for_the_answer_and_not_longer_than_the_timeout() -> None:
    pair = Pair(member("m1"), member("m2"), binding(4, AGGREGATED, **NEEDS))
    assert pair.waits() == NOW + TIMEOUT
    assert pair.waits(NOW + TIMEOUT) is None
    pair.watches(m1=rooms(), m2=rooms())
    pair.estimates()
    assert pair.waits() is None
    pair.places()
    assert pair.waits() is None


def test_what_needs_no_decision_waits_for_nothing() -> None:
    pair = Pair(member("m1"), member("m2"), binding(4, AGGREGATED, **NEEDS))
    pair.places()
    assert pair.waits() is None


def test_where_no_estimator_ever_led_nothing_is_waited_for_or_missed() -> None:
    pair = Pair(member("m1"), binding(1, AGGREGATED, **NEEDS))
    pair.scheduler.has_estimator = False
    assert pair.waits() is None
    event = pair.places()
    assert isinstance(event, PlacementDecided)
    assert not event.estimate_missed


def test_scaling_asks_anew_and_an_old_answer_does_not_count() -> None:
    pair = settled()
    pair.given(binding(6, AGGREGATED, **NEEDS))
    assert pair.waits() == NOW + TIMEOUT
    pair.estimator.answers["m2"].picture.rooms.put_pod(pod("p", "node0", "3"))
    assert pair.estimates() == {"m1": 3, "m2": 2}
    assert pair.waits() is None
    assert sum(count or 0 for count in shares(pair.places()).values()) == 6


def test_an_eviction_asks_anew_until_a_placement_has_seen_it() -> None:
    pair = settled(2, BY_ROOM)
    task = EvictionTask(from_cluster="m2", reason="TaintUntolerated", producer="TaintManager")
    pair.given(EvictionRequested(key=KEY, uid="u1", tasks=(task,)))
    assert pair.waits() == NOW + TIMEOUT
    assert pair.estimates() == {"m1": 3}
    assert pair.waits() is None
    assert shares(pair.places()) == {"m1": 2}
    pair.given(EvictionFinished(key=KEY, uid="u1", left=("m2",)))
    assert pair.estimates() is None


def test_a_target_that_leaves_asks_anew() -> None:
    pair = settled(4)
    pair.given(member("m2", deleting=True))
    assert pair.waits() == NOW + TIMEOUT
    assert pair.estimates() == {"m1": 3}
    # Three fit, two run already.
    assert shares(pair.places()) == {"m1": 4}
    pair.given(ClusterRemoved(name="m2", uid="uid-m2"))
    assert pair.estimates() is None
    assert pair.waits() is None


def test_what_was_not_placed_is_estimated_again_when_that_makes_a_difference() -> None:
    pair = Pair(member("m1"), member("m2"), binding(4, AGGREGATED, **NEEDS))
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
    assert shares(pair.places()) == {"m1": 2, "m2": 2}
    assert pair.estimator.unplaced == set()


def test_a_member_that_falls_silent_is_no_news_for_what_was_not_placed() -> None:
    pair = Pair(member("m1"), member("m2"), binding(9, AGGREGATED, **NEEDS))
    pair.watches(m1=rooms(1), m2=rooms(2))
    pair.estimates()
    assert isinstance(pair.places(), PlacementFailed)
    del pair.estimator.answers["m2"]
    assert pair.estimates() is None


def test_members_without_a_view_have_no_opinion_and_the_summary_counts() -> None:
    pair = Pair(member("m1"), member("m2"), binding(4, BY_ROOM, **NEEDS))
    pair.watches(m1=rooms(1))
    assert pair.estimates() == {"m1": 1, "m2": -1}
    event = pair.places()
    assert shares(event) == {"m1": 1, "m2": 3}
    assert isinstance(event, PlacementDecided)
    assert event.estimates == (said("m1", 1),)


def test_a_member_that_is_still_being_read_is_waited_for_a_while() -> None:
    pair = Pair(member("m1"), member("m2"), binding(4, AGGREGATED, **NEEDS))
    pair.watches(m1=rooms(), m2=MemberRooms())
    pair.estimator.opening["m2"] = NOW + 1
    assert estimator.decide(pair.estimator, KEY, NOW).wake_at == NOW + 1
    pair.estimator.opening["m2"] = NOW
    assert pair.estimates() == {"m1": 3, "m2": -1}


def test_a_binding_that_cannot_be_read_is_answered_so_that_nobody_waits() -> None:
    broken = {"replicaRequirements": {"resourceRequest": {"cpu": "a lot"}}}
    pair = Pair(member("m1"), binding(4, AGGREGATED, **broken))
    assert pair.estimates() == {}
    assert pair.waits() is None
    assert isinstance(pair.places(), PlacementFailed)


def test_tolerations_node_selectors_and_cordons_count() -> None:
    claim = {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    needs = {"replicaRequirements": {"resourceRequest": {"cpu": "1"}, "nodeClaim": claim}}
    pair = Pair(member("m1"), binding(4, AGGREGATED, **needs))
    view = rooms(0)
    fast = {"metadata": {"name": "fast", "labels": {"disk": "ssd"}}, "status": node("x")["status"]}
    view.put_node({**fast, "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}})
    view.put_node(node("slow"))
    view.put_node({**fast, "metadata": {"name": "off", "labels": {"disk": "ssd"}}, "spec": {"unschedulable": True}})
    pair.watches(m1=view)
    assert pair.estimates() == {"m1": 4}


def test_a_new_object_of_the_same_name_gets_an_estimate_of_its_own_and_what_is_gone_is_forgotten() -> None:
    pair = settled()
    pair.given(BindingReleased(key=KEY, uid="u1"))
    assert pair.estimates() is None
    pair.given(binding(4, AGGREGATED, uid="u2", **NEEDS))
    assert pair.estimates() == {"m1": 3, "m2": 3}
    pair.given(BindingReleased(key=KEY, uid="u2"), PlacementReleased(key=KEY, uid="u1"))
    pair.estimator.forget(Purged(objects=(Gone(KEY, pair.seq),)))
    assert pair.estimator.objects == {}
    assert pair.estimator.subjects == {}


def test_only_ready_push_members_are_watched() -> None:
    pair = Pair(member("m1"), member("m2", syncMode="Pull"))
    assert set(pair.estimator.access) == {"m1"}
    down = msgspec.json.decode(cluster("m1").manifest)
    down["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    pair.given(msgspec.structs.replace(cluster("m1"), manifest=msgspec.Raw(msgspec.json.encode(down))))
    assert pair.estimator.access == {}


def test_a_binding_stored_by_a_clock_an_hour_ahead_is_not_waited_for() -> None:
    pair = Pair(member("m1"), member("m2"), binding(4, AGGREGATED, **NEEDS))
    assert pair.waits(NOW - TIMEOUT / 2) == NOW + TIMEOUT
    assert pair.waits(NOW - 3600.0) is None
