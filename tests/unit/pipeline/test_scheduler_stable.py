"""Deciding again changes nothing: neither at once, nor when the clusters show what was placed, nor after a restart."""

from __future__ import annotations

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.cluster import ClusterChanged
from schemas.events.placement import PlacementDecided
from schemas.manifest import Manifest
from services.scheduler.state import SchedulerState, fold
from tests.support.facts import KEY, binding, cluster
from tests.support.placements import decide

NOW = 1_793_232_000.0
NAMES = [f"m{number}" for number in range(8)]
DIVIDED = {"replicaSchedulingType": "Divided"}
WEIGHTED = {**DIVIDED, "replicaDivisionPreference": "Weighted"}
STRATEGIES: list[Manifest | None] = [
    None,
    {"replicaSchedulingType": "Duplicated"},
    {**DIVIDED, "replicaDivisionPreference": "Aggregated"},
    WEIGHTED,
    {**WEIGHTED, "weightPreference": {"dynamicWeight": "AvailableReplicas"}},
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


def member(name: str, region: str, pods: int, used: int = 0) -> ClusterChanged:
    fact = cluster(name, region=region)
    manifest = msgspec.json.decode(fact.manifest)
    room = {"allocatable": {"pods": str(pods)}, "allocated": {"pods": str(used)}}
    manifest["status"]["resourceSummary"] = room
    return replace(fact, manifest=msgspec.Raw(msgspec.json.encode(manifest)))


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(FLEETS, st.sampled_from(STRATEGIES), CONSTRAINTS, st.integers(0, 40), st.sampled_from(["", "a", "b"]))
def test_deciding_again_changes_nothing(
    fleet: list[tuple[str, str, int]], strategy: Manifest | None, spread: list[Manifest], replicas: int, uid: str
) -> None:
    placement = {"replicaScheduling": strategy, "spreadConstraints": spread}
    log: list[Known] = [*(member(*one) for one in fleet), binding(replicas, placement, uid=uid)]
    state = _folded(log)
    event = decide(state, KEY, NOW, "default-scheduler")
    if not isinstance(event, PlacementDecided):
        return
    log.append(replace(event, provenance=Provenance(as_of=len(log))))
    fold(state, len(log), subject_of(log[-1]), log[-1], NOW)
    assert decide(state, KEY, NOW + 1, "default-scheduler") is None
    given_to = {target.name: target.replicas or 0 for target in event.clusters}
    for name, region, pods in fleet:
        log.append(member(name, region, pods, given_to.get(name, 0)))
        fold(state, len(log), subject_of(log[-1]), log[-1], NOW)
        assert decide(state, KEY, NOW + 1, "default-scheduler") is None
    assert decide(_folded(log), KEY, NOW + 1, "default-scheduler") is None


def _folded(log: list[Known]) -> SchedulerState:
    state = SchedulerState()
    for seq, event in enumerate(log, 1):
        fold(state, seq, subject_of(event), event, NOW)
    return state
