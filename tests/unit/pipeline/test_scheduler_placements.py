"""Bindings and clusters in, placements out."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from schemas.events.placement import (
    PlacementDecided,
    PlacementFailed,
    PlacementReleased,
    TargetCluster,
)
from tests.support.facts import ANYWHERE, KEY, STATIC, binding, cluster, evicted, released, removed, targets
from tests.support.harness import SCHEDULER, Harness

GOLD = {"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "gold"}}}}


def test_static_weights_divide_replicas_once() -> None:
    scheduler = Harness(SCHEDULER, cluster("m1"), cluster("m2"), cluster("m3"), binding(4))
    assert targets(scheduler.decides()) == {"m1": 2, "m2": 2}
    assert scheduler.decides() is None


def test_scaling_divides_anew() -> None:
    scheduler = Harness(SCHEDULER, cluster("m1"), cluster("m2"), binding(2))
    scheduler.decides()
    scheduler.given(binding(6))
    event = scheduler.decides()
    assert targets(event) == {"m1": 3, "m2": 3}
    assert isinstance(event, PlacementDecided)
    assert event.trigger == "the number of replicas changed"


def test_changed_weights_move_replicas() -> None:
    scheduler = Harness(SCHEDULER, cluster("m1"), cluster("m2"), binding(4))
    scheduler.decides()
    heavy = msgspec.json.decode(msgspec.json.encode(STATIC))
    heavy["replicaScheduling"]["weightPreference"]["staticWeightList"][0]["weight"] = 3
    scheduler.given(binding(4, heavy))
    assert targets(scheduler.decides()) == {"m1": 3, "m2": 1}


def test_duplicated_object_follows_cluster_labels() -> None:
    gold: dict[str, Any] = {"labels": {"tier": "gold"}}
    scheduler = Harness(SCHEDULER, cluster("m1", **gold), cluster("m2"), binding(2, GOLD))
    assert targets(scheduler.decides()) == {"m1": 2}
    scheduler.given(cluster("m2", **gold))
    assert KEY in scheduler.marked
    assert targets(scheduler.decides()) == {"m1": 2, "m2": 2}
    scheduler.given(cluster("m1"))
    assert targets(scheduler.decides()) == {"m2": 2}


def test_divided_workload_stays_when_clusters_change() -> None:
    scheduler = Harness(SCHEDULER, cluster("m1"), cluster("m2"), binding(2))
    scheduler.decides()
    scheduler.given(cluster("m2", taints=[{"key": "k", "effect": "NoSchedule"}]))
    assert scheduler.decides() is None


def test_taints_repel_unless_tolerated() -> None:
    tainted = cluster("m2", taints=[{"key": "dedicated", "value": "x", "effect": "NoSchedule"}])
    scheduler = Harness(SCHEDULER, cluster("m1"), tainted, binding(1, ANYWHERE))
    assert targets(scheduler.decides()) == {"m1": 1}
    tolerant = {**ANYWHERE, "clusterTolerations": [{"key": "dedicated", "operator": "Exists"}]}
    scheduler.given(binding(1, tolerant))
    assert targets(scheduler.decides()) == {"m1": 1, "m2": 1}


def test_no_fitting_cluster_reported_once_and_new_cluster_helps() -> None:
    scheduler = Harness(SCHEDULER, binding(2))
    event = scheduler.decides()
    assert isinstance(event, PlacementFailed)
    assert event.reason == "NoClusterFit"
    assert event.message
    assert scheduler.decides() is None
    scheduler.given(cluster("m1"))
    assert KEY in scheduler.marked
    assert targets(scheduler.decides()) == {"m1": 2}


def test_a_leaving_cluster_loses_its_replicas() -> None:
    scheduler = Harness(SCHEDULER, cluster("m1"), cluster("m2"), binding(2))
    scheduler.decides()
    scheduler.given(cluster("m2", deleting=True))
    assert targets(scheduler.decides()) == {"m1": 2}
    scheduler.given(removed("m1"))
    assert isinstance(scheduler.decides(), PlacementFailed)


def test_evicted_cluster_loses_its_replicas() -> None:
    scheduler = Harness(SCHEDULER, cluster("m1"), cluster("m2"), binding(2))
    scheduler.decides()
    scheduler.given(evicted("m2"))
    assert targets(scheduler.decides()) == {"m1": 2}
    assert scheduler.decides() is None


def test_released_binding_releases_placement_once() -> None:
    scheduler = Harness(SCHEDULER, cluster("m1"), cluster("m2"), binding(2))
    scheduler.decides()
    scheduler.given(released())
    assert isinstance(scheduler.decides(), PlacementReleased)
    assert scheduler.decides() is None


def test_new_object_of_same_name_is_scheduled() -> None:
    scheduler = Harness(SCHEDULER, cluster("m1"), cluster("m2"), binding(2))
    scheduler.decides()
    scheduler.given(released(), binding(2, uid="u2"))
    event = scheduler.decides()
    assert event is not None
    assert event.uid == "u2"


def test_suspended_foreign_and_unclaimed_bindings_are_skipped() -> None:
    suspended = binding(2, suspension={"scheduling": True})
    foreign = binding(2, schedulerName="another")
    unclaimed = replace(binding(2), policy=None)
    everywhere = replace(binding(2), everywhere=True)
    for request in (suspended, foreign, unclaimed, everywhere):
        assert Harness(SCHEDULER, cluster("m1"), cluster("m2"), request).decides() is None


def test_objects_without_replicas_get_none() -> None:
    request = replace(binding(0, ANYWHERE), workload=False)
    event = Harness(SCHEDULER, cluster("m1"), request).decides()
    assert isinstance(event, PlacementDecided)
    assert event.clusters == (TargetCluster("m1"),)


def test_clusters_that_do_not_exist_are_named() -> None:
    nowhere = {"clusterAffinities": [{"affinityName": "a", "clusterNames": ["m1", "m7", "m8"], "exclude": ["m1"]}]}
    scheduler = Harness(SCHEDULER, cluster("m1"), binding(2, nowhere))
    event = scheduler.decides()
    assert isinstance(event, PlacementFailed)
    assert event.message.endswith("Named in the placement, but no members: m7, m8.")
    assert scheduler.decides() is None
    scheduler.given(cluster("m7"))
    assert targets(scheduler.decides()) == {"m7": 2}
