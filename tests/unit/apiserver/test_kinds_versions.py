"""Kinds served in several versions: what is stored, and how each version shows it."""

from typing import Any

import pytest

from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.kinds.kind_model import Kind

REGISTRY = builtin_registry()


def kind_of(api_version: str, name: str) -> Kind:
    found = REGISTRY.by_api_version(api_version, name)
    assert found is not None
    return found


def through(source: str, target: str, name: str, obj: dict[str, Any]) -> dict[str, Any]:
    obj = {"apiVersion": source, "kind": name, **obj}
    return kind_of(target, name).from_store(kind_of(source, name).to_store(obj))


def test_versions_of_one_shape_differ_in_their_name_only() -> None:
    found = through("batch/v1beta1", "batch/v1", "CronJob", {"metadata": {"name": "a"}, "spec": {"schedule": "x"}})
    assert found == {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "a"}, "spec": {"schedule": "x"}}
    back = through("batch/v1", "batch/v1beta1", "CronJob", {"metadata": {}})
    assert back["apiVersion"] == "batch/v1beta1"


def test_events_change_their_field_names() -> None:
    core = {"metadata": {"name": "a"}, "message": "m", "involvedObject": {"name": "p"}, "source": {"component": "c"}}
    new = through("v1", "events.k8s.io/v1", "Event", core)
    assert new["note"] == "m"
    assert new["regarding"] == {"name": "p"}
    assert new["deprecatedSource"] == {"component": "c"}
    back = kind_of("v1", "Event").from_store(kind_of("events.k8s.io/v1", "Event").to_store(new))
    assert back == {"apiVersion": "v1", "kind": "Event", **core}


def test_ingress_backends_change_their_shape() -> None:
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    spec = {"defaultBackend": backend, "rules": [{"http": {"paths": [{"pathType": "Exact", "backend": backend}]}}]}
    found = through("networking.k8s.io/v1", "extensions/v1beta1", "Ingress", {"metadata": {}, "spec": spec})
    old = {"serviceName": "s", "servicePort": 80}
    assert found["spec"]["backend"] == old
    assert found["spec"]["rules"][0]["http"]["paths"][0]["backend"] == old
    assert kind_of("extensions/v1beta1", "Ingress").to_store(found)["spec"] == spec


def test_named_ports_of_ingress_backends_stay_named() -> None:
    spec = {"backend": {"serviceName": "s", "servicePort": "http"}}
    found = through("networking.k8s.io/v1beta1", "networking.k8s.io/v1", "Ingress", {"metadata": {}, "spec": spec})
    assert found["spec"]["defaultBackend"]["service"]["port"] == {"name": "http"}


def test_the_first_autoscaler_version_keeps_other_metrics_in_annotations() -> None:
    memory = {
        "type": "Resource",
        "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 70}},
    }
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
    obj = {"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "metrics": [cpu, memory]}, "status": {}}
    found = through("autoscaling/v2", "autoscaling/v1", "HorizontalPodAutoscaler", obj)
    assert found["spec"] == {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}
    assert "autoscaling.alpha.kubernetes.io/metrics" in found["metadata"]["annotations"]
    back = kind_of("autoscaling/v1", "HorizontalPodAutoscaler").to_store(found)
    assert back["spec"]["metrics"] == [cpu, memory]
    assert "annotations" not in back["metadata"]


@pytest.mark.parametrize(
    ("beta", "stable"),
    [
        (
            {"type": "Pods", "pods": {"metricName": "m", "targetAverageValue": "5"}},
            {
                "type": "Pods",
                "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}},
            },
        ),
        (
            {"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": 5}},
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 5}},
            },
        ),
        (
            {"type": "Object", "object": {"metricName": "m", "target": {"kind": "S", "name": "s"}, "targetValue": "9"}},
            {
                "type": "Object",
                "object": {
                    "metric": {"name": "m"},
                    "describedObject": {"kind": "S", "name": "s"},
                    "target": {"type": "Value", "value": "9"},
                },
            },
        ),
    ],
)
def test_metrics_of_the_first_beta_are_views_of_the_stable_ones(beta: dict[str, Any], stable: dict[str, Any]) -> None:
    obj = {"metadata": {}, "spec": {"maxReplicas": 1, "metrics": [beta]}}
    found = through("autoscaling/v2beta1", "autoscaling/v2", "HorizontalPodAutoscaler", obj)
    assert found["spec"]["metrics"] == [stable]
    back = kind_of("autoscaling/v2beta1", "HorizontalPodAutoscaler").from_store(found)
    assert back["spec"]["metrics"] == [beta]


def test_endpoint_slices_move_the_topology() -> None:
    topology = {"kubernetes.io/hostname": "n", "topology.kubernetes.io/zone": "z", "other": "o"}
    obj = {"metadata": {}, "endpoints": [{"addresses": ["192.0.2.1"], "topology": topology}]}
    found = through("discovery.k8s.io/v1beta1", "discovery.k8s.io/v1", "EndpointSlice", obj)
    endpoint = found["endpoints"][0]
    assert (endpoint["nodeName"], endpoint["zone"]) == ("n", "z")
    assert endpoint["deprecatedTopology"] == {"other": "o"}
    back = kind_of("discovery.k8s.io/v1beta1", "EndpointSlice").from_store(found)
    assert back["endpoints"] == obj["endpoints"]
