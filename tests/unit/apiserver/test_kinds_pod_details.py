"""Checks of what pods and their surroundings say in detail: security, DNS, resources, quotas, topologies, claims."""

from typing import Any

import pytest

from services.apiserver.kinds.kind_catalog import builtin_registry

REGISTRY = builtin_registry()
TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "spec": {}}


def fields(api_version: str, name: str, body: dict[str, Any]) -> list[tuple[str, str]]:
    """Field and kind of error of everything that is wrong."""
    kind = REGISTRY.by_api_version(api_version, name)
    assert kind is not None
    body.setdefault("metadata", {})["name"] = "x"
    kind.decode(body)
    if kind.resource.namespaced:
        body["metadata"]["namespace"] = "d"
    kind.default(body)
    body["metadata"]["uid"] = "u"
    kind.prepare_create(body)
    errors = kind.check_metadata(body) + kind.validate_create(body)
    return [(e.cause()["field"], e.cause()["reason"].removeprefix("FieldValue")) for e in errors]


def in_pod(spec: dict[str, Any], **container: Any) -> list[tuple[str, str]]:
    return fields("v1", "Pod", {"spec": {"containers": [{"name": "c", "image": "i", **container}], **spec}})


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ({"supplementalGroups": [5, -1]}, ("supplementalGroups[1]", "Invalid")),
        ({"sysctls": [{"name": "Kernel"}]}, ("sysctls[0].name", "Invalid")),
        ({"fsGroupChangePolicy": "Often"}, ("fsGroupChangePolicy", "NotSupported")),
        ({"seccompProfile": {"type": "Localhost"}}, ("seccompProfile.localhostProfile", "Required")),
        ({"seccompProfile": {"type": "Odd"}}, ("seccompProfile.type", "NotSupported")),
        (
            {"seccompProfile": {"type": "Unconfined", "localhostProfile": "a"}},
            ("seccompProfile.localhostProfile", "Invalid"),
        ),
        (
            {"seccompProfile": {"type": "Localhost", "localhostProfile": "../a"}},
            ("seccompProfile.localhostProfile", "Invalid"),
        ),
    ],
)
def test_security_contexts_of_pods(context: dict[str, Any], expected: tuple[str, str]) -> None:
    assert in_pod({"securityContext": context}) == [(f"spec.securityContext.{expected[0]}", expected[1])]


def test_a_good_security_context_is_taken() -> None:
    profile = {"type": "Localhost", "localhostProfile": "profiles/a.json"}
    context = {"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}], "seccompProfile": profile}
    assert in_pod({"securityContext": context}, securityContext={"seccompProfile": profile}) == []


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"nameservers": ["1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"]}, "nameservers"),
        ({"nameservers": ["x"]}, "nameservers[0]"),
        ({"searches": ["a.b", "c.d.", "_"]}, "searches[2]"),
        ({"searches": [f"s{i}" for i in range(33)]}, "searches"),
    ],
)
def test_dns_of_pods(config: dict[str, Any], field: str) -> None:
    assert in_pod({"dnsConfig": config}) == [(f"spec.dnsConfig.{field}", "Invalid")]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (
            {"requests": {"hugepages-2Mi": "2Mi"}},
            [("limits", "Required"), ("", "Forbidden")],
        ),
        (
            {"requests": {"hugepages-2Mi": "2Mi", "cpu": "1"}, "limits": {"hugepages-2Mi": "4Mi"}},
            [("requests", "Invalid")],
        ),
        ({"requests": {"a.b/c": "1"}, "limits": {"a.b/c": "2"}}, [("requests", "Invalid")]),
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, []),
    ],
)
def test_what_cannot_be_overcommitted_is_asked_for_as_much_as_it_is_limited(
    resources: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    place = "spec.containers[0].resources"
    wanted = [(f"{place}.{name}".removesuffix("."), reason.removeprefix("FieldValue")) for name, reason in expected]
    assert in_pod({}, resources=resources) == wanted


def test_environment_from_a_resource_that_is_none() -> None:
    env = [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}}]
    assert in_pod({}, env=env) == [("spec.containers[0].env[0].valueFrom.resourceFieldRef.resource", "NotSupported")]


@pytest.mark.parametrize(
    ("hard", "scopes", "texts"),
    [
        ({"pods": "1"}, ["BestEffort"], []),
        ({"requests.cpu": "1"}, ["NotBestEffort", "Terminating"], []),
        ({"requests.cpu": "1"}, ["BestEffort"], ["spec.scopes"]),
        ({"pods": "1"}, ["Terminating", "NotTerminating"], ["spec.scopes"]),
        ({"services": "1"}, ["Terminating"], ["spec.scopes"]),
        ({"count/services": "1"}, ["Terminating"], []),
        ({"odd": "1"}, [], ["spec.hard[odd]", "spec.hard[odd]"]),
    ],
)
def test_scopes_of_quotas_fit_what_they_limit(hard: dict[str, str], scopes: list[str], texts: list[str]) -> None:
    found = fields("v1", "ResourceQuota", {"spec": {"hard": hard, "scopes": scopes}})
    assert [field for field, _ in found] == texts


def test_topologies_of_storage_classes() -> None:
    rules = [{"key": "zone", "values": []}, {"key": "a b", "values": ["x", "x"]}]
    body = {"provisioner": "a.b/c", "allowedTopologies": [{"matchLabelExpressions": rules}]}
    place = "allowedTopologies[0].matchLabelExpressions"
    assert fields("storage.k8s.io/v1", "StorageClass", body) == [
        (f"{place}[0].values", "Required"),
        (f"{place}[1].values[1]", "Duplicate"),
        (f"{place}[1].key", "Invalid"),
    ]


def test_affinity_of_a_volume_says_what_it_requires() -> None:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}}
    found = fields("v1", "PersistentVolume", {"spec": {**spec, "nodeAffinity": {}}})
    assert found == [("spec.nodeAffinity.required", "Required")]


def test_containers_of_a_stateful_set_are_checked_when_its_pods_are_made() -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE, "serviceName": "s"}
    assert fields("apps/v1", "StatefulSet", {"spec": spec}) == []
    broken = {**TEMPLATE, "metadata": {"labels": {"a": "b", "c": "d e"}}}
    assert fields("apps/v1", "StatefulSet", {"spec": {**spec, "template": broken}}) == [
        ("spec.template.labels", "Invalid")
    ]


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (
            {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}},
            [("resource.target.averageUtilization", "Required")],
        ),
        (
            {"type": "Resource", "resource": {"target": {"type": "Odd", "averageValue": "-1"}}},
            [
                ("resource.name", "Required"),
                ("resource.target.type", "Invalid"),
                ("resource.target.averageValue", "Invalid"),
            ],
        ),
        (
            {"type": "Pods", "pods": {"metric": {"name": "a/b"}, "target": {"type": "Value", "value": "1"}}},
            [("pods.metric.name", "Invalid"), ("pods.target.averageValue", "Required")],
        ),
        (
            {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value"}}},
            [("external.target.averageValue", "Required")],
        ),
        (
            {"type": "Object", "object": {"metric": {}, "target": {"type": "Value", "value": "1"}}},
            [
                ("object.describedObject.kind", "Required"),
                ("object.describedObject.name", "Required"),
                ("object.metric.name", "Required"),
            ],
        ),
        ({"type": "Object"}, [("object", "Required")]),
    ],
)
def test_metrics_of_autoscalers(metric: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    target = {"kind": "Deployment", "name": "d"}
    spec = {"maxReplicas": 3, "scaleTargetRef": target, "metrics": [metric]}
    found = fields("autoscaling/v2", "HorizontalPodAutoscaler", {"spec": spec})
    assert found == [(f"spec.metrics[0].{place}", reason) for place, reason in expected]


def test_the_processor_target_of_an_old_autoscaler_is_checked_as_it_is_stored() -> None:
    spec = {"maxReplicas": 3, "scaleTargetRef": {"kind": "D", "name": "d"}, "targetCPUUtilizationPercentage": 0}
    found = fields("autoscaling/v1", "HorizontalPodAutoscaler", {"spec": spec})
    assert found == [("spec.metrics[0].resource.target.averageUtilization", "Invalid")]


def test_rules_of_scaling() -> None:
    policy = {"type": "Odd", "value": 0, "periodSeconds": 1801}
    rules = {"stabilizationWindowSeconds": 3601, "selectPolicy": "Odd", "policies": [policy]}
    spec = {"maxReplicas": 3, "scaleTargetRef": {"kind": "D", "name": "d"}, "behavior": {"scaleDown": rules}}
    assert fields("autoscaling/v2", "HorizontalPodAutoscaler", {"spec": spec}) == [
        ("spec.behavior.scaleDown.stabilizationWindowSeconds", "Invalid"),
        ("spec.behavior.scaleDown.selectPolicy", "NotSupported"),
        ("spec.behavior.scaleDown.policies[0].type", "NotSupported"),
        ("spec.behavior.scaleDown.policies[0].value", "Invalid"),
        ("spec.behavior.scaleDown.policies[0].periodSeconds", "Invalid"),
    ]


def of_status(api_version: str, name: str, status: dict[str, Any]) -> list[tuple[str, str]]:
    kind = REGISTRY.by_api_version(api_version, name)
    assert kind is not None
    errors = kind.validate_status({"metadata": {"name": "x"}, "status": status}, {"metadata": {"name": "x"}})
    return [(e.cause()["field"].removeprefix("status."), e.cause()["message"].partition(": ")[2]) for e in errors]


@pytest.mark.parametrize(
    ("api_version", "name", "status", "expected"),
    [
        ("apps/v1", "Deployment", {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2}, []),
        ("apps/v1", "Deployment", {"replicas": 1, "updatedReplicas": 2}, ["updatedReplicas"]),
        ("apps/v1", "Deployment", {"replicas": 2, "readyReplicas": 1, "availableReplicas": 2}, ["availableReplicas"]),
        ("apps/v1", "ReplicaSet", {"replicas": 1, "fullyLabeledReplicas": 2}, ["fullyLabeledReplicas"]),
        (
            "apps/v1",
            "StatefulSet",
            {"replicas": -1},
            ["replicas", "readyReplicas", "currentReplicas", "updatedReplicas"],
        ),
        ("apps/v1", "DaemonSet", {"numberReady": -1}, ["numberReady"]),
        ("batch/v1", "Job", {"active": -1, "failed": 1}, ["active"]),
        ("autoscaling/v2", "HorizontalPodAutoscaler", {"desiredReplicas": -1}, ["desiredReplicas"]),
    ],
)
def test_numbers_of_a_status_fit_together(
    api_version: str, name: str, status: dict[str, Any], expected: list[str]
) -> None:
    assert [field for field, _ in of_status(api_version, name, status)] == expected


@pytest.mark.parametrize(("api_version", "name"), [("v1", "Service"), ("networking.k8s.io/v1", "Ingress")])
def test_addresses_of_a_load_balancer(api_version: str, name: str) -> None:
    good = [{"ip": "10.1.1.1", "hostname": "member1"}, {"ip": "fd00::1"}]
    assert of_status(api_version, name, {"loadBalancer": {"ingress": good}}) == []
    bad = [{"ip": "x"}, {"hostname": "1.2.3.4"}]
    assert of_status(api_version, name, {"loadBalancer": {"ingress": bad}}) == [
        ("loadBalancer.ingress[0].ip", '"x": must be a valid IP address'),
        ("loadBalancer.ingress[1].hostname", '"1.2.3.4": must be a DNS name, not an IP address'),
    ]


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.1.1", "224.0.0.1", "0.0.0.0", "::1", "fe80::1"])
def test_addresses_that_are_for_no_endpoint(address: str) -> None:
    body = {"subsets": [{"addresses": [{"ip": address}, {"ip": "10.0.0.1"}]}]}
    assert fields("v1", "Endpoints", body) == [("subsets[0].addresses[0].ip", "Invalid")]
    spec = {"ports": [{"port": 80}], "externalIPs": ["10.0.0.1", address]}
    assert fields("v1", "Service", {"spec": spec}) == [("spec.externalIPs[1]", "Invalid")]


@pytest.mark.parametrize(
    ("ranges", "good"), [(["10.0.0.0/8", " fd00::/8 "], True), (["10.0.0.0"], False), (["x/8"], False)]
)
def test_ranges_of_a_load_balancer(ranges: list[str], good: bool) -> None:
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}], "loadBalancerSourceRanges": ranges}
    found = fields("v1", "Service", {"spec": spec})
    assert found == ([] if good else [("spec.LoadBalancerSourceRanges", "Invalid")])
