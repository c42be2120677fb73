"""Faults and settings of a simulated member: which requests are touched, what is refused, what cannot be set."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from services.member_sim.faults import (
    ApiFault,
    NodeFault,
    PodFault,
    UnknownTarget,
    refusal,
    set_nodes,
    set_pods,
    verb_of,
)
from services.member_sim.settings import from_environment
from services.member_sim.world.pod_requests import amounts, pod_requests


@pytest.mark.parametrize(
    ("method", "path", "query", "verb"),
    [
        ("GET", "/api/v1/pods", "", "list"),
        ("GET", "/api/v1/namespaces", "", "list"),
        ("GET", "/api/v1/namespaces/default", "", "get"),
        ("GET", "/api/v1/namespaces/default/pods", "limit=5", "list"),
        ("GET", "/api/v1/namespaces/default/pods/web", "", "get"),
        ("GET", "/api/v1/pods", "watch=true", "watch"),
        ("GET", "/api/v1/pods", "watch=false", "list"),
        ("GET", "/apis/apps/v1/namespaces/default/deployments", "", "list"),
        ("GET", "/apis/apps/v1/namespaces/default/deployments/web/status", "", "get"),
        ("GET", "/version", "", "get"),
        ("POST", "/api/v1/namespaces/default/pods", "", "create"),
        ("PATCH", "/api/v1/nodes/a", "", "patch"),
        ("DELETE", "/api/v1/nodes/a", "", "delete"),
    ],
)
def test_verb_of_a_request(method: str, path: str, query: str, verb: str) -> None:
    assert verb_of(method, path, query) == verb


def test_fault_touches_the_named_verbs_or_all() -> None:
    assert ApiFault(mode="refuse").touches("get")
    assert ApiFault(mode="refuse", verbs=["create"]).touches("create")
    assert not ApiFault(mode="refuse", verbs=["create"]).touches("get")


@pytest.mark.parametrize(
    ("status", "reason"), [(429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable")]
)
def test_refusal_is_a_status_that_clients_understand(status: Any, reason: str) -> None:
    code, body = refusal(ApiFault(mode="refuse", status=status))
    assert (code, body["kind"], body["reason"], body["code"]) == (status, "Status", reason, status)


@pytest.mark.parametrize("body", ['{"mode": "burn"}', '{"status": 404}', '{"verbs": ["eat"]}', '{"delay": 3}', "[]"])
def test_faults_that_do_not_exist_are_refused(body: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(body, type=ApiFault)


def test_targets_that_do_not_exist_are_named(cluster: Any) -> None:
    with pytest.raises(UnknownTarget, match="no node x; this member has m-node-1, m-node-2"):
        set_nodes(cluster.state, NodeFault(names=["x"]))
    with pytest.raises(UnknownTarget, match="no Deployment default/web"):
        set_pods(cluster.state, PodFault(namespace="default", name="web"))


def test_node_fault_without_names_stops_and_starts_all(cluster: Any) -> None:
    cluster.again(set_nodes(cluster.state, NodeFault()))
    cluster.settle()
    ready = [c["status"] for n in cluster.all("Node") for c in n["status"]["conditions"] if c["type"] == "Ready"]
    assert ready == ["Unknown", "Unknown"]
    cluster.again(set_nodes(cluster.state, NodeFault(ready=True)))
    cluster.settle()
    ready = [c["status"] for n in cluster.all("Node") for c in n["status"]["conditions"] if c["type"] == "Ready"]
    assert ready == ["True", "True"]


def test_pod_fault_reaches_only_its_workload(cluster: Any, deployment: Any) -> None:
    cluster.create("Deployment", "web", spec=deployment(1))
    cluster.created("Deployment", "api", spec=deployment(1, app="api"))
    cluster.again(set_pods(cluster.state, PodFault(namespace="default", name="web")))
    cluster.settle()
    assert cluster.get("Deployment", "web")["status"].get("readyReplicas", 0) == 0
    assert cluster.get("Deployment", "api")["status"]["readyReplicas"] == 1
    cluster.again(set_pods(cluster.state, PodFault(namespace="default", name="web", crash=False)))
    cluster.settle()
    assert cluster.get("Deployment", "web")["status"]["readyReplicas"] == 1


def test_settings_come_from_the_environment() -> None:
    found = from_environment(
        {
            "FLEETLOG_MEMBER_NAME": "edge",
            "FLEETLOG_MEMBER_NODES": "5",
            "FLEETLOG_MEMBER_READY_DELAY": "0.5",
            "FLEETLOG_MEMBER_AUDIT_LOG": "/tmp/audit",
            "HOME": "/root",
        }
    )
    assert (found.name, found.nodes, found.ready_delay, found.stream) == ("edge", 5, 0.5, "OBJECTS_edge")
    assert found.data_dir == Path(".fleetlog/edge")
    assert found.audit_log == Path("/tmp/audit")


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("FLEETLOG_MEMBER_NODE", "3", "FLEETLOG_MEMBER_NODE: there is no such setting"),
        ("FLEETLOG_MEMBER_NODES", "many", "nodes"),
        ("FLEETLOG_MEMBER_NODES", "-1", "nodes: must not be negative"),
        ("FLEETLOG_MEMBER_CPU", "fast", "cpu: 'fast' is not a quantity"),
        ("FLEETLOG_MEMBER_NAME", "Big_One", "name 'Big_One'"),
    ],
)
def test_settings_that_cannot_work_are_named(variable: str, value: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_environment({variable: value})


def test_requests_of_a_pod() -> None:
    def box(cpu: str, **more: Any) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "containers": [box("100m"), {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}],
        "initContainers": [box("3"), box("200m", restartPolicy="Always")],
        "overhead": {"cpu": "50m"},
    }
    assert pod_requests(spec) == {"pods": 1, "cpu": 3050, "memory": 2**30}
    assert amounts({"cpu": "nonsense"}) == {"cpu": 0}
    after = {"containers": [box("1")], "initContainers": [box("200m", restartPolicy="Always"), box("3")]}
    assert pod_requests(after)["cpu"] == 3200, "a sidecar runs beside what starts after it"
