"""Checks of objects: the field, the kind of error and the text that a client reads."""

from typing import Any

import pytest

from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as meta
from services._rules.kubernetes.validation.field_errors import (
    FieldError,
    aggregate,
    forbidden,
    go_map,
    invalid,
    not_supported,
    required,
)
from services.apiserver.kinds.checks import containers as container_checks
from services.apiserver.kinds.checks import schedules as cron
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.kinds.workloads.deployments import MISMATCH

REGISTRY = builtin_registry()
JOB_WITHOUT_POLICY = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}
AUTOSCALER = {"spec": {"maxReplicas": 0, "scaleTargetRef": {"kind": "D", "name": "d"}}}
HOOK_FIELDS = ["name", "sideEffects", "clientConfig", "admissionReviewVersions"]
UID = "8a7f6a1e-0000-4000-8000-000000000000"


def kind_of(api_version: str, name: str) -> Kind:
    found = REGISTRY.by_api_version(api_version, name)
    assert found is not None
    return found


def prepared(kind: Kind, body: dict[str, Any]) -> dict[str, Any]:
    body.setdefault("metadata", {}).setdefault("name", "x")
    kind.decode(body)
    if kind.resource.namespaced:
        body["metadata"]["namespace"] = "d"
    kind.default(body)
    body["metadata"]["uid"] = UID
    kind.prepare_create(body)
    return body


def problems(api_version: str, name: str, body: dict[str, Any]) -> list[str]:
    kind = kind_of(api_version, name)
    obj = prepared(kind, body)
    return [str(error) for error in kind.check_metadata(obj) + kind.validate_create(obj)]


def pod(**container: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "image": "i", **container}]}}


def workload(**spec: Any) -> dict[str, Any]:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {"spec": {"selector": {"matchLabels": labels}, "template": template, **spec}}


def test_errors_are_rendered_like_status_causes() -> None:
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


def test_several_errors_stand_in_brackets_and_equal_ones_once() -> None:
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
        (names.env_name, "_A.b-1", "1a"),
        (names.config_key, "..a".lstrip("."), ".."),
        (names.port_name, "http", "8080"),
        (names.wildcard, "*.example.com", "*example"),
        (names.path_segment, "system:x", "a/b"),
    ],
)
def test_name_formats(check: Any, good: str, bad: str) -> None:
    assert check(good) == []
    assert check(bad)


def test_a_new_object_needs_a_name() -> None:
    config = kind_of("v1", "ConfigMap")
    found = [str(error) for error in config.check_metadata({"metadata": {"namespace": "d"}})]
    assert found == ["metadata.name: Required value: name or generateName is required"]


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"name": "UPPER"}, "metadata.name"),
        ({"labels": {"bad key!": "v"}}, "metadata.labels"),
        ({"labels": {"k": "bad value!"}}, "metadata.labels"),
        ({"annotations": {"bad key!": "v"}}, "metadata.annotations"),
        ({"finalizers": ["plain"]}, "metadata.finalizers"),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": "u"}]},
            "metadata.ownerReferences.name",
        ),
        ({"annotations": {"a": "x" * 300_000}}, "metadata.annotations"),
    ],
)
def test_metadata_is_checked(metadata: dict[str, Any], field: str) -> None:
    found = problems("v1", "ConfigMap", {"metadata": metadata})
    assert found
    assert all(text.startswith(field + ":") for text in found)


def test_an_update_may_not_change_the_identity_nor_add_finalizers_while_deleting() -> None:
    old = {"metadata": {"name": "a", "uid": "1", "resourceVersion": "1", "deletionTimestamp": "2020-01-01T00:00:00Z"}}
    new = {"metadata": {**old["metadata"], "uid": "2", "finalizers": ["x.example.com/f"]}}
    texts = {str(error) for error in meta.check_update(new, old)}
    assert 'metadata.uid: Invalid value: "2": field is immutable' in texts
    assert any(text.startswith("metadata.finalizers: Forbidden: no new finalizers") for text in texts)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"spec": {}}, ["spec.containers: Required value"]),
        (pod(name="A_b"), [f'spec.containers[0].name: Invalid value: "A_b": {names.LABEL_TEXT}']),
        (pod(image=""), ["spec.containers[0].image: Required value"]),
        (
            pod(ports=[{"containerPort": 0}, {"containerPort": 70000}]),
            [
                "spec.containers[0].ports[0].containerPort: Required value",
                f"spec.containers[0].ports[1].containerPort: Invalid value: 70000: {container_checks.PORT_RANGE}",
            ],
        ),
        (
            pod(volumeMounts=[{"name": "v", "mountPath": "/v"}]),
            ['spec.containers[0].volumeMounts[0].name: Not found: "v"'],
        ),
        (
            pod(resources={"requests": {"cpu": "-1"}}),
            ['spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0'],
        ),
        (
            pod(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            ['spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit'],
        ),
        (
            pod(readinessProbe={}),
            ["spec.containers[0].readinessProbe: Required value: must specify a handler type"],
        ),
        (
            pod(livenessProbe={"exec": {"command": ["x"]}, "httpGet": {"port": 1}}),
            ["spec.containers[0].livenessProbe.httpGet: Forbidden: may not specify more than 1 handler type"],
        ),
        (
            pod(imagePullPolicy="Maybe"),
            [
                'spec.containers[0].imagePullPolicy: Unsupported value: "Maybe": supported values: '
                + '"Always", "IfNotPresent", "Never"'
            ],
        ),
    ],
)
def test_pods_are_checked(body: dict[str, Any], expected: list[str]) -> None:
    assert problems("v1", "Pod", body) == expected


def test_privileged_containers_are_refused_where_the_server_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    body = pod(securityContext={"privileged": True})
    assert problems("v1", "Pod", body) == []
    monkeypatch.setattr(container_checks, "privileged_allowed", False)
    expected = "spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy"
    assert problems("v1", "Pod", body) == [expected]


@pytest.mark.parametrize("name", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"])
def test_the_selector_must_match_the_template(name: str) -> None:
    assert problems("apps/v1", name, workload()) == []
    found = problems("apps/v1", name, workload(selector={"matchLabels": {"app": "b"}}))
    assert found == [f'spec.template.metadata.labels: Invalid value: map[string]string{{"app":"a"}}: {MISMATCH}']


def test_a_deployment_reports_all_that_is_wrong() -> None:
    found = problems("apps/v1", "Deployment", {"spec": {}})
    assert found == [
        "spec.selector: Required value",
        f"spec.template.metadata.labels: Invalid value: map[string]string(nil): {MISMATCH}",
        "spec.template.spec.containers: Required value",
    ]


@pytest.mark.parametrize("name", ["Deployment", "ReplicaSet", "DaemonSet"])
def test_the_selector_of_a_workload_may_not_change(name: str) -> None:
    kind = kind_of("apps/v1", name)
    old = prepared(kind, workload())
    new = {**old, "spec": {**old["spec"], "selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}}
    found = kind.validate_update(new, old)
    assert [(error.field, error.detail) for error in found] == [("spec.selector", "field is immutable")]


def test_a_recreate_strategy_has_no_rolling_update() -> None:
    strategy = {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}
    assert problems("apps/v1", "Deployment", workload(strategy=strategy)) == [
        "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"
    ]


def test_a_pod_may_only_change_images_and_gain_tolerations() -> None:
    kind = kind_of("v1", "Pod")
    old = prepared(kind, pod())
    image = {**old, "spec": {**old["spec"], "containers": [{**old["spec"]["containers"][0], "image": "j"}]}}
    assert kind.validate_update(image, old) == []
    node = {**old, "spec": {**old["spec"], "nodeName": "n"}}
    found = kind.validate_update(node, old)
    assert [error.field for error in found] == ["spec"]
    assert "spec.nodeName" in found[0].detail


@pytest.mark.parametrize(
    ("api_version", "name", "body", "fields"),
    [
        ("v1", "Service", {"spec": {}}, ["spec.ports"]),
        ("v1", "Service", {"spec": {"type": "ExternalName"}}, ["spec.externalName"]),
        (
            "v1",
            "Service",
            {"spec": {"ports": [{"port": 1}, {"port": 2}]}},
            ["spec.ports[0].name", "spec.ports[1].name"],
        ),
        ("v1", "Service", {"metadata": {"name": "1a"}, "spec": {"ports": [{"port": 1}]}}, ["metadata.name"]),
        ("v1", "ConfigMap", {"data": {"bad key": "x"}}, ["data[bad key]"]),
        ("v1", "ConfigMap", {"data": {"k": "x" * 1_100_000}}, ["[]"]),
        ("v1", "Secret", {"type": "kubernetes.io/tls"}, ["data[tls.crt]", "data[tls.key]"]),
        ("batch/v1", "Job", JOB_WITHOUT_POLICY, ["spec.template.spec.restartPolicy"]),
        ("networking.k8s.io/v1", "Ingress", {"spec": {}}, ["spec"]),
        ("policy/v1", "PodDisruptionBudget", {"spec": {"minAvailable": 1, "maxUnavailable": 1}}, ["spec"]),
        (
            "rbac.authorization.k8s.io/v1",
            "Role",
            {"rules": [{"resources": ["pods"]}]},
            ["rules[0].verbs", "rules[0].apiGroups"],
        ),
        ("coordination.k8s.io/v1", "Lease", {"spec": {"leaseDurationSeconds": 0}}, ["spec.leaseDurationSeconds"]),
        ("v1", "PersistentVolumeClaim", {"spec": {}}, ["spec.accessModes", "spec.resources[storage]"]),
        ("autoscaling/v1", "HorizontalPodAutoscaler", AUTOSCALER, ["spec.maxReplicas", "spec.maxReplicas"]),
        ("v1", "ResourceQuota", {"spec": {"hard": {"pods": "1.5"}}}, ["spec.hard[pods]"]),
        ("v1", "Event", {"involvedObject": {"namespace": "other"}}, ["involvedObject.namespace"]),
        ("storage.k8s.io/v1", "StorageClass", {}, ["provisioner"]),
        ("scheduling.k8s.io/v1", "PriorityClass", {"value": 2_000_000_000}, ["value"]),
        ("v1", "Node", {"spec": {"taints": [{"key": "k", "effect": "Odd"}]}}, ["metadata.taints[0].effect"]),
        ("v1", "Namespace", {"metadata": {"name": "a.b"}}, ["metadata.name"]),
        (
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            {"webhooks": [{"name": "short"}]},
            [f"webhooks[0].{name}" for name in HOOK_FIELDS],
        ),
        (
            "authorization.k8s.io/v1",
            "SubjectAccessReview",
            {"metadata": {"name": ""}, "spec": {}},
            ["spec.resourceAttributes", "spec.user"],
        ),
    ],
)
def test_wrong_objects_are_refused_field_by_field(
    api_version: str, name: str, body: dict[str, Any], fields: list[str]
) -> None:
    kind = kind_of(api_version, name)
    obj = prepared(kind, body)
    errors: list[FieldError] = [] if kind.virtual else kind.check_metadata(obj)
    assert [error.field for error in errors + kind.validate_create(obj)] == fields


@pytest.mark.parametrize("schedule", ["* * * * *", "*/5 1-3 * JAN mon", "@daily", "@every 1h30m", "TZ=UTC 0 0 * * 0"])
def test_good_schedules(schedule: str) -> None:
    assert cron.problem(schedule) == ""


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
def test_bad_schedules_say_what_is_wrong(schedule: str, text: str) -> None:
    assert cron.problem(schedule) == text


def test_decided_conditions_of_a_signing_request_stay() -> None:
    kind = kind_of("certificates.k8s.io/v1", "CertificateSigningRequest")
    old = {"metadata": {"name": "a"}, "status": {"conditions": [{"type": "Denied", "status": "True"}]}}
    new = {"metadata": {"name": "a"}, "status": {"conditions": [{"type": "Approved", "status": "True"}]}}
    assert [str(error) for error in kind.validate_status(new, old)] == [
        'status.conditions: Forbidden: updates may not remove a condition of type "Denied"',
        'status.conditions: Forbidden: updates may not add a condition of type "Approved"',
    ]
