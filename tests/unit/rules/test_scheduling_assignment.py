"""Assignment of replicas, example by example (reference 02 §10.1–10.5)."""

from typing import Any

import pytest

from schemas.manifest import Manifest
from services._rules.scheduling.decoding import binding_view, cluster_view
from services._rules.scheduling.division.weights import webster
from services._rules.scheduling.index import ClusterIndex
from services._rules.scheduling.schedule import schedule
from services._rules.scheduling.scheduling_views import Decision, SchedulingOptions, Status

AGGREGATED = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
DYNAMIC = {
    "replicaSchedulingType": "Divided",
    "replicaDivisionPreference": "Weighted",
    "weightPreference": {"dynamicWeight": "AvailableReplicas"},
}
DUPLICATED = {"replicaSchedulingType": "Duplicated"}
EVEN, ODD = "a", "b"


def static(**weights: int) -> Manifest:
    """Static weights by cluster name."""
    rules = [{"targetCluster": {"clusterNames": [name]}, "weight": weight} for name, weight in weights.items()]
    return {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": rules},
    }


def cluster(name: str, pods: int, **spec: Any) -> Manifest:
    """A cluster with room for so many pods."""
    return {
        "metadata": {"name": name},
        "spec": spec,
        "status": {
            "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment"}]}],
            "resourceSummary": {"allocatable": {"pods": str(pods)}},
        },
    }


def decide(
    strategy: Manifest | None,
    replicas: int,
    alloc: list[int],
    prev: dict[str, int] | None = None,
    uid: str = "",
    fresh: bool = False,
    options: SchedulingOptions | None = None,
    requirements: bool = True,
    **placement: Any,
) -> Decision:
    """Decide for clusters m1, m2, … with the given room."""
    index = ClusterIndex(cluster_view(cluster(f"m{number}", pods)) for number, pods in enumerate(alloc, 1))
    spec: Manifest = {
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid},
        "replicas": replicas,
        "placement": {"replicaScheduling": strategy, **placement},
        "clusters": [{"name": name, "replicas": count} for name, count in (prev or {}).items()],
    }
    if requirements:
        spec["replicaRequirements"] = {}
    if fresh:
        spec["rescheduleTriggeredAt"] = "2026-01-02T00:00:00Z"
    status = Status("g" if "clusterAffinities" in placement else "", "2026-01-01T00:00:00Z" if fresh else None)
    return schedule(index, binding_view(spec), status, options=options or SchedulingOptions())


def placed(decision: Decision) -> dict[str, int]:
    """Replicas by cluster of a successful decision."""
    assert decision.error is None, decision.message
    return {item.name: item.replicas for item in decision.clusters}


def by_position(*replicas: int) -> dict[str, int]:
    """Replicas of m1, m2, … without the clusters that get none."""
    return {f"m{number}": count for number, count in enumerate(replicas, 1) if count}


def test_webster_fills_by_highest_quotient() -> None:
    votes = {"A": 100000, "B": 80000, "C": 30000, "D": 20000}
    assert webster(6, votes) == {"A": 2, "B": 2, "C": 1, "D": 1}
    assert webster(8, votes) == {"A": 3, "B": 3, "C": 1, "D": 1}


@pytest.mark.parametrize(
    ("weights", "replicas", "uid", "result"),
    [
        ((1, 2), 9, "", (3, 6)),
        ((1, 3), 9, "", (2, 7)),
        ((3, 2, 1), 13, "", (7, 4, 2)),
        ((3, 2, 1), 14, "", (7, 5, 2)),
        ((1, 3), 2, "", (1, 1)),
        ((2, 1, 1), 2, "", (1, 1, 0)),
        ((2, 1, 1), 5, "", (3, 1, 1)),
        ((1, 1), 1, EVEN, (1, 0)),
        ((1, 1), 1, ODD, (0, 1)),
        ((1, 1), 1, "foo", (0, 1)),
        ((1, 10, 100), 10, "", (0, 1, 9)),
    ],
)
def test_static_weights(weights: tuple[int, ...], replicas: int, uid: str, result: tuple[int, ...]) -> None:
    strategy = static(**{f"m{number}": weight for number, weight in enumerate(weights, 1)})
    assert placed(decide(strategy, replicas, [0] * len(weights), uid=uid)) == by_position(*result)


def test_static_weights_forget_what_runs() -> None:
    assert placed(decide(static(m1=1, m2=1), 3, [9, 9], {"m1": 1, "m2": 2}, uid=EVEN)) == by_position(2, 1)


def test_of_several_static_rules_the_greatest_counts() -> None:
    strategy = static(m1=1, m2=1)
    strategy["weightPreference"]["staticWeightList"].append({"targetCluster": {"clusterNames": ["m1"]}, "weight": 2})
    assert placed(decide(strategy, 3, [0, 0])) == by_position(2, 1)


def test_clusters_without_a_static_rule_get_nothing_unless_no_rule_matches_any() -> None:
    assert placed(decide(static(m1=1), 2, [0, 0])) == by_position(2)
    assert placed(decide(static(m9=1), 5, [0, 0])) == by_position(3, 2)


@pytest.mark.parametrize("preference", [None, {}])
def test_no_weights_mean_equal_weights(preference: Manifest | None) -> None:
    strategy = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
    if preference is not None:
        strategy = {**strategy, "weightPreference": preference}  # type: ignore[dict-item]
    assert placed(decide(strategy, 7, [9, 9, 9])) == by_position(3, 2, 2)


def test_scaled_to_zero_a_workload_leaves_all_clusters() -> None:
    for strategy in (static(m1=1, m2=1), DUPLICATED, DYNAMIC, AGGREGATED):
        assert placed(decide(strategy, 0, [5, 5], {"m1": 2, "m2": 2})) == {}


def test_duplicated_ignores_capacity() -> None:
    assert placed(decide(DUPLICATED, 3, [0, 0])) == by_position(3, 3)
    assert placed(decide(None, 3, [0, 0])) == by_position(3, 3)


def test_objects_without_replicas_go_everywhere() -> None:
    assert placed(decide(DUPLICATED, 0, [1, 1], requirements=False)) == {"m1": 0, "m2": 0}


@pytest.mark.parametrize(
    ("replicas", "alloc", "prev", "uid", "fresh", "result"),
    [
        (12, [6, 12, 18], {}, "", False, (2, 4, 6)),
        (12, [6, 8, 10], {}, "", False, (3, 4, 5)),
        (12, [8, 8, 10], {}, "", False, (4, 4, 4)),
        (12, [20, 12, 6], {}, "", False, (6, 4, 2)),
        (9, [3, 3, 3], {}, "", False, (3, 3, 3)),
        (7, [5, 5, 5], {}, EVEN, False, (3, 2, 2)),
        (7, [5, 5, 5], {}, ODD, False, (2, 2, 3)),
        (6, [0, 0, 0], {"m1": 2, "m2": 4, "m3": 6}, "", False, (1, 2, 3)),
        (24, [10, 10, 10], {"m1": 2, "m2": 4, "m3": 6}, "", False, (6, 8, 10)),
        (12, [3, 3], {"m1": 6, "m3": 6}, "", False, (9, 3)),
        (12, [100, 0, 100], {"m2": 5, "m1": 7}, "", False, (7, 5)),
        (12, [0, 0, 24], {"m1": 6, "m2": 6}, "", True, (2, 2, 8)),
        (13, [0, 0, 1], {"m1": 6, "m2": 6}, "", False, (6, 6, 1)),
        (5, [0, 0, 0], {"m1": 3, "m2": 2, "m3": 2}, EVEN, False, (2, 2, 1)),
        (1, [0, 0], {"m1": 5, "m2": 5}, ODD, False, (0, 1)),
        (3, [9, 9], {"m1": 3, "m2": 3}, "", False, (2, 1)),
        (5, [0, 5, 0], {}, "", False, (0, 5)),
    ],
)
def test_dynamic_weights(
    replicas: int, alloc: list[int], prev: dict[str, int], uid: str, fresh: bool, result: tuple[int, ...]
) -> None:
    assert placed(decide(DYNAMIC, replicas, alloc, prev, uid, fresh)) == by_position(*result)


@pytest.mark.parametrize(
    ("replicas", "alloc", "prev", "fresh", "result"),
    [
        (12, [6, 8, 10], {}, False, (0, 5, 7)),
        (12, [12, 8, 10], {}, False, (12,)),
        (12, [6, 6, 6], {}, False, (6, 6)),
        (6, [0, 0], {"m1": 4, "m2": 8}, False, (0, 6)),
        (8, [0, 0], {"m1": 4, "m2": 8}, False, (0, 8)),
        (10, [0, 0], {"m1": 4, "m2": 8}, False, (3, 7)),
        (24, [4, 6, 8], {"m1": 4, "m2": 8}, False, (7, 12, 5)),
        (24, [6, 6, 20], {"m1": 4, "m2": 8}, False, (10, 14)),
        (12, [8, 1, 20], {"m1": 4, "m2": 8}, True, (0, 0, 12)),
        (12, [0, 12, 0], {"m1": 12}, True, (12,)),
        (12, [10, 2, 3], {"m1": 0, "m2": 8}, False, (3, 9)),
        (14, [1, 3, 5], {"m1": 4, "m2": 8}, False, (4, 10)),
        (14, [0, 0, 5], {"m1": 4, "m2": 8}, False, (4, 8, 2)),
        (12, [0, 0, 50], {"m1": 4, "m2": 8}, False, (4, 8)),
        (5, [0, 0], {"m2": 5, "m1": 5}, False, (0, 5)),
    ],
)
def test_aggregated(
    replicas: int, alloc: list[int], prev: dict[str, int], fresh: bool, result: tuple[int, ...]
) -> None:
    assert placed(decide(AGGREGATED, replicas, alloc, prev, fresh=fresh)) == by_position(*result)


def test_too_little_room_is_unschedulable_and_says_how_much_there_is() -> None:
    for replicas, alloc, prev, text in (
        (12, [3, 3, 3], {}, "failed to scale up: Clusters available replicas 9 are"),
        (24, [1, 1, 1], {"m1": 2, "m2": 4, "m3": 6}, "failed to scale up: Clusters available replicas 3 are"),
        (10, [3, 3, 3], {}, "failed to scale up: Clusters available replicas 9 are"),
    ):
        decision = decide(DYNAMIC, replicas, alloc, prev)
        assert decision.error == "Unschedulable"
        assert decision.message == f"failed to assign replicas: {text} not enough to schedule."


def test_an_unknown_strategy_is_named() -> None:
    decision = decide({"replicaSchedulingType": "Divided"}, 3, [9])
    assert decision.error == "Error"
    assert "unsupported replica scheduling strategy, replicaSchedulingType: Divided" in decision.message


def tiers(*names: list[str]) -> list[Manifest]:
    """One affinity term with overflow tiers of the given clusters."""
    overflow = [{"affinityName": f"o{number}", "clusterNames": part} for number, part in enumerate(names[1:])]
    return [{"affinityName": "g", "clusterNames": names[0], "overflowAffinities": overflow}]


@pytest.mark.parametrize(
    ("strategy", "replicas", "alloc", "prev", "groups", "result"),
    [
        (DYNAMIC, 5, [2, 10], {}, (["m1"], ["m2"]), (2, 3)),
        (DYNAMIC, 8, [2, 10], {"m1": 3}, (["m1"], ["m2"]), (5, 3)),
        (DYNAMIC, 6, [0, 7], {"m1": 5, "m2": 3}, (["m1"], ["m2"]), (5, 1)),
        (DYNAMIC, 4, [0, 7], {"m1": 5, "m2": 3}, (["m1"], ["m2"]), (4,)),
        (AGGREGATED, 9, [4, 3, 8], {}, (["m1"], ["m2", "m3"]), (4, 0, 5)),
    ],
)
def test_overflow_tiers_fill_in_order_and_empty_in_reverse(
    strategy: Manifest,
    replicas: int,
    alloc: list[int],
    prev: dict[str, int],
    groups: tuple[list[str], ...],
    result: tuple[int, ...],
) -> None:
    decision = decide(strategy, replicas, alloc, prev, clusterAffinities=tiers(*groups))
    assert placed(decision) == by_position(*result)


def test_overflow_tiers_that_are_all_full_are_unschedulable() -> None:
    decision = decide(DYNAMIC, 10, [2, 2], clusterAffinities=tiers(["m1"], ["m2"]))
    assert decision.error == "Unschedulable"
    assert decision.message.endswith("Clusters available replicas are not enough to schedule.")


def test_empty_workload_propagation_keeps_selected_clusters_in_the_result() -> None:
    decision = decide(AGGREGATED, 5, [9, 1, 1], options=SchedulingOptions(empty_workload_propagation=True))
    assert placed(decision) == {"m1": 5, "m2": 0, "m3": 0}
