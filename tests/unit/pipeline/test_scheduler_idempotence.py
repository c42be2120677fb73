"""Deciding again changes nothing: neither at once, nor when the clusters show what was placed, nor after a restart."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.events.placement import PlacementDecided
from schemas.manifest import Manifest
from tests.support.facts import DIVIDED, DYNAMIC, binding, member
from tests.support.harness import SCHEDULER, Harness

NAMES = [f"m{number}" for number in range(8)]
WEIGHTED: Manifest = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
STRATEGIES: list[Manifest | None] = [
    None,
    {"replicaSchedulingType": "Duplicated"},
    DIVIDED["replicaScheduling"],
    WEIGHTED,
    DYNAMIC["replicaScheduling"],
    {
        **WEIGHTED,
        "weightPreference": {
            "staticWeightList": [
                {"targetCluster": {"clusterNames": NAMES[:4]}, "weight": 1},
                {"targetCluster": {"clusterNames": NAMES[4:]}, "weight": 2},
            ]
        },
    },
]


def limits(field: str) -> st.SearchStrategy[Manifest]:
    return st.builds(
        lambda least, more: {"spreadByField": field, "minGroups": least, "maxGroups": least + more},
        st.integers(1, 3),
        st.integers(0, 3),
    )


CONSTRAINTS = st.one_of(
    st.just([]),
    limits("cluster").map(lambda one: [one]),
    limits("region").map(lambda one: [one]),
    st.tuples(limits("region"), limits("cluster")).map(list),
)
FLEETS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(["", "r1", "r2", "r3"]), st.integers(0, 30)),
    unique_by=lambda one: one[0],
    min_size=1,
)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(FLEETS, st.sampled_from(STRATEGIES), CONSTRAINTS, st.integers(0, 40), st.sampled_from(["", "a", "b"]))
def test_scheduling_again_changes_nothing(
    fleet: list[tuple[str, str, int]], strategy: Manifest | None, spread: list[Manifest], replicas: int, uid: str
) -> None:
    placement = {"replicaScheduling": strategy, "spreadConstraints": spread}
    members = (member(name, pods=pods, region=region) for name, region, pods in fleet)
    scheduler = Harness(SCHEDULER, *members, binding(replicas, placement, uid=uid))
    event = scheduler.decides()
    if not isinstance(event, PlacementDecided):
        return
    scheduler.now += 1
    assert scheduler.decided() is None
    given_to = {target.name: target.replicas or 0 for target in event.clusters}
    for name, region, pods in fleet:
        scheduler.given(member(name, pods=pods, used={"pods": str(given_to.get(name, 0))}, region=region))
        assert scheduler.decided() is None
    assert Harness(SCHEDULER, *(fact for _, fact in scheduler.log)).decided() is None
