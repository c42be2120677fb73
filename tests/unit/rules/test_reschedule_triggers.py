"""When a binding is scheduled, how affinity groups are walked, and what is reported afterwards."""

import json
from typing import Any

import pytest

from schemas.manifest import Manifest
from services._rules.scheduling.compiled_placement import compile_placement
from services._rules.scheduling.decoding import binding_view
from services._rules.scheduling.division.weights import TargetCluster
from services._rules.scheduling.outcome import outcome, success_event
from services._rules.scheduling.reschedule_triggers import placement_changed, trigger
from services._rules.scheduling.schedule import schedule, schedule_groups
from services._rules.scheduling.scheduling_views import Decision, SchedulingOptions, Status
from tests.support.scheduling import AGGREGATED, DEPLOYMENT, DUPLICATED, index_of, member, spread

DIVIDED = {"replicaScheduling": AGGREGATED}
COPIED = {"replicaScheduling": DUPLICATED}
DONE = Status("", "2026-01-01T00:00:00Z")


def spec(placement: Manifest, replicas: int = 3, **more: Any) -> Manifest:
    return {
        "resource": DEPLOYMENT,
        "replicas": replicas,
        "placement": placement,
        "clusters": [{"name": "m1", "replicas": 3}],
        **more,
    }


def why(binding: Manifest, applied: str | None, status: Status = DONE, *clusters: Manifest) -> str | None:
    found = trigger(index_of(*(clusters or (member("m1"),))), binding_view(binding), status, applied)
    return found and f"{found.schedule_type}: {found.reason}"


def test_a_settled_divided_workload_is_left_alone() -> None:
    assert why(spec(DIVIDED), json.dumps(DIVIDED)) is None


def test_each_rung_of_the_ladder() -> None:
    applied = json.dumps(DIVIDED)
    assert why(spec(DIVIDED), None) == "ReconcileSchedule: the placement changed"
    assert why(spec(DIVIDED, 4), applied) == "ScaleSchedule: the number of replicas changed"
    again = spec(DIVIDED, rescheduleTriggeredAt="2026-01-01T00:00:01Z")
    assert why(again, applied) == "ReconcileSchedule: a reschedule was requested"
    same_second = spec(DIVIDED, rescheduleTriggeredAt="2026-01-01T00:00:00Z")
    assert why(same_second, applied) is None
    assert "duplicated" in (why(spec(COPIED), json.dumps(COPIED)) or "")
    config = {**spec(DIVIDED, 0), "clusters": []}
    assert "without replicas" in (why(config, applied) or "")
    leaving = member("m1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert "m1 is being deleted" in (why(spec(DIVIDED), applied, DONE, leaving) or "")


@pytest.mark.parametrize(
    ("new", "applied", "observed", "changed"),
    [
        (DIVIDED, None, "", True),
        (DIVIDED, "", "", True),
        (DIVIDED, "{broken", "", False),
        (DIVIDED, json.dumps(DIVIDED), "", False),
        ({**DIVIDED, "spreadConstraints": []}, json.dumps(DIVIDED), "", False),
        ({**DIVIDED, "clusterAffinity": {}}, json.dumps(DIVIDED), "", True),
        ({**DIVIDED, "clusterTolerations": [{"operator": "Exists"}]}, json.dumps(DIVIDED), "", True),
        ({**DIVIDED, "workloadAffinity": {"affinity": {"groupByLabelKey": "a"}}}, json.dumps(DIVIDED), "", True),
    ],
)
def test_changes_of_placement(new: Manifest, applied: str | None, observed: str, changed: bool) -> None:
    assert placement_changed(compile_placement(new), applied, observed) is changed


def test_only_a_change_of_the_observed_term_counts() -> None:
    def terms(**names: list[str]) -> Manifest:
        return {"clusterAffinities": [{"affinityName": name, "clusterNames": part} for name, part in names.items()]}

    old = json.dumps(terms(a=["m1"], b=["m2"]))
    assert not placement_changed(compile_placement(terms(a=["m1"], b=["m3"])), old, "a")
    assert placement_changed(compile_placement(terms(a=["m1"], b=["m3"])), old, "b")
    assert placement_changed(compile_placement(terms(a=["m1"], b=["m3"])), old, "")
    assert placement_changed(compile_placement(terms(b=["m2"])), old, "a")
    assert not placement_changed(compile_placement(terms(b=["m2"])), old, "b")


def test_components_without_targets_are_a_change_of_replicas() -> None:
    several = {**spec(DIVIDED, 0), "clusters": [], "components": [{"name": "a", "replicas": 1}]}
    found = trigger(
        index_of(member("m1")),
        binding_view(several),
        DONE,
        json.dumps(DIVIDED),
        SchedulingOptions(several_templates=True),
    )
    assert found is not None
    assert found.schedule_type == "ScaleSchedule"


GROUPS = {
    **DIVIDED,
    "clusterAffinities": [
        {"affinityName": "primary", "clusterNames": ["m1"]},
        {"affinityName": "backup", "clusterNames": ["m2"]},
    ],
}


def test_first_affinity_group_with_capacity_is_selected() -> None:
    clusters = index_of(member("m1", 1), member("m2", 9))
    binding = binding_view({**spec(GROUPS), "clusters": []})
    attempt = schedule_groups(clusters, binding)
    assert attempt.decision == Decision((TargetCluster("m2", 3),))
    assert attempt.observed_affinity == "backup"
    assert [(position, name) for position, name, _ in attempt.failures] == [(0, "primary")]
    roomy = index_of(member("m1", 9), member("m2", 9))
    assert schedule_groups(roomy, binding, Status("backup")).observed_affinity == "backup"
    assert schedule_groups(roomy, binding, Status("gone")).observed_affinity == "primary"


@pytest.mark.parametrize(
    ("clusters", "error"),
    [
        ([member("m2", 1)], "FitError"),
        ([member("m1", 1)], "Unschedulable"),
    ],
)
def test_when_all_groups_fail_the_first_failure_decides(clusters: list[Manifest], error: str) -> None:
    attempt = schedule_groups(index_of(*clusters), binding_view({**spec(GROUPS), "clusters": []}), Status("primary"))
    assert attempt.decision.error == error
    assert attempt.observed_affinity == "primary"
    assert len(attempt.failures) == 2


@pytest.mark.parametrize(
    ("decision", "reason", "retry", "replaces"),
    [
        (Decision(), "Success", False, True),
        (Decision((), "FitError", "x"), "NoClusterFit", False, True),
        (Decision((), "Unschedulable", "x"), "Unschedulable", True, False),
        (Decision((), "Error", "x"), "SchedulerError", True, False),
    ],
)
def test_conditions(decision: Decision, reason: str, retry: bool, replaces: bool) -> None:
    found = outcome(decision)
    assert (found.reason, found.retry, found.replaces_targets) == (reason, retry, replaces)
    assert found.scheduled is (decision.error is None)


def test_event_texts() -> None:
    targets = (TargetCluster("m1", 1), TargetCluster("m2", 2))
    assert success_event(targets) == "Binding has been scheduled successfully. Result: {m1:1, m2:2}"
    assert success_event(targets, True) == "Binding has been scheduled successfully. Result {m1:1, m2:2}"


def test_accurate_estimates_only_lower_capacity() -> None:
    clusters = index_of(member("m1", 9), member("m2", 9))
    binding = binding_view({**spec(DIVIDED, 9), "clusters": []})
    assert schedule(clusters, binding).clusters == (TargetCluster("m1", 9),)
    limited = schedule(clusters, binding, estimates=[{"m1": 2, "m2": -1}, {"m2": 20}])
    assert limited.clusters == (TargetCluster("m2", 9),)
    assert schedule(clusters, binding, estimates=[{"m1": 2, "m2": 3}]).error == "Unschedulable"
    assert schedule(index_of(member("m1", 8)), binding, estimates=[{"m1": 9}]).error == "Unschedulable"


def test_component_set_needs_capacity_for_a_whole_set() -> None:
    placement = {
        "replicaScheduling": AGGREGATED,
        "spreadConstraints": spread(cluster=(1, 1)),
    }
    components = [{"name": "jm", "replicas": 1}, {"name": "tm", "replicas": 4}]
    binding = binding_view({**spec(placement, 0), "clusters": [], "components": components})
    options = SchedulingOptions(several_templates=True)
    clusters = index_of(member("m1", 4), member("m2", 5))
    assert schedule(clusters, binding, options=options).clusters == (TargetCluster("m2"),)
    assert schedule(index_of(member("m1", 4)), binding, options=options).error == "Error"
