"""Which replicas are taken back: the recorded examples, who is eligible, what the Event says."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Raw

from schemas.events.descheduling import LoweredCluster, ReplicasDescheduled
from schemas.events.placement import PlacementDecided, TargetCluster
from schemas.events.rollup import ClusterStatusItem
from services._rules.effective import current_targets, effective
from services._rules.history.retention import Facet, LogEntries, closes, purges_of, unfinished
from services._rules.scheduling.descheduling import Share, descheduled_words, follows_room, joined, shares, taken_back
from tests.support.facts import KEY, binding, placement


def item(cluster: str, status: Any) -> ClusterStatusItem:
    return ClusterStatusItem(cluster=cluster, applied=True, status=Raw(msgspec.json.encode(status)))


@pytest.mark.parametrize(
    ("given", "unschedulable", "left"),
    [
        ([Share("m1", 5, 4)], {"m1": 2}, {"m1": 4}),
        ([Share("m1", 5, 2), Share("m2", 10, -1)], {"m1": 3, "m2": 7}, {"m1": 2, "m2": 3}),
        ([Share("m1", 5, 6)], {"m1": 3}, {}),
        ([Share("m1", 5, 0)], {"m1": 6}, {}),
        ([Share("m1", 5, 0)], {"m1": 5}, {"m1": 0}),
        ([Share("m1", 5, 0)], {}, {}),
        ([Share("m1", 5, 0)], {"m1": -1}, {}),
        ([Share("m1", 0, -1)], {"m1": 1}, {}),
    ],
    ids=[
        "floor at ready",
        "two clusters",
        "nothing lacks",
        "more wait than given",
        "down to none",
        "no answer",
        "-1",
        "0",
    ],
)
def test_the_recorded_examples(given: list[Share], unschedulable: dict[str, int], left: dict[str, int]) -> None:
    assert {lowered.name: lowered.replicas for lowered in taken_back(given, unschedulable)} == left


def test_ready_replicas_are_unknown_without_a_status() -> None:
    targets = [TargetCluster(name, 3) for name in ("m1", "m2", "m3", "m4", "m5")]
    items = [
        item("m1", {"readyReplicas": 2}),
        item("m2", {"replicas": 3}),
        item("m3", {"readyReplicas": True}),
        item("m4", ["no", "status"]),
        ClusterStatusItem(cluster="m5"),
    ]
    assert [share.ready for share in shares(targets, items)] == [2, -1, -1, -1, -1]


def scheduling(**fields: Any) -> Raw:
    return Raw(msgspec.json.encode({"replicaScheduling": {"replicaSchedulingType": "Divided", **fields}}))


@pytest.mark.parametrize(
    ("applied", "eligible"),
    [
        (scheduling(replicaDivisionPreference="Aggregated"), True),
        (
            scheduling(replicaDivisionPreference="Weighted", weightPreference={"dynamicWeight": "AvailableReplicas"}),
            True,
        ),
        (scheduling(replicaDivisionPreference="Weighted", weightPreference={"dynamicWeight": ""}), False),
        (scheduling(replicaDivisionPreference="Weighted", weightPreference={"staticWeightList": []}), False),
        (scheduling(replicaDivisionPreference="Weighted"), False),
        (scheduling(), False),
        (Raw(b'{"replicaScheduling":{"replicaSchedulingType":"Duplicated"}}'), False),
        (Raw(b"{}"), False),
        (Raw(b"{torn"), False),
        (Raw(b'{"replicaScheduling":7}'), False),
        (UNSET, False),
    ],
)
def test_only_division_by_capacity_is_descheduled(applied: Raw, eligible: bool) -> None:
    assert follows_room("apps/v1", "Deployment", applied) is eligible


@pytest.mark.parametrize(
    ("api_version", "kind"), [("apps/v1", "StatefulSet"), ("apps/v1beta1", "Deployment"), ("batch/v1", "Job")]
)
def test_only_deployments_of_apps_v1_are_eligible(api_version: str, kind: str) -> None:
    assert not follows_room(api_version, kind, scheduling(replicaDivisionPreference="Aggregated"))


def lowering(placed_at: int, uid: str = "u1", **left: int) -> ReplicasDescheduled:
    clusters = tuple(LoweredCluster(name, replicas, 5) for name, replicas in sorted(left.items()))
    return ReplicasDescheduled(key=KEY, uid=uid, placement=placed_at, clusters=clusters)


def test_event_counts_descheduled_replicas_by_cluster() -> None:
    event = ReplicasDescheduled(
        key=KEY,
        uid="u1",
        placement=7,
        clusters=(LoweredCluster("m1", 2, 5), LoweredCluster("m2", 4, 4), LoweredCluster("m3", 3, 10)),
    )
    assert descheduled_words(event) == (
        "Binding has been descheduled, 3 replica(s) in cluster(m1), 7 replica(s) in cluster(m3),"
        " 10 total descheduled replica(s)"
    )


def test_replicas_descheduled_before_are_not_counted_again() -> None:
    merged = joined((LoweredCluster("m2", 1, 4),), (LoweredCluster("m1", 0, 3),))
    assert merged == (LoweredCluster("m1", 0, 3), LoweredCluster("m2", 1, 1))


def counts(targets: tuple[TargetCluster, ...]) -> dict[str, int | None]:
    return {target.name: target.replicas for target in targets}


def test_a_lowered_cluster_stays_a_target_with_fewer_replicas() -> None:
    decided = placement(m1=5, m2=3)
    event = lowering(9, m1=0)
    where = effective(binding(8), decided, descheduling=event, placement_seq=9, clusters=("m1", "m2"))
    assert counts(where.targets) == {"m1": 0, "m2": 3}
    assert counts(current_targets(decided, None, 0, event, 9)) == {"m1": 0, "m2": 3}


@pytest.mark.parametrize("position", [0, 8, 10])
def test_a_descheduling_of_another_placement_counts_as_absent(position: int) -> None:
    assert counts(current_targets(placement(m1=5, m2=3), None, 0, lowering(9, m1=0), position)) == {"m1": 5, "m2": 3}


def test_a_descheduling_of_another_uid_counts_as_absent() -> None:
    assert counts(current_targets(placement(m1=5), None, 0, lowering(9, uid="u0", m1=0), 9)) == {"m1": 5}


def test_a_descheduling_never_adds_replicas_or_clusters() -> None:
    assert counts(current_targets(placement(m1=5), None, 0, lowering(9, m1=7, m9=2), 9)) == {"m1": 5}


def test_objects_without_replicas_are_left_as_they_are() -> None:
    decided = PlacementDecided(key=KEY, uid="u1", clusters=(TargetCluster("m1"),))
    assert counts(current_targets(decided, None, 0, lowering(9, m1=0), 9)) == {"m1": None}


def test_descheduling_is_purged_before_its_placement() -> None:
    remains = LogEntries(
        facets={"placement": Facet(9, 0.0, True), "descheduling": Facet(10, 0.0, closes(lowering(9, m1=0)))}
    )
    assert unfinished(remains, (), 10) == ""
    assert [purge.subject.partition(".")[0] for purge in purges_of(KEY, remains)] == ["descheduling", "placement"]
