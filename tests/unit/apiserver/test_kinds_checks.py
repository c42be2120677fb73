"""Checks of objects: the field, the kind of error and the text that a client reads."""

from pathlib import Path
from typing import Any

import pytest

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as meta
from services._rules.kubernetes.validation.field_errors import (
    aggregate,
    forbidden,
    go_map,
    invalid,
    not_supported,
    required,
)
from services.apiserver.kinds.checks import containers as container_checks
from services.apiserver.kinds.checks.job_specs import schedule_problem
from services.apiserver.kinds.kind_model import Kind
from tests.support.builtin_kinds import created, kind_named, kind_of
from tests.support.case_files import Case, cases_of

CASES = Path(__file__).with_name("kind_checks.yaml")


def pod(**container: Any) -> Manifest:
    return {"spec": {"containers": [{"name": "c", "image": "i", **container}]}}


def workload(**spec: Any) -> Manifest:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {"spec": {"selector": {"matchLabels": labels}, "template": template, **spec}}


def problems(kind: Kind, body: Manifest) -> list[str]:
    obj = created(kind, body)
    errors = [] if kind.virtual else kind.check_metadata(obj)
    return [str(error) for error in errors + kind.validate_create(obj)]


def assert_errors(found: list[str], expected: list[str]) -> None:
    assert len(found) == len(expected), found
    for text, beginning in zip(found, expected, strict=True):
        assert text.startswith(beginning)


@pytest.mark.parametrize("case", cases_of(CASES, "created"))
def test_errors_of_a_new_object(case: Case) -> None:
    assert_errors(problems(kind_named(case["kind"]), case["given"]), case["errors"])


@pytest.mark.parametrize("case", cases_of(CASES, "statuses"))
def test_errors_of_a_status(case: Case) -> None:
    old = {"metadata": {"name": "x"}}
    errors = kind_named(case["kind"]).validate_status({**old, "status": case["status"]}, old)
    assert_errors([str(error) for error in errors], case["errors"])


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"metadata": {"annotations": {"a": "x" * 300_000}}}, "metadata.annotations: Too long"),
        ({"data": {"k": "x" * 1_100_000}}, "[]: Too long"),
    ],
)
def test_config_map_is_too_long(body: Manifest, error: str) -> None:
    assert_errors(problems(kind_of("v1", "ConfigMap"), body), [error])


def test_error_is_a_status_cause() -> None:
    error = not_supported("spec.type", "Odd", ("A", "B"))
    assert error.cause() == {
        "reason": "FieldValueNotSupported",
        "message": 'Unsupported value: "Odd": supported values: "A", "B"',
        "field": "spec.type",
    }
    assert str(required("a.b")) == "a.b: Required value"
    assert str(forbidden("a", "no")) == "a: Forbidden: no"
    assert str(invalid("a", 5, "too big")) == "a: Invalid value: 5: too big"
    assert go_map({"b": "2", "a": "1"}).text == 'map[string]string{"a":"1", "b":"2"}'


def test_aggregate_names_equal_errors_once() -> None:
    one = required("a")
    assert aggregate([one, one]) == "a: Required value"
    assert aggregate([one, required("b"), one]) == "[a: Required value, b: Required value]"


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (names.label, "a-1", "A"),
        (names.subdomain, "a.b-c", "a..b"),
        (names.dns1035, "a1", "1a"),
        (names.qualified, "example.com/Name_1", "a/b/c"),
        (names.label_value, "", "a b"),
        (names.env_name, "1 a.b", "a=b"),
        (names.config_key, "..a".lstrip("."), ".."),
        (names.port_name, "http", "8080"),
        (names.wildcard, "*.example.com", "*example"),
        (names.path_segment, "system:x", "a/b"),
    ],
)
def test_name_formats(check: Any, good: str, bad: str) -> None:
    assert check(good) == []
    assert check(bad)


def test_new_object_needs_a_name() -> None:
    config = kind_of("v1", "ConfigMap")
    found = [str(error) for error in config.check_metadata({"metadata": {"namespace": "d"}})]
    assert found == ["metadata.name: Required value: name or generateName is required"]


def test_update_keeps_uid_and_adds_no_finalizers_in_deletion() -> None:
    old = {"metadata": {"name": "a", "uid": "1", "resourceVersion": "1", "deletionTimestamp": "2020-01-01T00:00:00Z"}}
    new = {"metadata": {**old["metadata"], "uid": "2", "finalizers": ["x.example.com/f"]}}
    texts = {str(error) for error in meta.check_update(new, old, names.subdomain, namespaced=False)}
    assert 'metadata.uid: Invalid value: "2": field is immutable' in texts
    assert any(text.startswith("metadata.finalizers: Forbidden: no new finalizers") for text in texts)


@pytest.mark.parametrize(
    ("version", "name", "whole", "times"),
    [
        ("v1", "ConfigMap", True, 3),
        ("v1", "ConfigMap", False, 2),
        ("v1", "PersistentVolume", True, 4),
        ("v1", "PersistentVolumeClaim", True, 4),
        ("apps/v1", "Deployment", True, 2),
        ("policy/v1", "PodDisruptionBudget", True, 1),
        ("rbac.authorization.k8s.io/v1", "Role", True, 4),
    ],
)
def test_bad_label_is_found_by_each_check_of_an_update(version: str, name: str, whole: bool, times: int) -> None:
    kind = kind_of(version, name)
    metadata = {"name": "a", "uid": "1", "resourceVersion": "1"}
    if kind.resource.namespaced:
        metadata["namespace"] = "ns"
    old: Manifest = {"metadata": metadata}
    new: Manifest = {"metadata": {**metadata, "labels": {"k": "bad value!"}}}
    assert [error.field for error in kind.check_metadata_update(new, old, whole=whole)] == ["metadata.labels"] * times


def test_finalizers_of_an_update_are_looked_at_by_kinds_only() -> None:
    old: Manifest = {"metadata": {"name": "a", "namespace": "ns", "uid": "1", "resourceVersion": "1"}}
    new: Manifest = {"metadata": {**old["metadata"], "finalizers": ["x.io/y", "plain"]}}
    found = kind_of("v1", "ConfigMap").check_metadata_update(new, old)
    assert [error.field for error in found] == ["metadata.finalizers[1]"] * 2
    assert kind_of("coordination.k8s.io/v1", "Lease").check_metadata_update(new, old) == []


def test_privileged_containers_refused_when_not_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    body = pod(securityContext={"privileged": True})
    assert problems(kind_of("v1", "Pod"), body) == []
    monkeypatch.setattr(container_checks, "privileged_allowed", False)
    expected = "spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy"
    assert problems(kind_of("v1", "Pod"), body) == [expected]


@pytest.mark.parametrize("name", ["Deployment", "ReplicaSet", "DaemonSet"])
def test_selector_of_a_workload_is_immutable(name: str) -> None:
    kind = kind_of("apps/v1", name)
    old = created(kind, workload())
    new = {**old, "spec": {**old["spec"], "selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}}
    found = kind.validate_update(new, old)
    assert [(error.field, error.detail) for error in found] == [("spec.selector", "field is immutable")]


def test_pod_update_changes_images_only() -> None:
    kind = kind_of("v1", "Pod")
    old = created(kind, pod())
    image = {**old, "spec": {**old["spec"], "containers": [{**old["spec"]["containers"][0], "image": "j"}]}}
    assert kind.validate_update(image, old) == []
    node = {**old, "spec": {**old["spec"], "nodeName": "n"}}
    found = kind.validate_update(node, old)
    assert [error.field for error in found] == ["spec"]
    assert "spec.nodeName" in found[0].detail


@pytest.mark.parametrize("schedule", ["* * * * *", "*/5 1-3 * JAN mon", "@daily", "@every 1h30m", "TZ=UTC 0 0 * * 0"])
def test_valid_schedules(schedule: str) -> None:
    assert schedule_problem(schedule) == ""


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        ("every day", "Expected exactly 5 fields, found 2: every day"),
        ("60 * * * *", "End of range (60) above maximum (59): 60"),
        ("* * 0 * *", "Beginning of range (0) below minimum (1): 0"),
        ("*/0 * * * *", "Step of range should be a positive number: */0"),
        ("3-1 * * * *", "Beginning of range (3) beyond end of range (1): 3-1"),
        ("x * * * *", 'Failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("@often", "Unrecognized descriptor: @often"),
    ],
)
def test_invalid_schedules_say_what_is_wrong(schedule: str, text: str) -> None:
    assert schedule_problem(schedule) == text


def test_decided_conditions_of_a_signing_request_stay() -> None:
    kind = kind_of("certificates.k8s.io/v1", "CertificateSigningRequest")
    old = {"metadata": {"name": "a"}, "status": {"conditions": [{"type": "Denied", "status": "True"}]}}
    new = {"metadata": {"name": "a"}, "status": {"conditions": [{"type": "Approved", "status": "True"}]}}
    assert [str(error) for error in kind.validate_status(new, old)] == [
        'status.conditions: Forbidden: updates may not remove a condition of type "Denied"',
        'status.conditions: Forbidden: updates may not add a condition of type "Approved"',
    ]
