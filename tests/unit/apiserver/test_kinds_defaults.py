"""Defaults and life-cycle rules of the built-in kinds."""

import copy
from pathlib import Path

import pytest

from schemas.manifest import Manifest
from services._rules.kubernetes.patch.json_patch import merge_patch
from services.apiserver.kinds.workloads.pods import qos_class
from tests.support.builtin_kinds import created, kind_named, kind_of
from tests.support.case_files import Case, assert_within, cases_of

CASES = Path(__file__).with_name("kind_life_cycle.yaml")


@pytest.mark.parametrize("case", cases_of(CASES, "created"))
def test_defaults_of_a_new_object(case: Case) -> None:
    assert_within(case["then"], created(kind_named(case["kind"]), copy.deepcopy(case["given"])))


@pytest.mark.parametrize("case", cases_of(CASES, "updated"))
def test_update_follows_the_rules_of_its_kind(case: Case) -> None:
    kind = kind_named(case["kind"])
    old = created(kind, copy.deepcopy(case["given"]))
    new = copy.deepcopy(merge_patch(old, case["change"]))
    kind.prepare_update(new, old)
    assert_within(case["then"], new)
    assert kind.validate_update(new, old) == []


@pytest.mark.parametrize("case", cases_of(CASES, "status_written"))
def test_status_write_keeps_the_rest(case: Case) -> None:
    kind = kind_named(case["kind"])
    old = created(kind, copy.deepcopy(case["given"]))
    new = copy.deepcopy(merge_patch(old, case["change"]))
    kind.prepare_status(new, old)
    assert_within(case["then"], new)
    assert new["spec"] == old["spec"]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "100m"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}, "Burstable"),
        ({"requests": {"example.com/gpu": "1"}}, "BestEffort"),
    ],
)
def test_quality_of_service_follows_requests_and_limits(resources: Manifest, expected: str) -> None:
    assert qos_class({"containers": [{"resources": resources}]}) == expected


@pytest.mark.parametrize(
    ("api_version", "name", "obj", "expected"),
    [
        (
            "v1",
            "Pod",
            {"spec": {"nodeName": "n"}, "status": {"phase": "Running"}},
            {"spec.nodeName": "n", "status.phase": "Running"},
        ),
        ("v1", "Secret", {"type": "Opaque"}, {"type": "Opaque"}),
        ("v1", "Node", {"spec": {"unschedulable": True}}, {"spec.unschedulable": "true"}),
        ("v1", "Event", {"involvedObject": {"name": "p"}, "reason": "R"}, {"involvedObject.name": "p", "reason": "R"}),
        ("batch/v1", "Job", {"status": {"succeeded": 2}}, {"status.successful": "2"}),
    ],
)
def test_field_selectors_show_the_fields_of_the_kind(
    api_version: str, name: str, obj: Manifest, expected: dict[str, str]
) -> None:
    kind = kind_of(api_version, name)
    fields = kind.field_selectors({"metadata": {"name": "a", "namespace": "d"}, **obj})
    assert expected.items() <= fields.items()
    assert fields["metadata.name"] == "a"
    assert kind.selectable_fields() == fields.keys()


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("localhost:5000/team/nginx", "Always"),
        ("Registry.example.com/nginx", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("registry:443/a/b__c-d.e:1", "IfNotPresent"),
        ("nginx@sha256:0", "IfNotPresent"),
        ("UPPER/x", "IfNotPresent"),
        ("", "IfNotPresent"),
        (" nginx ", "IfNotPresent"),
    ],
)
def test_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    obj = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": image}]}}
    kind_of("v1", "Pod").default(obj)
    assert obj["spec"]["containers"][0]["imagePullPolicy"] == policy
