"""Bindings and clusters in, placements out."""

from __future__ import annotations

from msgspec.structs import replace

from schemas.events.placement import (
    PlacementDecided,
    PlacementFailed,
    TargetCluster,
)
from tests.support.facts import ANYWHERE, binding, cluster, released, targets
from tests.support.harness import SCHEDULER, Harness


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


def test_another_placement_with_the_same_result_is_recorded() -> None:
    scheduler = Harness(SCHEDULER, cluster("m1"), binding(2, ANYWHERE))
    scheduler.decides()
    scheduler.given(binding(2, {"clusterAffinity": {"clusterNames": ["m1"]}}))
    event = scheduler.decides()
    assert isinstance(event, PlacementDecided)
    assert (event.clusters, b"m1" in bytes(event.placement)) == ((TargetCluster("m1", 2),), True)
    assert scheduler.decides() is None
