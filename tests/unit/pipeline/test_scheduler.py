"""Bindings and clusters in, placements out."""

from __future__ import annotations

from typing import Any

import msgspec

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.binding import BindingReleased
from schemas.events.cluster import ClusterRemoved
from schemas.events.eviction import EvictionRequested, EvictionTask
from schemas.events.placement import (
    PlacementDecided,
    PlacementEvent,
    PlacementFailed,
    PlacementReleased,
    TargetCluster,
)
from services.scheduler.state import SchedulerState, fold
from tests.support.facts import KEY, STATIC, binding, cluster
from tests.support.placements import decide

NOW = 1_793_232_000.0
DUPLICATED = {"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "gold"}}}}


class World:
    """A scheduler's state at the end of a log."""

    def __init__(self, *events: Known) -> None:
        self.state = SchedulerState()
        self.seq = 0
        self.dirty: set[object] = set()
        self.given(*events)

    def given(self, *events: Known) -> None:
        for event in events:
            self.seq += 1
            self.dirty = set(fold(self.state, self.seq, subject_of(event), event))

    def decides(self) -> PlacementEvent | None:
        event = decide(self.state, KEY, NOW, "default-scheduler")
        if event is not None:
            event = msgspec.structs.replace(event, provenance=Provenance(as_of=self.seq))
            self.given(event)
        return event


def placed(event: PlacementEvent | None) -> dict[str, int | None]:
    assert isinstance(event, PlacementDecided)
    return {target.name: target.replicas for target in event.clusters}


def test_static_weights_divide_the_replicas_and_deciding_again_changes_nothing() -> None:
    world = World(cluster("m1"), cluster("m2"), cluster("m3"), binding(4))
    assert placed(world.decides()) == {"m1": 2, "m2": 2}
    assert world.decides() is None


def test_scaling_divides_anew() -> None:
    world = World(cluster("m1"), cluster("m2"), binding(2))
    world.decides()
    world.given(binding(6))
    event = world.decides()
    assert placed(event) == {"m1": 3, "m2": 3}
    assert isinstance(event, PlacementDecided)
    assert event.trigger == "the number of replicas changed"


def test_changed_weights_move_replicas() -> None:
    world = World(cluster("m1"), cluster("m2"), binding(4))
    world.decides()
    heavy = msgspec.json.decode(msgspec.json.encode(STATIC))
    heavy["replicaScheduling"]["weightPreference"]["staticWeightList"][0]["weight"] = 3
    world.given(binding(4, heavy))
    assert placed(world.decides()) == {"m1": 3, "m2": 1}


def test_a_duplicated_object_follows_the_labels_of_clusters() -> None:
    gold: dict[str, Any] = {"labels": {"tier": "gold"}}
    world = World(cluster("m1", **gold), cluster("m2"), binding(2, DUPLICATED))
    assert placed(world.decides()) == {"m1": 2}
    world.given(cluster("m2", **gold))
    assert KEY in world.dirty
    assert placed(world.decides()) == {"m1": 2, "m2": 2}
    world.given(cluster("m1"))
    assert placed(world.decides()) == {"m2": 2}


def test_a_divided_workload_does_not_move_when_clusters_change() -> None:
    world = World(cluster("m1"), cluster("m2"), binding(2))
    world.decides()
    world.given(cluster("m2", taints=[{"key": "k", "effect": "NoSchedule"}]))
    assert world.decides() is None


def test_taints_repel_unless_tolerated() -> None:
    tainted = cluster("m2", taints=[{"key": "dedicated", "value": "x", "effect": "NoSchedule"}])
    anywhere: dict[str, Any] = {"clusterAffinity": {}}
    world = World(cluster("m1"), tainted, binding(1, anywhere))
    assert placed(world.decides()) == {"m1": 1}
    tolerant = {**anywhere, "clusterTolerations": [{"key": "dedicated", "operator": "Exists"}]}
    world.given(binding(1, tolerant))
    assert placed(world.decides()) == {"m1": 1, "m2": 1}


def test_no_fitting_cluster_is_said_once_and_mended_by_a_new_cluster() -> None:
    world = World(binding(2))
    event = world.decides()
    assert isinstance(event, PlacementFailed)
    assert event.reason == "NoClusterFit"
    assert event.message
    assert world.decides() is None
    world.given(cluster("m1"))
    assert KEY in world.dirty
    assert placed(world.decides()) == {"m1": 2}


def test_a_leaving_cluster_loses_its_replicas() -> None:
    world = World(cluster("m1"), cluster("m2"), binding(2))
    world.decides()
    world.given(cluster("m2", deleting=True))
    assert placed(world.decides()) == {"m1": 2}
    world.given(ClusterRemoved(name="m1", uid="uid-m1"))
    assert isinstance(world.decides(), PlacementFailed)


def test_an_evicted_cluster_is_left_until_nothing_is_asked_any_more() -> None:
    world = World(cluster("m1"), cluster("m2"), binding(2))
    world.decides()
    task = EvictionTask(from_cluster="m2", reason="TaintUntolerated", producer="TaintManager")
    world.given(EvictionRequested(key=KEY, uid="u1", tasks=(task,)))
    assert placed(world.decides()) == {"m1": 2}
    assert world.decides() is None


def test_a_released_binding_releases_its_placement_once() -> None:
    world = World(cluster("m1"), cluster("m2"), binding(2))
    world.decides()
    world.given(BindingReleased(key=KEY, uid="u1"))
    assert isinstance(world.decides(), PlacementReleased)
    assert world.decides() is None


def test_a_new_object_of_the_same_name_is_scheduled_afresh() -> None:
    world = World(cluster("m1"), cluster("m2"), binding(2))
    world.decides()
    world.given(BindingReleased(key=KEY, uid="u1"), binding(2, uid="u2"))
    event = world.decides()
    assert event is not None
    assert event.uid == "u2"


def test_what_is_not_ours_is_left_alone() -> None:
    suspended = binding(2, suspension={"scheduling": True})
    foreign = binding(2, schedulerName="another")
    unclaimed = msgspec.structs.replace(binding(2), policy=None)
    everywhere = msgspec.structs.replace(binding(2), everywhere=True)
    for request in (suspended, foreign, unclaimed, everywhere):
        assert World(cluster("m1"), cluster("m2"), request).decides() is None


def test_objects_without_replicas_get_none() -> None:
    request = msgspec.structs.replace(binding(0, {"clusterAffinity": {}}), workload=False)
    event = World(cluster("m1"), request).decides()
    assert isinstance(event, PlacementDecided)
    assert event.clusters == (TargetCluster("m1"),)


def test_a_binding_that_cannot_be_read_fails_with_the_field_named() -> None:
    event = World(cluster("m1"), binding(2, {"clusterAffinity": {"clusterNames": 7}})).decides()
    assert isinstance(event, PlacementFailed)
    assert event.reason == "SchedulerError"
    assert "cannot be read" in event.message
