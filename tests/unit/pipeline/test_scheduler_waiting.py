"""Who could not be placed is looked at again when a cluster's change can help it, and only then."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.binding import BindingReleased, BindingRequested
from schemas.events.cluster import ClusterRemoved
from schemas.events.placement import PlacementDecided, PlacementFailed
from schemas.events.rollup import ClusterStatusItem, StatusRolledUp
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services.scheduler.queue import unschedulable_queue as queue_watch
from services.scheduler.state import SchedulerState, fold
from tests.support.facts import STATIC, binding, cluster
from tests.support.placements import decide

NOW = 1_793_232_000.0
BOTH = {"clusterNames": ["m1", "m2"]}
AGGREGATED: Manifest = {
    "clusterAffinity": BOTH,
    "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
}
ONE_CLUSTER = [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]
GOLD: Manifest = {"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "gold"}}}}


def key(name: str) -> ObjectKey:
    return ObjectKey("apps", "deployments", "default", name)


def asked(name: str, replicas: int, placement: Manifest | None = None, cpu: str = "1") -> BindingRequested:
    needs = {"replicaRequirements": {"resourceRequest": {"cpu": cpu}}}
    return msgspec.structs.replace(binding(replicas, placement or AGGREGATED, **needs), key=key(name))


def member(name: str, cpu: int, **more: Any) -> Known:
    fact = cluster(name, **more)
    manifest = msgspec.json.decode(fact.manifest)
    manifest["status"]["resourceSummary"] = {"allocatable": {"cpu": str(cpu), "pods": "1000"}}
    return msgspec.structs.replace(fact, manifest=msgspec.Raw(msgspec.json.encode(manifest)))


class Desk:
    """A scheduler's state; what a fact makes it look at is in `dirty`, by name."""

    def __init__(self, *events: Known) -> None:
        self.state = SchedulerState()
        self.seq = 0
        self.dirty: set[str] = set()
        self.given(*events)

    def given(self, *events: Known) -> set[str]:
        self.dirty = set()
        for event in events:
            self.seq += 1
            self.dirty |= {found.name for found in fold(self.state, self.seq, subject_of(event), event, NOW)}
        return self.dirty

    def places(self, *names: str) -> list[Known | None]:
        """Decide objects and write down what comes out."""
        found: list[Known | None] = []
        for name in names:
            self.state.ledger.withdraw(key(name))
            event = decide(self.state, key(name), NOW, "default-scheduler")
            found.append(event)
            if event is not None:
                self.given(msgspec.structs.replace(event, provenance=Provenance(as_of=self.seq)))
        return found


def short(desk: Desk, *names: str) -> Desk:
    """Let objects fail for want of room, and be tried once with all that is known."""
    for event in desk.places(*names):
        assert isinstance(event, PlacementFailed)
        assert event.reason == "Unschedulable"
    desk.given(member("m1", 3))
    return desk


def test_enough_room_calls_for_the_object_and_too_little_does_not() -> None:
    desk = short(Desk(member("m1", 2), member("m2", 1), asked("web", 8)), "web")
    assert desk.given(member("m1", 4)) == set()
    assert desk.given(member("m2", 3)) == set()
    assert desk.given(member("m1", 5)) == {"web"}
    assert isinstance(desk.places("web")[0], PlacementDecided)


def test_room_that_goes_and_comes_back_calls_for_nobody() -> None:
    desk = Desk(member("m1", 1), member("m2", 9), asked("web", 12, {**AGGREGATED, "spreadConstraints": ONE_CLUSTER}))
    assert isinstance(desk.places("web")[0], PlacementFailed)
    assert desk.given(member("m1", 2)) == set(), "together they have room for eleven"
    assert desk.given(member("m1", 6)) == {"web"}, "the clusters together have room for twelve"
    assert desk.places("web") == [None]
    for cpu in (5, 6, 4, 6):
        assert desk.given(member("m1", cpu)) == set()
    assert desk.given(member("m1", 12)) == {"web"}
    assert isinstance(desk.places("web")[0], PlacementDecided)


def test_what_is_placed_is_not_looked_at_for_room() -> None:
    desk = Desk(member("m1", 9), member("m2", 9), asked("web", 8), asked("all", 1, {"clusterAffinity": BOTH}))
    desk.places("web", "all")
    assert desk.given(member("m1", 90)) == set()


def test_only_those_are_called_for_which_the_room_is_enough() -> None:
    desk = Desk(member("m1", 2), member("m2", 1), asked("small", 6), asked("large", 60), asked("other", 6, cpu="9"))
    short(desk, "small", "large", "other")
    assert desk.given(member("m1", 5)) == {"small"}
    assert desk.given(member("m1", 60)) >= {"large"}


def test_room_in_a_cluster_that_the_placement_does_not_name_helps_nobody() -> None:
    desk = short(Desk(member("m1", 2), member("m2", 1), member("m3", 1), asked("web", 8)), "web")
    assert desk.given(member("m3", 500)) == set()


def test_room_in_a_tainted_cluster_helps_once_the_taint_is_gone() -> None:
    taints = [{"key": "k", "effect": "NoSchedule"}]
    desk = short(Desk(member("m1", 2), member("m2", 1, taints=taints), asked("web", 8)), "web")
    assert desk.given(member("m2", 50, taints=taints)) == set()
    assert desk.given(member("m2", 50)) == {"web"}
    assert isinstance(desk.places("web")[0], PlacementDecided)


def test_a_new_cluster_and_a_new_label_call_for_who_found_none() -> None:
    desk = Desk(cluster("m1"), asked("web", 1, GOLD))
    event = desk.places("web")[0]
    assert isinstance(event, PlacementFailed)
    assert event.reason == "NoClusterFit"
    assert desk.given(cluster("m2")) == set(), "without the label it is none of the object's"
    assert desk.given(member("m1", 50)) == set(), "room does not make it match"
    assert desk.given(cluster("m3", labels={"tier": "gold"})) == {"web"}
    assert desk.given(cluster("m1", labels={"tier": "gold"})) == {"web"}


def test_a_new_api_calls_for_objects_of_that_kind_only() -> None:
    anywhere: Manifest = {"clusterAffinity": {}}
    poor = cluster("m1")
    manifest = msgspec.json.decode(poor.manifest)
    served = manifest["status"]["apiEnablements"]
    manifest["status"]["apiEnablements"] = []
    without = msgspec.structs.replace(poor, manifest=msgspec.Raw(msgspec.json.encode(manifest)))
    settings = msgspec.structs.replace(
        asked("settings", 1, anywhere, "1"),
        spec=msgspec.Raw(_of_kind(asked("settings", 1, anywhere), "batch/v1", "Job")),
    )
    desk = Desk(without, asked("web", 1, anywhere), settings)
    assert all(isinstance(event, PlacementFailed) for event in desk.places("web", "settings"))
    manifest["status"]["apiEnablements"] = served
    again = msgspec.structs.replace(poor, manifest=msgspec.Raw(msgspec.json.encode(manifest)))
    assert desk.given(again) == {"web"}


def _of_kind(request: BindingRequested, version: str, kind: str) -> bytes:
    spec = msgspec.json.decode(request.spec)
    spec["resource"] |= {"apiVersion": version, "kind": kind}
    return msgspec.json.encode(spec)


def test_a_follower_is_looked_at_only_for_clusters_that_it_names() -> None:
    chosen: Manifest = {"clusterAffinity": BOTH, "spreadConstraints": ONE_CLUSTER}
    desk = Desk(cluster("m1"), cluster("m2"), cluster("m3"), asked("web", 1, chosen))
    desk.places("web")
    assert desk.given(cluster("m3", labels={"a": "b"})) == set()
    assert desk.given(cluster("m2", labels={"a": "b"})) == {"web"}


def test_a_division_that_stands_is_looked_at_only_when_a_cluster_of_its_own_leaves() -> None:
    desk = Desk(cluster("m1"), cluster("m2"), cluster("m3"), asked("web", 2, STATIC))
    desk.places("web")
    assert desk.given(cluster("m1", labels={"a": "b"}), cluster("m3", deleting=True)) == set()
    assert desk.given(cluster("m2", deleting=True)) == {"web"}
    assert desk.given(ClusterRemoved(name="m2", uid="uid-m2")) == {"web"}


def test_the_groups_after_the_first_count_for_room_too() -> None:
    groups = [{"affinityName": name, "clusterNames": [name]} for name in ("m1", "m2")]
    placement = {"clusterAffinities": groups, "replicaScheduling": AGGREGATED["replicaScheduling"]}
    tainted = member("m1", 50, taints=[{"key": "k", "effect": "NoSchedule"}])
    desk = Desk(tainted, member("m2", 1), asked("web", 4, placement))
    event = desk.places("web")[0]
    assert isinstance(event, PlacementFailed)
    assert event.reason == "NoClusterFit", "the first group's failure is the one on record"
    assert desk.given(member("m2", 6)) == {"web"}
    assert isinstance(desk.places("web")[0], PlacementDecided)


def test_room_given_back_calls_for_whom_it_is_enough() -> None:
    desk = Desk(member("m1", 6), member("m2", 1), asked("one", 6), asked("two", 5), asked("three", 40))
    assert isinstance(desk.places("one")[0], PlacementDecided)
    assert all(isinstance(event, PlacementFailed) for event in desk.places("two", "three"))
    assert desk.given(member("m2", 2)) == set()
    assert desk.given(BindingReleased(key=key("one"), uid="u1")) == {"one", "two"}
    assert isinstance(desk.places("two")[0], PlacementDecided)


def test_pods_that_show_give_nothing_back_that_the_summary_lacks() -> None:
    desk = Desk(member("m1", 6), member("m2", 1), asked("one", 6), asked("two", 5))
    desk.places("one", "two")
    desk.given(member("m2", 2))
    status = msgspec.Raw(b'{"replicas":6}')
    desk.given(StatusRolledUp(key=key("one"), uid="u1", items=(ClusterStatusItem(cluster="m1", status=status),)))
    assert desk.dirty <= {"two"}


def test_what_happens_while_a_failure_is_on_its_way_is_not_missed() -> None:
    desk = Desk(member("m1", 1), member("m2", 1), asked("web", 8))
    failed = decide(desk.state, key("web"), NOW, "default-scheduler")
    assert isinstance(failed, PlacementFailed)
    seen = desk.seq
    assert desk.given(member("m1", 20)) <= {"web"}
    assert desk.given(msgspec.structs.replace(failed, provenance=Provenance(as_of=seen))) == {"web"}
    assert isinstance(desk.places("web")[0], PlacementDecided)


def test_who_is_placed_or_gone_is_waited_for_no_more() -> None:
    desk = short(Desk(member("m1", 2), member("m2", 1), asked("web", 8), asked("gone", 9)), "web", "gone")
    desk.given(BindingReleased(key=key("gone"), uid="u1"))
    assert desk.given(member("m1", 50)) == {"web"}
    desk.places("web")
    assert desk.given(member("m1", 60)) == set()
    assert desk.state.watch.failed == set()


def test_a_binding_that_cannot_be_read_is_helped_by_no_cluster() -> None:
    desk = Desk(cluster("m1"), asked("web", 1, {"clusterAffinity": {"clusterNames": 7}}))
    assert isinstance(desk.places("web")[0], PlacementFailed)
    assert desk.given(cluster("m2"), member("m1", 50)) == set()


@pytest.mark.parametrize("count", [2000])
def test_reports_of_one_cluster_call_for_none_of_the_many_it_cannot_help(count: int) -> None:
    desk = Desk(member("m1", 1), member("m2", 1))
    desk.given(*(asked(f"web-{number}", 50 + number % 7) for number in range(count)))
    desk.places(*(f"web-{number}" for number in range(count)))
    desk.given(member("m1", 2))
    for cpu in (3, 2, 40, 1, 45):
        assert desk.given(member("m1", cpu)) == set()
    assert len(desk.given(member("m1", 49))) == len([number for number in range(count) if number % 7 == 0])


def test_who_does_not_decide_keeps_no_count_of_room() -> None:
    desk = Desk()
    desk.state.watch.end()
    desk.given(member("m1", 1), member("m2", 1), asked("web", 8))
    desk.places("web")
    assert desk.given(member("m1", 90)) == set()
    desk.state.watch.begin()
    assert desk.given(member("m1", 91)) == {"web"}


def test_rooms_of_many_kinds_of_objects_are_counted_little_by_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_watch, "COUNTED_AT_ONCE", 2)
    names = [f"web-{number}" for number in range(6)]
    desk = Desk(member("m1", 1), member("m2", 1))
    desk.given(*(asked(name, 50 + number, cpu=str(number + 1)) for number, name in enumerate(names)))
    assert all(isinstance(event, PlacementFailed) for event in desk.places(*names))
    called = desk.given(member("m1", 2))
    assert 0 < len(called) < 6, "one kind was counted, the others have to be tried"
    for name in called:
        desk.state.tried(key(name))
        desk.places(name)
    assert desk.given(member("m1", 3)) == set()
    assert desk.given(ClusterRemoved(name="m2", uid="uid-m2")) == set()
    assert desk.given(member("m1", 50)) == {"web-0"}


def test_room_that_another_took_first_is_room_anew_once_it_is_given_back() -> None:
    desk = Desk(member("m1", 1), member("m2", 0), asked("one", 2), asked("two", 2))
    assert all(isinstance(event, PlacementFailed) for event in desk.places("one", "two"))
    assert desk.given(member("m1", 2)) == {"one", "two"}
    assert isinstance(desk.places("one")[0], PlacementDecided)
    desk.places("two")
    desk.state.tried(key("two"))
    assert desk.given(BindingReleased(key=key("one"), uid="u1")) == {"one", "two"}
    assert isinstance(desk.places("two")[0], PlacementDecided)


def test_room_that_another_took_first_does_not_hide_what_comes_after() -> None:
    desk = Desk(member("m1", 1), member("m2", 0), asked("one", 2), asked("two", 2))
    desk.places("one", "two")
    assert desk.given(member("m1", 2)) == {"one", "two"}
    desk.places("one", "two")
    desk.state.tried(key("two"))
    assert desk.given(member("m1", 3)) == set()
    assert desk.given(member("m1", 4)) == {"two"}
    assert isinstance(desk.places("two")[0], PlacementDecided)
