"""Every worked example of division, selection and regions, in the order of the result (reference 02 §10.1–10.6)."""

from typing import Any

import pytest

from schemas.manifest import Manifest
from services._rules.scheduling.decoding import binding_view
from services._rules.scheduling.schedule import schedule
from services._rules.scheduling.scheduling_views import Decision, SchedulingOptions, Status
from tests.support.scheduling import (
    AGGREGATED,
    DEPLOYMENT,
    DUPLICATED,
    DYNAMIC,
    WEIGHTED,
    index_of,
    member,
    spread,
    static,
)

EMPTY = {**WEIGHTED, "weightPreference": {}}
SPREAD = "failed to select clusters: "
SHORT = "failed to assign replicas: failed to {}: Clusters available replicas {} are not enough to schedule."


def pairs(text: str) -> dict[str, int]:
    """`m1:3 m2:0` as a mapping; a number may be left out."""
    return {name: int(count or 0) for name, _, count in (item.partition(":") for item in text.split())}


def run(
    strategy: Manifest | None,
    replicas: int,
    alloc: str,
    prev: str = "",
    uid: str = "",
    *,
    fresh: bool = False,
    regions: str = "",
    limits: str = "",
    requirements: bool = True,
    observed: str = "",
    propagate_empty: bool = False,
    **placement: Any,
) -> Decision:
    """`alloc` is the capacity of each candidate; `limits` e.g. `region:2..3 cluster:1..1`."""
    zones = dict(item.split("=") for item in regions.split())
    clusters = [member(name, str(pods), zones.get(name, ""), provider="p") for name, pods in pairs(alloc).items()]
    groups = {}
    for item in limits.split():
        field, _, bounds = item.partition(":")
        least, most = bounds.split("..")
        groups[field] = (int(least), int(most))
    options = SchedulingOptions(empty_workload_propagation=propagate_empty)
    spec: Manifest = {
        "resource": {**DEPLOYMENT, "uid": uid},
        "replicas": replicas,
        "placement": {"replicaScheduling": strategy, "spreadConstraints": spread(**groups) or None, **placement},
        "clusters": [{"name": name, "replicas": count} for name, count in pairs(prev).items()],
    }
    if requirements:
        spec["replicaRequirements"] = {}
    if fresh:
        spec["rescheduleTriggeredAt"] = "2026-01-02T00:00:00Z"
    status = Status(observed, "2026-01-01T00:00:00Z")
    return schedule(index_of(*clusters), binding_view(spec), status, options=options)


def told(decision: Decision) -> str:
    """The result in its order, or the message."""
    if decision.error is not None:
        return decision.message
    return " ".join(f"{item.name}:{item.replicas}" for item in decision.clusters)


EVEN, ODD = "a", "b"
MANY = "m1:99 m2:99 m3:99"
TWO = "m1:99 m2:99"


@pytest.mark.parametrize(
    ("strategy", "replicas", "candidates", "uid", "result"),
    [
        pytest.param(static(m1=2, m2=4), 9, TWO, "", "m1:3 m2:6", id="E2"),
        pytest.param(static(m1=1, m2=3), 9, TWO, "", "m1:2 m2:7", id="E3"),
        pytest.param(static(m1=3, m2=2, m3=1), 13, MANY, "", "m1:7 m2:4 m3:2", id="E4"),
        pytest.param(static(m1=3, m2=2, m3=1), 14, MANY, "", "m1:7 m2:5 m3:2", id="E5"),
        pytest.param(static(m1=1, m2=3), 2, TWO, "", "m1:1 m2:1", id="E6"),
        pytest.param(static(m1=2, m2=1, m3=1), 2, MANY, "", "m1:1 m2:1", id="E7"),
        pytest.param(static(m1=2, m2=1, m3=1), 5, MANY, "", "m1:3 m2:1 m3:1", id="E8"),
        pytest.param(static(m1=1, m2=1), 1, TWO, "", "m1:1", id="E9-none"),
        pytest.param(static(m1=1, m2=1), 1, TWO, "a", "m1:1", id="E9-even"),
        pytest.param(static(m1=1, m2=1), 1, TWO, "b", "m2:1", id="E10-b"),
        pytest.param(static(m1=1, m2=1), 1, TWO, "foo", "m2:1", id="E10-foo"),
        pytest.param(static(m1=1), 2, TWO, "", "m1:2", id="E13"),
        pytest.param(static(m8=1, m9=1), 5, TWO, "", "m1:3 m2:2", id="E14"),
        pytest.param(WEIGHTED, 7, MANY, "", "m1:3 m2:2 m3:2", id="E15-absent"),
        pytest.param(EMPTY, 7, MANY, "", "m1:3 m2:2 m3:2", id="E15-empty"),
        pytest.param(static(m1=1, m2=10, m3=100), 10, MANY, "", "m2:1 m3:9", id="E16"),
    ],
)
def test_static_weights(strategy: Manifest, replicas: int, candidates: str, uid: str, result: str) -> None:
    assert told(run(strategy, replicas, candidates, uid=uid)) == result


def test_static_weights_use_greatest_rule_not_current_targets() -> None:
    several = static(m1=1, m2=1)
    several["weightPreference"]["staticWeightList"] += static(m1=2)["weightPreference"]["staticWeightList"]
    assert told(run(several, 3, TWO)) == "m1:2 m2:1"
    assert told(run(static(m1=1, m2=1), 3, TWO, "m1:1 m2:2", EVEN)) == "m1:2 m2:1"


@pytest.mark.parametrize("strategy", [static(m1=1, m2=1), DUPLICATED, DYNAMIC, AGGREGATED])
def test_workload_without_replicas_leaves_all_clusters(strategy: Manifest) -> None:
    assert told(run(strategy, 0, TWO, "m1:2 m2:2")) == ""


def test_duplicated() -> None:
    assert told(run(DUPLICATED, 3, TWO)) == told(run(None, 3, "m1:0 m2:0")) == "m1:3 m2:3"
    assert told(run(DUPLICATED, 0, TWO, requirements=False)) == "m1:0 m2:0"
    assert told(run(DUPLICATED, 130, "m1:40 m2:50 m3:60", limits="cluster:2..2")) == "m3:130 m2:130"


@pytest.mark.parametrize(
    ("replicas", "alloc", "prev", "uid", "result"),
    [
        pytest.param(12, "m1:6 m2:12 m3:18", "", "", "m1:2 m2:4 m3:6", id="E22"),
        pytest.param(12, "m1:6 m2:8 m3:10", "", "", "m1:3 m2:4 m3:5", id="E23"),
        pytest.param(12, "m1:8 m2:8 m3:10", "", "", "m1:4 m2:4 m3:4", id="E24"),
        pytest.param(12, "m1:20 m2:12 m3:6", "", "", "m1:6 m2:4 m3:2", id="E25"),
        pytest.param(12, "m1:3 m2:3 m3:3", "", "", SHORT.format("scale up", 9), id="E26"),
        pytest.param(9, "m1:3 m2:3 m3:3", "", "", "m1:3 m2:3 m3:3", id="E27"),
        pytest.param(7, "m1:5 m2:5 m3:5", "", EVEN, "m1:3 m2:2 m3:2", id="E28-even"),
        pytest.param(7, "m1:5 m2:5 m3:5", "", ODD, "m1:2 m2:2 m3:3", id="E28-odd"),
        pytest.param(6, "m1:0 m2:7 m3:1", "m1:2 m2:4 m3:6", "", "m1:1 m2:2 m3:3", id="E29"),
        pytest.param(24, "m1:10 m2:10 m3:10", "m1:2 m2:4 m3:6", "", "m1:6 m2:8 m3:10", id="E30"),
        pytest.param(24, "m1:1 m2:1 m3:1", "m1:2 m2:4 m3:6", "", SHORT.format("scale up", 3), id="E31"),
        pytest.param(12, "m1:3 m2:3", "m1:6 m3:6", "", "m1:9 m2:3", id="E32"),
        pytest.param(12, "m1:100 m2:0 m3:100", "m2:5 m1:7", "", "m2:5 m1:7", id="E33"),
        pytest.param(13, "m1:0 m2:0 m3:1", "m1:6 m2:6", "", "m3:1 m1:6 m2:6", id="E35"),
        pytest.param(5, "m1:9 m2:9 m3:9", "m1:3 m2:2 m3:2", EVEN, "m1:2 m2:2 m3:1", id="E36"),
        pytest.param(1, "m1:9 m2:9", "m1:5 m2:5", ODD, "m2:1", id="E37"),
        pytest.param(3, "m1:9 m2:9", "m1:3 m2:3", "", "m1:2 m2:1", id="E38"),
        pytest.param(5, "m1:0 m2:5 m3:0", "", "", "m2:5", id="E39"),
    ],
)
def test_dynamic_weights(replicas: int, alloc: str, prev: str, uid: str, result: str) -> None:
    assert told(run(DYNAMIC, replicas, alloc, prev, uid)) == result


@pytest.mark.parametrize(
    ("replicas", "alloc", "prev", "result"),
    [
        pytest.param(12, "m1:6 m2:8 m3:10", "", "m2:5 m3:7", id="E40"),
        pytest.param(12, "m1:12 m2:8 m3:10", "", "m1:12", id="E41"),
        pytest.param(12, "m1:6 m2:6 m3:6", "", "m1:6 m2:6", id="E42"),
        pytest.param(6, "m1:9 m2:9", "m1:4 m2:8", "m2:6", id="E43"),
        pytest.param(8, "m1:9 m2:9", "m1:4 m2:8", "m2:8", id="E44"),
        pytest.param(10, "m1:9 m2:9", "m1:4 m2:8", "m1:3 m2:7", id="E45"),
        pytest.param(24, "m1:4 m2:6 m3:8", "m1:4 m2:8", "m1:7 m2:12 m3:5", id="E46"),
        pytest.param(24, "m1:6 m2:6 m3:20", "m1:4 m2:8", "m1:10 m2:14", id="E47"),
        pytest.param(24, "m1:4 m3:8 m4:12", "m1:4 m2:8", "m1:7 m3:7 m4:10", id="E48"),
        pytest.param(12, "m1:10 m2:2 m3:3", "m1:0 m2:8", "m1:3 m2:9", id="E51"),
        pytest.param(14, "m1:1 m2:3 m3:5", "m1:4 m2:8", "m2:10 m1:4", id="E52"),
        pytest.param(14, "m1:0 m2:0 m3:5", "m1:4 m2:8", "m3:2 m1:4 m2:8", id="E53"),
        pytest.param(12, "m1:0 m2:0 m3:50", "m1:4 m2:8", "m1:4 m2:8", id="E54"),
        pytest.param(5, "m1:9 m2:9", "m2:5 m1:5", "m2:5", id="E55"),
    ],
)
def test_aggregated(replicas: int, alloc: str, prev: str, result: str) -> None:
    assert told(run(AGGREGATED, replicas, alloc, prev)) == result


@pytest.mark.parametrize(
    ("strategy", "alloc", "prev", "result"),
    [
        pytest.param(DYNAMIC, "m1:0 m2:0 m3:24", "m1:6 m2:6", "m1:2 m2:2 m3:8", id="E34"),
        pytest.param(AGGREGATED, "m1:8 m2:1 m3:20", "m1:4 m2:8", "m3:12", id="E49"),
        pytest.param(AGGREGATED, "m1:0 m2:12 m3:0", "m1:12", "m1:12", id="E50"),
    ],
)
def test_fresh_division_ignores_current_targets(strategy: Manifest, alloc: str, prev: str, result: str) -> None:
    assert told(run(strategy, 12, alloc, prev, fresh=True)) == result


def test_division_without_preference_is_an_error() -> None:
    message = told(run({"replicaSchedulingType": "Divided"}, 3, TWO))
    assert message == (
        "failed to assign replicas: unsupported replica scheduling strategy, replicaSchedulingType: Divided,"
        " replicaDivisionPreference: , please try another scheduling strategy"
    )


@pytest.mark.parametrize(
    ("strategy", "replicas", "alloc", "prev", "tiers", "result"),
    [
        pytest.param(DYNAMIC, 5, "m1:2 m2:10", "", ["m2"], "m1:2 m2:3", id="E57"),
        pytest.param(
            DYNAMIC,
            10,
            "m1:2 m2:2",
            "",
            ["m2"],
            "failed to assign replicas: Clusters available replicas are not enough to schedule.",
            id="E58",
        ),
        pytest.param(DYNAMIC, 8, "m1:2 m2:10", "m1:3", ["m2"], "m1:5 m2:3", id="E59"),
        pytest.param(DYNAMIC, 6, "m1:0 m2:7", "m1:5 m2:3", ["m2"], "m1:5 m2:1", id="E60"),
        pytest.param(DYNAMIC, 4, "m1:0 m2:7", "m1:5 m2:3", ["m2"], "m1:4", id="E61"),
        pytest.param(AGGREGATED, 9, "m1:4 m2:3 m3:8", "", ["m2", "m3"], "m1:4 m3:5", id="E62"),
    ],
)
def test_overflow(strategy: Manifest, replicas: int, alloc: str, prev: str, tiers: list[str], result: str) -> None:
    term = {"affinityName": "t", "clusterNames": ["m1"]}
    overflow = [{"affinityName": "o", "clusterNames": tiers}]
    terms = [{**term, "overflowAffinities": overflow}]
    assert told(run(strategy, replicas, alloc, prev, observed="t", clusterAffinities=terms)) == result


FOUR = "m1:40 m2:30 m3:60 m4:60"


@pytest.mark.parametrize(
    ("strategy", "replicas", "alloc", "prev", "limits", "result"),
    [
        pytest.param(AGGREGATED, 80, FOUR, "", "", "m3:40 m4:40", id="S1"),
        pytest.param(AGGREGATED, 80, "m1:40 m2:30 m3:60", "m1:0 m2:0", "cluster:2..2", "m1:32 m3:48", id="S2"),
        pytest.param(
            AGGREGATED, 130, FOUR, "", "cluster:2..2", SPREAD + "no enough resource when selecting 2 clusters", id="S3"
        ),
        pytest.param(
            AGGREGATED,
            80,
            FOUR,
            "",
            "cluster:5..5",
            SPREAD + "the number of feasible clusters is less than spreadConstraint.MinGroups",
            id="S5",
        ),
        pytest.param(
            DUPLICATED,
            8,
            FOUR,
            "",
            "cluster:1..0",
            "failed to assign replicas: no clusters available to schedule",
            id="S6-duplicated",
        ),
        pytest.param(
            AGGREGATED,
            8,
            FOUR,
            "",
            "cluster:1..0",
            SPREAD + "no enough resource when selecting 0 clusters",
            id="S6-aggregated",
        ),
        pytest.param(static(m1=1, m2=1), 4, FOUR, "", "cluster:1..1", "m1:2 m2:2", id="S7"),
        pytest.param(EMPTY, 4, FOUR, "", "cluster:1..1", "m3:4", id="S8"),
        pytest.param(DUPLICATED, 4, FOUR, "", "provider:3..3 cluster:1..2", "m3:4 m4:4", id="S10"),
        pytest.param(
            DUPLICATED, 4, FOUR, "", "provider:1..1", SPREAD + "just support cluster and region spread constraint"
        ),
        pytest.param(AGGREGATED, 8, "m1:1 m2:9 m3:9", "m1:1", "cluster:1..1", "m2:8", id="first-in-ranking"),
    ],
)
def test_selection(strategy: Manifest, replicas: int, alloc: str, prev: str, limits: str, result: str) -> None:
    assert told(run(strategy, replicas, alloc, prev, limits=limits)) == result


IN_REGIONS = "m1=R1 m2=R1 m3=R2 m4=R2 m5=R3"
THREE = "m1:40 m2:30 m3:60 m4:20 m5:50"


@pytest.mark.parametrize(
    ("strategy", "replicas", "alloc", "prev", "limits", "result"),
    [
        pytest.param(AGGREGATED, 100, THREE, "", "region:2..2 cluster:2..3", "m1:40 m3:60", id="S11"),
        pytest.param(DUPLICATED, 30, THREE, "", "region:2..2 cluster:2..3", "m1:30 m3:30 m2:30", id="S12"),
        pytest.param(
            AGGREGATED,
            100,
            THREE,
            "",
            "region:1..1 cluster:3..3",
            SPREAD + "the number of clusters is less than the cluster spreadConstraint.MinGroups",
            id="S14",
        ),
        pytest.param(AGGREGATED, 50, THREE, "", "region:2..3 cluster:1..1", "m3:50", id="S15"),
        pytest.param(
            DUPLICATED,
            1,
            THREE,
            "",
            "region:4..4 cluster:1..1",
            SPREAD + "the number of feasible region is less than spreadConstraint.MinGroups",
            id="too-few-regions",
        ),
        pytest.param(
            AGGREGATED,
            60,
            "m1:40 m2:30 m3:60 m4:20 m5:40",
            "m5:10",
            "region:1..1 cluster:1..1",
            SHORT.format("scale up", 40),
            id="S19",
        ),
        pytest.param(
            AGGREGATED, 60, "m1:40 m2:30 m3:60 m4:20 m5:50", "m5:10", "region:1..1 cluster:1..1", "m5:60", id="S20"
        ),
    ],
)
def test_regions(strategy: Manifest, replicas: int, alloc: str, prev: str, limits: str, result: str) -> None:
    assert told(run(strategy, replicas, alloc, prev, limits=limits, regions=IN_REGIONS)) == result


@pytest.mark.parametrize(
    ("replicas", "limits", "chosen"),
    [
        # Duplicated shows the selection itself; a region's score then counts clusters that hold everything.
        pytest.param(20, "region:2..2 cluster:4..4", "m1 m3 m2 m4", id="S13"),
        pytest.param(20, "region:1..3 cluster:4..5", "m1 m3 m2 m4", id="S16"),
    ],
)
def test_clusters_keep_the_order_of_selection(replicas: int, limits: str, chosen: str) -> None:
    found = run(DUPLICATED, replicas, THREE, limits=limits, regions=IN_REGIONS)
    assert [item.name for item in found.clusters] == chosen.split()


@pytest.mark.parametrize(
    ("limits", "chosen"), [("region:2..2 cluster:2..2", "m1 m2"), ("region:1..3 cluster:1..3", "m1")]
)
def test_equal_regions_selected_in_order_of_names(limits: str, chosen: str) -> None:
    found = run(DUPLICATED, 2, "m1:5 m2:5 m3:5", limits=limits, regions="m1=R1 m2=R2 m3=R3")
    assert [item.name for item in found.clusters] == chosen.split()


def test_clusters_without_a_region_are_left_out_of_regions() -> None:
    assert told(run(DUPLICATED, 2, "m1:5 m2:99", limits="region:1..2 cluster:1..2", regions="m1=R1")) == "m1:2"


def test_empty_workload_propagation_keeps_selected_clusters() -> None:
    assert told(run(AGGREGATED, 5, "m1:9 m2:2 m3:3", propagate_empty=True)) == "m1:5 m3:0 m2:0"
