"""The built-in interpretation answers as native_interpretation.yaml says, and leaves its input as it is."""

import copy
from pathlib import Path
from typing import Any

import pytest

from services._rules.interpreter import InterpretError, NativeInterpreter
from tests.golden.runners.interpreter_native import evaluate
from tests.support.case_files import Case, cases_of

NATIVE = NativeInterpreter()
CASES = Path(__file__).with_name("native_interpretation.yaml")


def deployment(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "prod", "generation": 4}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("case", cases_of(CASES))
def test_interpretation_of_native_kinds(case: Case) -> None:
    given = copy.deepcopy(case["args"])
    result, problem = evaluate(case)
    assert case["args"] == given
    if "error" in case:
        assert case["error"] in str(problem)
    else:
        assert (result, problem) == (case["result"], None)


def test_quota_estimation_adds_the_priority_class() -> None:
    template = {"spec": {"containers": [], "priorityClassName": "high", "nodeSelector": {"disk": "ssd"}}}
    _, requirements = NATIVE.get_replicas(deployment(template=template), quota=True)
    assert requirements == {"nodeClaim": {"nodeSelector": {"disk": "ssd"}}, "priorityClassName": "high"}


def test_revised_object_shares_what_did_not_change() -> None:
    given = deployment(replicas=2, paused=True)
    revised = NATIVE.revise_replica(given, 7)
    assert revised["spec"] == {"replicas": 7, "paused": True}
    assert revised["metadata"] is given["metadata"]
    without = deployment(paused=True)
    assert NATIVE.revise_replica(without, 7) is without


def test_wrong_type_error_names_the_field() -> None:
    with pytest.raises(InterpretError) as caught:
        NATIVE.get_replicas(deployment(template={"spec": {"containers": [{"name": 7}]}}))
    assert caught.value.field == "spec.template.spec.containers[0].name"


def test_unchanged_aggregation_returns_the_same_object() -> None:
    status = {"replicas": 1, "generation": 1, "observedGeneration": 1, "resourceTemplateGeneration": 4}
    items = [{"clusterName": "m1", "applied": True, "health": "Healthy", "status": status}]
    once = NATIVE.aggregate_status(deployment(), items, now="2026-03-01T10:00:00Z")
    assert NATIVE.aggregate_status(once, items, now="2026-03-01T10:00:00Z") is once


def test_long_annotation_gives_an_error_that_fits_an_event() -> None:
    live = {**deployment(), "status": {"replicas": 1}}
    live["metadata"] = {"annotations": {"resourcetemplate.karmada.io/generation": "x" * 200_000}}
    with pytest.raises(InterpretError) as told:
        NATIVE.reflect_status(live)
    assert len(str(told.value)) < 1_500


def test_native_kinds_have_no_components() -> None:
    with pytest.raises(InterpretError, match=r"example\.io/v1 Custom has no built-in"):
        NATIVE.get_components({"apiVersion": "example.io/v1", "kind": "Custom", "metadata": {"name": "c"}})
