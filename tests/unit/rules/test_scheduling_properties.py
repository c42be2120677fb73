"""What holds for every scheduling decision, whatever the clusters and the policy."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.manifest import Manifest
from services._rules.scheduling.decision_explanation import explain
from services._rules.scheduling.decoding import binding_view, cluster_view
from services._rules.scheduling.schedule import schedule
from services._rules.scheduling.scheduling_views import Decision, Status
from tests.support.scheduling import (
    AGGREGATED,
    DEPLOYMENT,
    DUPLICATED,
    DYNAMIC,
    WEIGHTED,
    index_of,
    member,
    spread,
)

NAMES = [f"m{number}" for number in range(8)]
TAINT = {"key": "k", "effect": "NoSchedule"}


@st.composite
def fleets(draw: st.DrawFn) -> list[Manifest]:
    """Some clusters, in no particular order."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=8))
    return [
        member(
            name,
            draw(st.integers(0, 20)),
            draw(st.sampled_from(["", "r1", "r2", "r3"])),
            metadata={"labels": {"env": draw(st.sampled_from(["prod", "dev"]))}},
            taints=[TAINT] if draw(st.integers(0, 5)) == 0 else [],
        )
        for name in names
    ]


@st.composite
def specs(draw: st.DrawFn) -> Manifest:
    """A binding of a workload, running somewhere or nowhere."""
    divided = st.sampled_from([AGGREGATED, WEIGHTED, DYNAMIC])
    placement: Manifest = {"replicaScheduling": draw(st.just(DUPLICATED) | divided)}
    if draw(st.booleans()):
        placement["clusterAffinity"] = {"labelSelector": {"matchLabels": {"env": "prod"}}}
    limits = {}
    if draw(st.booleans()):
        limits["cluster"] = (1, draw(st.integers(1, 4)))
        if draw(st.booleans()):
            limits["region"] = (1, draw(st.integers(1, 2)))
    placement["spreadConstraints"] = spread(**limits)
    running = draw(st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9), max_size=3))
    spec = {
        "resource": {**DEPLOYMENT, "uid": draw(st.sampled_from(["", "a", "b"]))},
        "replicas": draw(st.integers(1, 30)),
        "placement": placement,
        "clusters": [{"name": name, "replicas": count} for name, count in running.items()],
        "gracefulEvictionTasks": [{"fromCluster": draw(st.sampled_from(NAMES))}] if draw(st.booleans()) else [],
    }
    if draw(st.booleans()):
        spec["rescheduleTriggeredAt"] = "2026-01-02T00:00:00Z"
    return spec


def run(fleet: list[Manifest], spec: Manifest, **status: Any) -> Decision:
    """One decision from manifests."""
    return schedule(index_of(*fleet), binding_view(spec), Status(**status))


cases = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@cases
@given(fleets(), specs())
def test_decision_stays_within_spread_constraints(fleet: list[Manifest], spec: Manifest) -> None:
    constraints = {item["spreadByField"]: item for item in spec["placement"]["spreadConstraints"]}
    scheduling = spec["placement"]["replicaScheduling"]
    ignored = scheduling.get("replicaDivisionPreference") == "Weighted" and "weightPreference" not in scheduling
    decision = run(fleet, spec)
    if decision.error is not None or ignored or not constraints:
        return
    regions = {item["metadata"]["name"]: item["spec"]["region"] for item in fleet}
    used = {regions[item.name] for item in decision.clusters}
    most = constraints["cluster"]["maxGroups"]
    if "region" in constraints:
        # One cluster of every chosen region is always taken.
        assert len(used) <= constraints["region"]["maxGroups"]
        most = max(most, len(used))
    assert len(decision.clusters) <= most


@cases
@given(fleets(), specs())
def test_repeated_decision_is_the_same(fleet: list[Manifest], spec: Manifest) -> None:
    first = run(fleet, spec)
    if first.error is not None or spec["placement"]["spreadConstraints"]:
        return
    held = {item.name: item.replicas for item in first.clusters}
    left = [_less(item, held.get(item["metadata"]["name"], 0)) for item in fleet]
    again = {**spec, "clusters": [{"name": name, "replicas": count} for name, count in held.items()]}
    again.pop("rescheduleTriggeredAt", None)
    second = run(left, again)
    assert {item.name: item.replicas for item in second.clusters} == held


def _less(cluster: Manifest, replicas: int) -> Manifest:
    pods = cluster["status"]["resourceSummary"]["allocatable"]["pods"]
    status = {**cluster["status"], "resourceSummary": {"allocatable": {"pods": max(pods - replicas, 0)}}}
    return {**cluster, "status": status}


@cases
@given(fleets(), specs(), specs())
def test_earlier_decisions_do_not_change_a_decision(fleet: list[Manifest], spec: Manifest, other: Manifest) -> None:
    index = index_of(*fleet)
    schedule(index, binding_view(other))
    schedule(index, binding_view({**other, "placement": spec["placement"]}))
    assert schedule(index, binding_view(spec)) == run(fleet, spec)


@cases
@given(fleets(), specs(), st.lists(st.tuples(st.sampled_from(NAMES), st.booleans(), fleets()), max_size=6))
def test_decision_is_independent_of_cluster_history(
    fleet: list[Manifest], spec: Manifest, changes: list[tuple[str, bool, list[Manifest]]]
) -> None:
    present = {item["metadata"]["name"]: item for item in fleet}
    index = index_of(*fleet)
    binding = binding_view(spec)
    for name, stays, others in changes:
        schedule(index, binding)
        changed = next((item for item in others if item["metadata"]["name"] == name), None)
        if changed is not None and stays:
            present[name] = changed
            older, index = index, index.with_cluster(cluster_view(changed))
            # An index that is no longer the newest still answers for its own clusters.
            schedule(older, binding)
            assert older.without(name).by_name.keys() == older.by_name.keys() - {name}
        else:
            present.pop(name, None)
            index = index.without(name)
    assert schedule(index, binding) == run(list(present.values()), spec)


@cases
@given(fleets(), specs(), fleets(), fleets())
def test_indexes_derived_from_one_are_independent(
    fleet: list[Manifest], spec: Manifest, one: list[Manifest], other: list[Manifest]
) -> None:
    binding = binding_view(spec)
    start = index_of(*fleet)
    schedule(start, binding)
    present = [{item["metadata"]["name"]: item for item in fleet} for _ in range(2)]
    futures = [start, start]
    for number, changes in enumerate((one, other)):
        for item in changes:
            futures[number] = futures[number].with_cluster(cluster_view(item))
            present[number][item["metadata"]["name"]] = item
            for future, clusters in zip(futures, present, strict=True):
                assert schedule(future, binding) == run(list(clusters.values()), spec)


@cases
@given(fleets(), specs(), st.dictionaries(st.sampled_from(NAMES), st.integers(-1, 25)))
def test_accurate_estimates_limit_general_estimates(
    fleet: list[Manifest], spec: Manifest, answers: dict[str, int]
) -> None:
    index = index_of(*fleet)
    limited = [_limited(item, answers) for item in fleet]
    assert schedule(index, binding_view(spec), estimates=[answers]) == run(limited, spec)


def _limited(cluster: Manifest, answers: dict[str, int]) -> Manifest:
    answer = answers.get(cluster["metadata"]["name"], -1)
    pods = cluster["status"]["resourceSummary"]["allocatable"]["pods"]
    limited = pods if answer < 0 else min(pods, answer)
    return {**cluster, "status": {**cluster["status"], "resourceSummary": {"allocatable": {"pods": limited}}}}


@cases
@given(fleets(), specs())
def test_explanation_names_every_cluster(fleet: list[Manifest], spec: Manifest) -> None:
    index = index_of(*fleet)
    binding = binding_view(spec)
    status = Status(last_scheduled_time="2026-01-01T00:00:00Z")
    found = explain(index, binding, status)
    assert found.decision == schedule(index, binding, status)
    ranked = [item.name for item in found.clusters]
    assert sorted([*ranked, *found.refused]) == sorted(item["metadata"]["name"] for item in fleet)
    assert [item.rank for item in found.clusters] == [*range(1, len(ranked) + 1)]
    assert all(which and reason for which, reason in found.refused.values())
    if found.decision.error is None:
        targets = {item.name: item.replicas for item in found.decision.clusters}
        assert {item.name: item.replicas for item in found.clusters if item.replicas} == targets
        assert all(item.selected for item in found.clusters if item.replicas)
