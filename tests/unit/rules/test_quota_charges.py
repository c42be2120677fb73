"""What writes cost ResourceQuotas: which names they touch, the words of refusals, and the usage afterwards."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from schemas.manifest import Manifest
from services._rules.kubernetes.quantity import from_value, parse
from services._rules.kubernetes.quota_charges import Refused, charges, measured
from services._rules.kubernetes.resource_quota import concerns, tracked, unspecified, usage


def quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> Manifest:
    full = dict.fromkeys(hard, "0") | (used or {})
    return {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}, "status": {"hard": hard, "used": full}}


def pod(requests: dict[str, str] | None = None, limits: dict[str, str] | None = None, **spec: Any) -> Manifest:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return {"metadata": {}, "spec": {"containers": [{"name": "c", "resources": resources}], **spec}}


def charge(one: Manifest, plural: str, new: Manifest, old: Manifest | None = None, group: str = "") -> Any:
    found = charges([one], group, plural, new, old)
    return found[0].status["used"] if found else None


def service(kind: str, ports: int, **spec: Any) -> Manifest:
    return {"spec": {"type": kind, "ports": [{"port": port + 1} for port in range(ports)], **spec}}


def claim(size: str, name: str | None = None, **annotations: str) -> Manifest:
    spec: Manifest = {"resources": {"requests": {"storage": size}}}
    if name is not None:
        spec["storageClassName"] = name
    return {
        "metadata": {"annotations": {key.replace("_", "/"): value for key, value in annotations.items()}},
        "spec": spec,
    }


@pytest.mark.parametrize(
    ("hard", "group", "plural", "new", "used"),
    [
        ({"pods": "2", "count/pods": "2"}, "", "pods", pod(), {"pods": "1", "count/pods": "1"}),
        ({"cpu": "2", "requests.cpu": "2"}, "", "pods", pod({"cpu": "500m"}), {"cpu": "500m", "requests.cpu": "500m"}),
        ({"limits.memory": "2Gi"}, "", "pods", pod(limits={"memory": "1Gi"}), {"limits.memory": "1Gi"}),
        ({"requests.x.io/gpu": "2"}, "", "pods", pod({"x.io/gpu": "2"}), {"requests.x.io/gpu": "2"}),
        ({"hugepages-2Mi": "4Mi"}, "", "pods", pod({"hugepages-2Mi": "4Mi"}), {"hugepages-2Mi": "4Mi"}),
        ({"requests.cpu": "1"}, "", "pods", pod({"cpu": "1m"}, overhead={"cpu": "9m"}), {"requests.cpu": "10m"}),
        ({"services.nodeports": "2"}, "", "services", service("NodePort", 2), {"services.nodeports": "2"}),
        ({"services.loadbalancers": "1"}, "", "services", service("LoadBalancer", 0), {"services.loadbalancers": "1"}),
        ({"services.nodeports": "1"}, "", "services", service("ClusterIP", 3), None),
        (
            {"services.nodeports": "0"},
            "",
            "services",
            service("LoadBalancer", 3, allocateLoadBalancerNodePorts=False),
            None,
        ),
        (
            {"requests.storage": "9Gi", "a.storageclass.storage.k8s.io/requests.storage": "2Gi"},
            "",
            "persistentvolumeclaims",
            claim("1Gi", "a"),
            {"requests.storage": "1Gi", "a.storageclass.storage.k8s.io/requests.storage": "1Gi"},
        ),
        (
            {"a.storageclass.storage.k8s.io/persistentvolumeclaims": "1"},
            "",
            "persistentvolumeclaims",
            claim("1Gi", "b", **{"volume.beta.kubernetes.io_storage-class": "a"}),
            {"a.storageclass.storage.k8s.io/persistentvolumeclaims": "1"},
        ),
        ({"a.storageclass.storage.k8s.io/requests.storage": "0"}, "", "persistentvolumeclaims", claim("1Gi"), None),
        ({"count/deployments.apps": "1"}, "apps", "deployments", {}, {"count/deployments.apps": "1"}),
        ({"count/deployments.apps": "1"}, "extensions", "deployments", {}, None),
        ({"count/things.example.com": "1"}, "example.com", "things", {}, {"count/things.example.com": "1"}),
        ({"secrets": "1", "count/secrets": "1"}, "", "secrets", {}, {"secrets": "1", "count/secrets": "1"}),
        ({"secrets": "1"}, "other.io", "secrets", {}, None),
        ({"pods": "0"}, "", "configmaps", {}, None),
    ],
)
def test_objects_are_charged_by_the_names_of_limits(
    hard: dict[str, str], group: str, plural: str, new: Manifest, used: dict[str, str] | None
) -> None:
    assert charge(quota(hard), plural, new, group=group) == used


@pytest.mark.parametrize(
    ("one", "new", "text"),
    [
        (quota({"pods": "0"}), pod(), "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"),
        (
            quota({"cpu": "1", "memory": "1Gi"}, {"cpu": "500m", "memory": "512Mi"}),
            pod({"cpu": "2", "memory": "2Gi"}),
            "exceeded quota: q, requested: cpu=2,memory=2Gi, used: cpu=500m,memory=512Mi, limited: cpu=1,memory=1Gi",
        ),
        (
            quota({"cpu": "1", "limits.memory": "1"}),
            pod(),
            "failed quota: q: must specify cpu for: c; limits.memory for: c",
        ),
        (
            {"metadata": {"name": "q"}, "status": {"hard": {"cpu": "1", "pods": "1"}, "used": {"pods": "0"}}},
            pod({"cpu": "1"}),
            "status unknown for quota: q, resources: cpu,pods",
        ),
        (quota({"pods": "1"}), pod({"cpu": "-1"}), "quota usage is negative for resource(s): cpu,requests.cpu"),
    ],
)
def test_refusals_say_what_was_wanted_and_what_is_left(one: Manifest, new: Manifest, text: str) -> None:
    with pytest.raises(Refused) as refused:
        charge(one, "pods", new)
    assert str(refused.value) == text


def test_what_was_never_measured_is_not_limited() -> None:
    assert charges([{"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}], "", "pods", pod(), None) == []


@pytest.mark.parametrize(
    ("plural", "old", "new", "used"),
    [
        ("services", service("ClusterIP", 2), service("NodePort", 2), {"services.nodeports": "2"}),
        ("services", service("NodePort", 2), service("NodePort", 3), {"services.nodeports": "1"}),
        ("services", service("NodePort", 2), service("ClusterIP", 2), None),
        ("persistentvolumeclaims", claim("1Gi"), claim("3Gi"), {"requests.storage": "2Gi"}),
        ("persistentvolumeclaims", claim("3Gi"), claim("1Gi"), None),
    ],
)
def test_updates_are_charged_for_what_grows(
    plural: str, old: Manifest, new: Manifest, used: dict[str, str] | None
) -> None:
    hard = {"services.nodeports": "9"} if plural == "services" else {"requests.storage": "9Gi"}
    assert charge(quota(hard), plural, new, old) == used


def test_containers_are_named_that_lack_a_demanded_amount() -> None:
    one = pod({"cpu": "1"}, initContainers=[{"name": "i"}])
    assert (
        unspecified(one, ["memory", "cpu", "ephemeral-storage", "pods"]) == "must specify cpu for: i; memory for: c,i"
    )


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ({"operator": "In", "values": ["high"]}, {"high"}),
        ({"operator": "NotIn", "values": ["high"]}, {"low", ""}),
        ({"operator": "Exists"}, {"high", "low"}),
        ({"operator": "DoesNotExist"}, {""}),
    ],
)
def test_priority_classes_are_selected(expression: Manifest, names: set[str]) -> None:
    one = quota({"pods": "1"}, scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", **expression}]})
    assert {name for name in ("high", "low", "") if concerns(one, "pods", pod(priorityClassName=name))} == names


def test_best_effort_is_by_cpu_and_memory_only() -> None:
    modest = quota({"pods": "1"}, scopes=["BestEffort"])
    assert concerns(modest, "pods", pod({"ephemeral-storage": "1Gi", "cpu": "0"}))
    assert not concerns(modest, "pods", pod(limits={"memory": "1"}))


def test_affinity_beyond_the_namespace_is_a_scope() -> None:
    term = {"topologyKey": "zone", "namespaceSelector": {}}
    out = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": term}]}}
    one = quota({"pods": "1"}, scopes=["CrossNamespacePodAffinity"])
    assert concerns(one, "pods", pod(affinity=out))
    assert not concerns(one, "pods", pod())


def test_a_deleted_pod_is_counted_until_its_grace_is_over() -> None:
    gone = pod({"cpu": "1"}) | {
        "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    }
    moment = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    assert usage("", "pods", gone, moment + dt.timedelta(seconds=30))["pods"] == from_value(1)
    assert "pods" not in usage("", "pods", gone, moment + dt.timedelta(seconds=31))


def test_a_measurement_replaces_what_is_counted() -> None:
    one = quota({"pods": "3", "cpu": "1"}, {"pods": "2", "cpu": "1", "old": "5"})
    assert measured(one, {"pods": from_value(1)}) == {
        "hard": {"pods": "3", "cpu": "1"},
        "used": {"cpu": "1", "pods": "1"},
    }
    assert measured(quota({}), {}) == {}
    assert tracked(["pods", "cpu", "secrets", "count/pods"], "", "pods") == ["count/pods", "cpu", "pods"]
    assert parse("1") == from_value(1)
