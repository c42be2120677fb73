"""Statuses that a real API server takes and that clients can wait for, of every kind whose status is summed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.manifest import Manifest
from services._rules.constants import TEMPLATE_GENERATION_ANNOTATION
from services._rules.interpreter import Operation
from services._rules.interpreter.native.status_conformance import ConformingInterpreter
from services._rules.kubernetes.validation.job_status import job_status

NATIVE = ConformingInterpreter()
START = datetime(2026, 1, 5, 8, tzinfo=UTC)
MEMBERS = ("member1", "member2", "member3")


def stamp(minutes: float) -> str:
    return (START + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def template(api: str, kind: str, status: Manifest | None = None, **spec: Any) -> Manifest:
    made: Manifest = {"apiVersion": api, "kind": kind, "metadata": {"name": "a", "generation": 3}, "spec": spec}
    return made if status is None else {**made, "status": status}


def summed(obj: Manifest, reports: list[Manifest | None], minutes: float = 60) -> Manifest:
    """The template with the status that follows from members' collected statuses."""
    items = [
        {"clusterName": name, "applied": True, "health": "Healthy"} | ({} if status is None else {"status": status})
        for name, status in zip(MEMBERS, reports, strict=False)
    ]
    found: Manifest = NATIVE.interpret(Operation.AGGREGATE, obj, items, stamp(minutes))
    return found


def condition(obj: Manifest, kind: str) -> Manifest:
    found: Manifest = {entry["type"]: entry for entry in obj["status"].get("conditions") or ()}.get(kind, {})
    return found


def job(started: float, *conditions: str, ended: float | None = None, **counts: int) -> Manifest:
    """What a member reports of a Job."""
    entries = [{"type": kind, "status": "True"} for kind in conditions]
    end = {} if ended is None else {"completionTime": stamp(ended)}
    return {"startTime": stamp(started), **end, **counts, **({"conditions": entries} if entries else {})}


RUNNING = job(1, active=1)
OLD_COMPLETE = job(1, "Complete", ended=5, succeeded=1)
COMPLETE = job(2, "SuccessCriteriaMet", "Complete", ended=6, succeeded=1)
FAILED = job(1, "FailureTarget", "Failed", failed=1)


@pytest.mark.parametrize("reports", [[COMPLETE, COMPLETE, COMPLETE], [OLD_COMPLETE, COMPLETE], [OLD_COMPLETE]])
def test_a_job_that_is_complete_everywhere_is_concluded(reports: list[Manifest | None]) -> None:
    found = summed(template("batch/v1", "Job"), reports)
    assert job_status(found, template("batch/v1", "Job")) == []
    assert [entry["type"] for entry in found["status"]["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert found["status"]["completionTime"] == max(report["completionTime"] for report in reports if report)
    assert summed(found, reports, 61) == found


def test_a_job_that_failed_somewhere_fails_when_nothing_runs() -> None:
    still = summed(template("batch/v1", "Job"), [FAILED, RUNNING])
    assert [entry["type"] for entry in still["status"]["conditions"]] == ["FailureTarget"]
    assert summed(still, [FAILED, RUNNING], 61) == still
    found = summed(still, [FAILED, COMPLETE], 62)
    assert job_status(found, still) == []
    assert [entry["type"] for entry in found["status"]["conditions"]] == ["FailureTarget", "Failed"]
    assert "completionTime" not in found["status"]


def test_a_job_that_began_to_fail_fails_without_the_cluster() -> None:
    still = summed(template("batch/v1", "Job"), [FAILED, RUNNING])
    found = summed(still, [COMPLETE], 62)
    assert job_status(found, still) == []
    assert condition(found, "Failed")["status"] == "True"


def test_counts_of_a_job_do_not_fall_with_a_cluster() -> None:
    before = summed(template("batch/v1", "Job"), [job(1, active=1, succeeded=4), job(1, active=1, succeeded=2)])
    assert before["status"]["succeeded"] == 6
    assert summed(before, [job(1, active=1, succeeded=2)])["status"]["succeeded"] == 6


phases = st.one_of(
    st.none(),
    st.just({}),
    st.builds(job, st.floats(0, 9), active=st.integers(0, 2), succeeded=st.integers(0, 3), failed=st.integers(0, 3)),
    st.builds(
        lambda start, end, met: job(start, *met, "Complete", ended=start + end, succeeded=2),
        st.floats(0, 9),
        st.floats(0, 9),
        st.sampled_from([(), ("SuccessCriteriaMet",)]),
    ),
    st.builds(
        lambda start, first: job(start, *first, "Failed", failed=1),
        st.floats(0, 9),
        st.sampled_from([(), ("FailureTarget",)]),
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(phases, max_size=3), min_size=1, max_size=4))
def test_each_step_of_a_job_is_taken_by_an_api_server(history: list[list[Manifest | None]]) -> None:
    obj = template("batch/v1", "Job")
    for minutes, reports in enumerate(history, 60):
        found = summed(obj, reports, minutes)
        assert job_status(found, obj) == []
        obj = found


def of_set(observed: int, own: int = 7, of_template: int = 3) -> Manifest:
    """What a member reports of a StatefulSet, from its object."""
    counts = {"replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "currentReplicas": 2, "availableReplicas": 2}
    live = template("apps/v1", "StatefulSet", {**counts, "observedGeneration": observed})
    live["metadata"] = {"generation": own, "annotations": {TEMPLATE_GENERATION_ANNOTATION: str(of_template)}}
    found: Manifest = NATIVE.interpret(Operation.STATUS, live)
    return found


@pytest.mark.parametrize(
    ("reports", "reached"),
    [
        ([of_set(7), of_set(7)], 3),
        ([of_set(7), of_set(6)], 2),
        ([of_set(7), of_set(7, of_template=2)], 2),
        ([of_set(2, own=2, of_template=2)], 2),
        ([of_set(7), None], 2),
        ([], 3),
    ],
)
def test_a_stateful_set_is_observed_when_each_member_runs_it(reports: list[Manifest | None], reached: int) -> None:
    obj = template("apps/v1", "StatefulSet", {"observedGeneration": 2, "replicas": 1}, replicas=4)
    assert summed(obj, reports)["status"]["observedGeneration"] == reached


def deployed(replicas: int, available: int, updated: int | None = None) -> Manifest:
    counts = {"replicas": replicas, "updatedReplicas": replicas if updated is None else updated}
    ready = {"readyReplicas": available, "availableReplicas": available}
    return {**counts, **ready, "generation": 1, "observedGeneration": 1, "resourceTemplateGeneration": 3}


@pytest.mark.parametrize(
    ("reports", "spec", "available", "rolled"),
    [
        ([deployed(2, 2), deployed(2, 2)], {"replicas": 4}, "True", "NewReplicaSetAvailable"),
        ([deployed(2, 2), deployed(2, 1)], {"replicas": 4}, "True", "ReplicaSetUpdated"),
        ([deployed(2, 1), deployed(2, 1)], {"replicas": 4}, "False", "ReplicaSetUpdated"),
        ([deployed(4, 4), deployed(4, 2)], {"replicas": 4}, "True", "ReplicaSetUpdated"),
        ([deployed(4, 4), deployed(4, 0)], {"replicas": 4}, "False", "ReplicaSetUpdated"),
        ([deployed(2, 2, updated=1)], {"replicas": 2}, "True", "ReplicaSetUpdated"),
        ([deployed(2, 1)], {"replicas": 2, "strategy": {"type": "Recreate"}}, "False", "ReplicaSetUpdated"),
        ([deployed(0, 0)], {"replicas": 0}, "True", "NewReplicaSetAvailable"),
    ],
)
def test_a_deployment_says_whether_it_is_available(
    reports: list[Manifest | None], spec: Manifest, available: str, rolled: str
) -> None:
    found = summed(template("apps/v1", "Deployment", **spec), reports)
    assert (condition(found, "Available")["status"], condition(found, "Progressing")["reason"]) == (available, rolled)
    assert summed(found, reports, 90) == found, "nothing changed, and nothing is dated anew"


def test_a_condition_is_dated_when_it_turns() -> None:
    down = summed(template("apps/v1", "Deployment", replicas=2), [deployed(2, 0)], 60)
    rolling = summed(down, [deployed(2, 2, updated=1)], 61)
    rolled = summed(rolling, [deployed(2, 2)], 62)
    assert condition(rolled, "Available")["lastTransitionTime"] == stamp(61)
    assert condition(rolled, "Progressing")["lastTransitionTime"] == stamp(60)
    assert condition(rolled, "Progressing")["lastUpdateTime"] == stamp(62)


@pytest.mark.parametrize("reports", [[None], [{"generation": 1, "resourceTemplateGeneration": 3}]])
def test_a_deployment_that_no_controller_has_seen_has_no_status(reports: list[Manifest | None]) -> None:
    obj = template("apps/v1", "Deployment", replicas=2)
    assert summed(obj, reports) is obj


def test_foreign_conditions_of_a_deployment_stay() -> None:
    foreign = {"type": "Checked", "status": "True"}
    obj = template("apps/v1", "Deployment", {"conditions": [foreign]}, replicas=2)
    assert condition(summed(obj, [deployed(2, 2)]), "Checked") == foreign


def of_pod(ready: str, **state: Any) -> Manifest:
    statuses = [{"name": "main", "ready": ready == "True", "state": state or {"running": {}}}]
    conditions = [{"type": kind, "status": ready, "reason": "R"} for kind in ("Ready", "ContainersReady")]
    return {"phase": "Running", "conditions": conditions, "containerStatuses": statuses}


def test_a_pod_is_ready_when_it_is_in_each_cluster() -> None:
    obj = template("v1", "Pod")
    assert condition(summed(obj, [of_pod("True"), of_pod("True")]), "Ready")["status"] == "True"
    lacking = condition(summed(obj, [of_pod("True"), of_pod("False")]), "Ready")
    assert (lacking["status"], lacking["reason"], lacking["message"]) == ("False", "R", "not so in member2")
    assert condition(summed(obj, [of_pod("True"), None]), "Ready")["status"] == "False"
    assert "conditions" not in summed(obj, [None])["status"]


def test_containers_of_different_clusters_are_told_apart() -> None:
    found = summed(template("v1", "Pod"), [of_pod("False", terminated={"exitCode": 0}), of_pod("True")])
    assert [entry["name"] for entry in found["status"]["containerStatuses"]] == ["main.member1", "main.member2"]


def test_a_replica_set_tells_labelled_replicas() -> None:
    live = template("apps/v1", "ReplicaSet", {"replicas": 2, "fullyLabeledReplicas": 2})
    live["metadata"] = {"generation": 1, "annotations": {TEMPLATE_GENERATION_ANNOTATION: "3"}}
    report = NATIVE.interpret(Operation.STATUS, live)
    assert summed(template("apps/v1", "ReplicaSet"), [report, report])["status"]["fullyLabeledReplicas"] == 4


def test_an_autoscaler_tells_the_conditions_of_its_members() -> None:
    def reported(active: str) -> Manifest:
        conditions = [
            {"type": "AbleToScale", "status": "True", "reason": "Ready", "message": "m" * 9999},
            {"type": "ScalingActive", "status": active, "reason": "R"},
            {"type": "Other", "status": "True"},
        ]
        status = {"desiredReplicas": 2, "conditions": conditions}
        live = template("autoscaling/v2", "HorizontalPodAutoscaler", status)
        live["metadata"]["annotations"] = {TEMPLATE_GENERATION_ANNOTATION: "3"}
        found: Manifest = NATIVE.interpret(Operation.STATUS, live)
        return found

    found = summed(template("autoscaling/v2", "HorizontalPodAutoscaler"), [reported("True"), reported("False")])
    states = {entry["type"]: entry["status"] for entry in found["status"]["conditions"]}
    assert states == {"AbleToScale": "True", "ScalingActive": "False"}
