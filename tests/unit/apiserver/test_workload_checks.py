"""Checks of workloads: new ones, changes of them and their statuses, by the newest rules or those of a release."""

import copy
from pathlib import Path

import pytest

from services._rules.kubernetes.patch.json_patch import merge_patch
from services._rules.kubernetes.validation.field_errors import FieldError
from services.apiserver.kinds.kind_model import DecodeError, Kind
from tests.support.builtin_kinds import created, kind_named, kind_of
from tests.support.case_files import Case, cases_of

CASES = Path(__file__).with_name("workload_checks.yaml")
METRICS = "autoscaling.alpha.kubernetes.io/metrics"


def kind_in(case: Case) -> Kind:
    return kind_named(case["kind"])


def assert_errors(case: Case, found: list[FieldError]) -> None:
    texts = [str(error) for error in found]
    assert len(texts) == len(case["errors"]), texts
    for text, beginning in zip(texts, case["errors"], strict=True):
        assert text.startswith(beginning)


@pytest.mark.parametrize("case", cases_of(CASES, "created"))
def test_errors_of_a_new_workload(case: Case) -> None:
    kind = kind_in(case)
    made = created(kind, copy.deepcopy(case["given"]))
    assert_errors(case, kind.check_metadata(made) + kind.validate_create(made))


@pytest.mark.parametrize("case", cases_of(CASES, "changed"))
def test_errors_of_a_changed_workload(case: Case) -> None:
    kind = kind_in(case)
    old = created(kind, copy.deepcopy(case["given"]))
    new = copy.deepcopy(merge_patch(old, case["change"]))
    kind.prepare_update(new, old)
    assert_errors(case, kind.validate_update(new, old))


@pytest.mark.parametrize("case", cases_of(CASES, "statuses"))
def test_errors_of_a_workload_status(case: Case) -> None:
    old = {"metadata": {"name": "x"}, "spec": {"restartPolicy": "Never"}, "status": case["before"]}
    assert_errors(case, kind_in(case).validate_status({**old, "status": case["status"]}, old))


@pytest.mark.parametrize("text", ["5", "[1]", "{", '[{"type": 5}]'])
def test_annotation_that_holds_no_metrics_is_refused(text: str) -> None:
    kind = kind_of("autoscaling/v1", "HorizontalPodAutoscaler")
    with pytest.raises(DecodeError):
        created(kind, {"metadata": {"annotations": {METRICS: text}}, "spec": {"maxReplicas": 1}})


def test_annotation_may_hold_no_metrics_at_all() -> None:
    kind = kind_of("autoscaling/v1", "HorizontalPodAutoscaler")
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    spec = {"maxReplicas": 1, "scaleTargetRef": reference}
    made = created(kind, {"metadata": {"annotations": {METRICS: "null"}}, "spec": spec})
    assert kind.validate_create(made) == []
    assert "metrics" not in kind.to_store(made)["spec"]
