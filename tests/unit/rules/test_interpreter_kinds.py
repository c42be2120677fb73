"""The built-in interpretation answers as native_interpretation.yaml says, and leaves its input as it is."""

import copy
from pathlib import Path
from typing import Any

import pytest

from services._rules.interpreter import InterpretError, NativeInterpreter, Operation
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


def test_quota_estimation_adds_namespace_and_priority_class() -> None:
    template = {"spec": {"containers": [], "priorityClassName": "high", "nodeSelector": {"disk": "ssd"}}}
    _, requirements = NATIVE.interpret(Operation.REPLICA, deployment(template=template), True)
    claim = {"nodeSelector": {"disk": "ssd"}}
    assert requirements == {"nodeClaim": claim, "priorityClassName": "high", "namespace": "prod"}


def test_revised_object_shares_what_did_not_change() -> None:
    given = deployment(replicas=2, paused=True)
    revised = NATIVE.interpret(Operation.REVISE, given, 7)
    assert revised["spec"] == {"replicas": 7, "paused": True}
    assert revised["metadata"] is given["metadata"]
    without = deployment(paused=True)
    assert NATIVE.interpret(Operation.REVISE, without, 7) is without


def test_wrong_type_error_names_the_field() -> None:
    with pytest.raises(InterpretError) as caught:
        NATIVE.interpret(Operation.REPLICA, deployment(template={"spec": {"containers": [{"name": 7}]}}))
    assert caught.value.field == "spec.template.spec.containers[0].name"


def test_unchanged_aggregation_returns_the_same_object() -> None:
    status = {"replicas": 1, "generation": 1, "observedGeneration": 1, "resourceTemplateGeneration": 4}
    items = [{"clusterName": "m1", "applied": True, "health": "Healthy", "status": status}]
    once = NATIVE.interpret(Operation.AGGREGATE, deployment(), items, "2026-03-01T10:00:00Z")
    assert NATIVE.interpret(Operation.AGGREGATE, once, items, "2026-03-01T10:00:00Z") is once


def test_long_annotation_gives_an_error_that_fits_an_event() -> None:
    live = {**deployment(), "status": {"replicas": 1}}
    live["metadata"] = {"annotations": {"resourcetemplate.karmada.io/generation": "x" * 200_000}}
    with pytest.raises(InterpretError) as told:
        NATIVE.interpret(Operation.STATUS, live)
    assert len(str(told.value)) < 1_500


def test_native_kinds_have_no_components() -> None:
    with pytest.raises(InterpretError, match=r"no interpreter offers \w+ for example\.io/v1 Custom"):
        NATIVE.interpret(
            Operation.COMPONENT, {"apiVersion": "example.io/v1", "kind": "Custom", "metadata": {"name": "c"}}
        )
