"""Selection of clusters and regions, example by example (reference 02 §10.6), and filters."""

from typing import Any

import pytest

from schemas.manifest import Manifest
from services._rules.scheduling.decoding import binding_view, cluster_view
from services._rules.scheduling.index import ClusterIndex
from services._rules.scheduling.regions.scoring import Group, choose_groups
from services._rules.scheduling.schedule import schedule
from services._rules.scheduling.scheduling_views import Decision, Peers, SchedulingOptions, Status

AGGREGATED = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
DUPLICATED = {"replicaSchedulingType": "Duplicated"}
FOUR = {"m1": 40, "m2": 30, "m3": 60, "m4": 60}
REGIONS = {"m1": (40, "R1"), "m2": (30, "R1"), "m3": (60, "R2"), "m4": (20, "R2"), "m5": (50, "R3")}


def cluster(name: str, pods: int, region: str = "", **parts: Any) -> Manifest:
    """A cluster with room for so many pods."""
    return {
        "metadata": {"name": name, **parts.get("metadata", {})},
        "spec": {"region": region, **parts.get("spec", {})},
        "status": {
            "apiEnablements": parts.get("apis", [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment"}]}]),
            "resourceSummary": {"allocatable": {"pods": str(pods)}},
        },
    }


def spread(**limits: tuple[int, int]) -> list[Manifest]:
    """Spread constraints by field: least and most groups."""
    return [{"spreadByField": field, "minGroups": least, "maxGroups": most} for field, (least, most) in limits.items()]


def decide(
    clusters: list[Manifest],
    replicas: int,
    strategy: Manifest | None,
    prev: dict[str, int] | None = None,
    peers: Peers | None = None,
    evicting: list[str] | None = None,
    observed: str = "",
    **placement: Any,
) -> Decision:
    """Decide for these clusters."""
    spec = {
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "replicas": replicas,
        "placement": {"replicaScheduling": strategy, **placement},
        "clusters": [{"name": name, "replicas": count} for name, count in (prev or {}).items()],
        "gracefulEvictionTasks": [{"fromCluster": name} for name in evicting or []],
    }
    index = ClusterIndex(cluster_view(item) for item in clusters)
    return schedule(index, binding_view(spec), Status(observed), peers=peers, options=SchedulingOptions())


def placed(decision: Decision) -> dict[str, int]:
    """Replicas by cluster of a successful decision."""
    assert decision.error is None, decision.message
    return {item.name: item.replicas for item in decision.clusters}


def four() -> list[Manifest]:
    return [cluster(name, pods) for name, pods in FOUR.items()]


def regions(**changes: tuple[int, str]) -> list[Manifest]:
    return [cluster(name, *parts) for name, parts in {**REGIONS, **changes}.items()]


def test_without_constraints_all_clusters_take_part() -> None:
    assert placed(decide(four(), 80, AGGREGATED)) == {"m3": 40, "m4": 40}


def test_a_cluster_short_of_room_is_exchanged_for_a_roomier_one() -> None:
    clusters = [cluster("m1", 35), cluster("m2", 25), cluster("m3", 60)]
    constraints = spread(cluster=(2, 2))
    decision = decide(clusters, 80, AGGREGATED, {"m1": 5, "m2": 5}, spreadConstraints=constraints)
    assert set(placed(decision)) == {"m1", "m3"}


def test_of_equally_roomy_clusters_the_first_in_the_ranking_is_taken_in() -> None:
    clusters = [cluster("m1", 1), cluster("m2", 9), cluster("m3", 9)]
    decision = decide(clusters, 8, AGGREGATED, {"m1": 1}, spreadConstraints=spread(cluster=(1, 1)))
    assert placed(decision) == {"m2": 8}


@pytest.mark.parametrize(
    ("replicas", "strategy", "constraints", "text"),
    [
        (130, AGGREGATED, spread(cluster=(2, 2)), "no enough resource when selecting 2 clusters"),
        (1, DUPLICATED, spread(cluster=(5, 5)), "the number of feasible clusters is less than"),
        (1, AGGREGATED, spread(cluster=(1, 0)), "no enough resource when selecting 0 clusters"),
        (1, DUPLICATED, spread(cluster=(1, 0)), "no clusters available to schedule"),
        (1, DUPLICATED, spread(provider=(1, 1)), "just support cluster and region spread constraint"),
        (1, DUPLICATED, spread(region=(2, 2), cluster=(1, 1)), "the number of feasible region is less than"),
    ],
)
def test_constraints_that_cannot_be_met_are_errors(
    replicas: int, strategy: Manifest, constraints: list[Manifest], text: str
) -> None:
    clusters = [cluster(name, pods, "R1", spec={"provider": "p"}) for name, pods in FOUR.items()]
    decision = decide(clusters, replicas, strategy, spreadConstraints=constraints)
    assert decision.error == "Error"
    assert text in decision.message


def test_static_weights_override_constraints_but_an_empty_preference_does_not() -> None:
    weights = [{"targetCluster": {"clusterNames": ["m1", "m2"]}, "weight": 1}]
    weighted = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
    constraints = spread(cluster=(1, 1))
    static = {**weighted, "weightPreference": {"staticWeightList": weights}}
    assert placed(decide(four(), 4, static, spreadConstraints=constraints)) == {"m1": 2, "m2": 2}
    empty = {**weighted, "weightPreference": {}}
    assert placed(decide(four(), 4, empty, spreadConstraints=constraints)) == {"m3": 4}


@pytest.mark.parametrize(
    ("replicas", "strategy", "constraints", "result"),
    [
        (100, AGGREGATED, spread(region=(2, 2), cluster=(2, 3)), {"m1": 40, "m3": 60}),
        (30, DUPLICATED, spread(region=(2, 2), cluster=(2, 3)), {"m1": 30, "m3": 30, "m2": 30}),
        (50, AGGREGATED, spread(region=(2, 3), cluster=(1, 1)), {"m3": 50}),
        (50, DUPLICATED, spread(region=(2, 2), cluster=(4, 4)), {"m1": 50, "m2": 50, "m3": 50, "m4": 50}),
    ],
)
def test_regions(replicas: int, strategy: Manifest, constraints: list[Manifest], result: dict[str, int]) -> None:
    assert placed(decide(regions(), replicas, strategy, spreadConstraints=constraints)) == result


def test_too_few_clusters_in_the_regions_is_an_error() -> None:
    decision = decide(regions(), 1, DUPLICATED, spreadConstraints=spread(region=(1, 1), cluster=(3, 3)))
    assert "the number of clusters is less than the cluster spreadConstraint.MinGroups" in decision.message


def test_the_capacity_of_chosen_regions_is_not_verified() -> None:
    clusters = regions(m5=(40, "R3"))
    constraints = spread(region=(1, 1), cluster=(1, 1))
    decision = decide(clusters, 60, AGGREGATED, {"m5": 10}, spreadConstraints=constraints)
    assert decision.error == "Unschedulable"
    roomier = decide(regions(m5=(50, "R3")), 60, AGGREGATED, {"m5": 10}, spreadConstraints=constraints)
    assert placed(roomier) == {"m5": 60}


@pytest.mark.parametrize(
    ("groups", "fewest", "most", "target", "chosen"),
    [
        ("R1:1:80 R3:1:80 R2:1:60 R5:2:60 R4:5:50 R6:3:50", 1, 3, 10, "R5 R4 R6"),
        ("R1:1:60 R2:1:50 R3:1:40 R4:3:30 R5:3:20 R6:3:10", 1, 3, 6, "R1 R4 R5"),
        ("R1:1:60 R2:2:50 R3:3:40 R4:4:30", 1, 2, 5, "R1 R4"),
        ("R4:1:60 R3:3:50 R1:3:40 R2:4:30", 1, 2, 5, "R3 R1"),
        ("A:1:5 B:1:5 C:1:5", 2, 2, 2, "A B"),
        ("A:1:5 B:1:5 C:1:5", 1, 3, 1, "A"),
        ("A:1:5 B:1:5", 2, 3, 3, ""),
        ("", 1, 1, 1, ""),
    ],
)
def test_choice_of_groups(groups: str, fewest: int, most: int, target: int, chosen: str) -> None:
    parsed = [
        Group(name, int(value), int(weight)) for name, value, weight in (item.split(":") for item in groups.split())
    ]
    assert [item.name for item in choose_groups(parsed, fewest, most, target)] == chosen.split()


def test_dozens_of_regions_are_affordable() -> None:
    groups = [Group(f"r{number:02}", 1 + number % 7, 1000 * (number % 5)) for number in range(48)]
    assert len(choose_groups(groups, 2, 8, 24)) <= 8


TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


def test_a_current_target_bypasses_taints_and_missing_apis() -> None:
    clusters = [cluster("m1", 9, spec={"taints": [TAINT]}), cluster("m2", 9, apis=[]), cluster("m3", 9)]
    assert placed(decide(clusters, 1, DUPLICATED)) == {"m3": 1}
    assert placed(decide(clusters, 1, DUPLICATED, {"m1": 1, "m2": 1})) == {"m1": 1, "m2": 1, "m3": 1}


def test_a_current_target_does_not_bypass_affinity_or_eviction() -> None:
    clusters = [cluster("m1", 9), cluster("m2", 9)]
    affinity = {"clusterNames": ["m2"]}
    assert placed(decide(clusters, 1, DUPLICATED, {"m1": 1}, clusterAffinity=affinity)) == {"m2": 1}
    assert placed(decide(clusters, 1, DUPLICATED, {"m1": 1}, evicting=["m1"])) == {"m2": 1}


def test_no_fitting_cluster_counts_the_reasons() -> None:
    clusters = [
        cluster("m1", 9, spec={"taints": [TAINT]}),
        cluster("m2", 9, spec={"taints": [TAINT]}),
        cluster("m3", 9, apis=[]),
        cluster("m4", 9, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    ]
    decision = decide(clusters, 1, DUPLICATED)
    assert decision.error == "FitError"
    assert decision.message == (
        "0/4 clusters are available: 1 cluster(s) did not have the API resource,"
        " 2 cluster(s) had untolerated taint {k=v:NoSchedule}."
    )
    assert decide([], 1, DUPLICATED).message == "0/0 clusters are available: no cluster exists."


def test_tolerations_and_advisory_taints_let_a_cluster_pass() -> None:
    advice = cluster("m2", 9, spec={"taints": [{**TAINT, "effect": "PreferNoSchedule"}]})
    clusters = [cluster("m1", 9, spec={"taints": [TAINT]}), advice]
    assert placed(decide(clusters, 1, DUPLICATED)) == {"m2": 1}
    tolerations = [{"key": "k", "operator": "Exists"}]
    assert placed(decide(clusters, 1, DUPLICATED, clusterTolerations=tolerations)) == {"m1": 1, "m2": 1}


def test_peers_keep_workloads_together_and_apart() -> None:
    clusters = [cluster(name, 9) for name in ("m1", "m2", "m3")]
    together = Peers(together=(frozenset({"m1", "m2"}), frozenset({"m2", "m3"})))
    assert placed(decide(clusters, 1, DUPLICATED, peers=together)) == {"m2": 1}
    apart = Peers(apart=frozenset({"m2"}))
    assert placed(decide(clusters, 1, DUPLICATED, peers=apart)) == {"m1": 1, "m3": 1}
    assert placed(decide(clusters, 1, DUPLICATED, {"m2": 1}, peers=apart)) == {"m1": 1, "m2": 1, "m3": 1}


def test_only_the_observed_affinity_term_counts() -> None:
    clusters = [cluster("m1", 9), cluster("m2", 9)]
    terms = [{"affinityName": "a", "clusterNames": ["m1"]}, {"affinityName": "b", "clusterNames": ["m2"]}]
    assert placed(decide(clusters, 1, DUPLICATED, observed="b", clusterAffinities=terms)) == {"m2": 1}
    assert placed(decide(clusters, 1, DUPLICATED, clusterAffinities=terms)) == {"m1": 1, "m2": 1}
