"""Bindings and clusters in, placements out."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from schemas.envelope import Provenance
from schemas.events.cluster import ClusterChanged
from schemas.events.eviction import EvictionFinished
from schemas.events.placement import (
    PlacementDecided,
    PlacementFailed,
    TargetCluster,
)
from schemas.manifest import Manifest
from tests.support.facts import ANYWHERE, KEY, NOW, STATIC, binding, cluster, only, placement, released, targets
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


def tainted(name: str) -> ClusterChanged:
    """Since a minute before NOW."""
    return cluster(name, taints=[{"key": "x", "effect": "NoExecute", "timeAdded": "2026-10-28T23:59:00Z"}])


def tolerating(seconds: int, **placed: object) -> Manifest:
    return {"clusterTolerations": [{"operator": "Exists", "tolerationSeconds": seconds}], **placed}


@pytest.mark.parametrize(("seconds", "chosen"), [(30, {"m2": 2}), (90, {"m1": 2, "m2": 2})])
def test_a_toleration_that_ran_out_admits_nothing_new(seconds: int, chosen: dict[str, int]) -> None:
    scheduler = Harness(SCHEDULER, tainted("m1"), cluster("m2"), binding(2, tolerating(seconds)))
    assert targets(scheduler.decides()) == chosen


def test_a_toleration_that_ran_out_is_told_as_the_taint() -> None:
    scheduler = Harness(SCHEDULER, tainted("m1"), binding(2, tolerating(30, **only("m1"))))
    event = scheduler.decides()
    assert isinstance(event, PlacementFailed)
    assert event.message == "0/1 clusters are available: 1 cluster(s) had untolerated taint {x:NoExecute}."


def test_what_outstays_its_toleration_is_moved_by_failover_only() -> None:
    scheduler = Harness(SCHEDULER, cluster("m1"), cluster("m2"), binding(2, tolerating(30)))
    scheduler.decides()
    scheduler.given(tainted("m1"))
    assert scheduler.decides() is None


def test_a_toleration_is_over_when_failover_says_so() -> None:
    scheduler = Harness(SCHEDULER, tainted("m1"), cluster("m2"), binding(2, tolerating(90)))
    scheduler.decides()
    by_its_clock = Provenance(decided_at=NOW + 30)
    scheduler.given(EvictionFinished(key=KEY, uid="u1", left=("m1",), provenance=by_its_clock))
    assert targets(scheduler.decides()) == {"m2": 2}


def test_what_an_eviction_gave_back_is_placed() -> None:
    scheduler = Harness(SCHEDULER, cluster("m1"), cluster("m2"), cluster("m3"), binding(8, STATIC))
    scheduler.given(placement(as_of=scheduler.seq, m2=3, m3=3))
    scheduler.given(EvictionFinished(key=KEY, uid="u1", returned=(TargetCluster("m1", 2),)))
    event = scheduler.decides()
    assert isinstance(event, PlacementDecided)
    assert event.trigger == "an eviction changed the target clusters"
    assert "m1" in targets(event)
    assert scheduler.decides() is None
