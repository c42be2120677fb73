"""Placement in the simulated cluster: room, cordon, taints, selectors, affinity, and what waits for a node."""

from typing import Any

import pytest

from services.member_sim.world.world_model import NODES, Key

TAINT = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}


def pod(cpu: str = "1", **spec: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}], **spec}


def scheduled(cluster: Any, name: str) -> dict[str, Any]:
    conditions = cluster.get("Pod", name).get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == "PodScheduled"), {})


def test_pod_runs_with_addresses_and_container_statuses(cluster: Any) -> None:
    cluster.created("Pod", "one", spec=pod())
    found = cluster.get("Pod", "one")
    status = found["status"]
    node = cluster.get("Node", found["spec"]["nodeName"], "")
    assert status["phase"] == "Running"
    assert status["hostIP"] == node["status"]["addresses"][0]["address"]
    assert status["podIPs"] == [{"ip": status["podIP"]}]
    assert status["startTime"]
    (container,) = status["containerStatuses"]
    assert (container["ready"], container["restartCount"]) == (True, 0)
    assert scheduled(cluster, "one")["status"] == "True"


def test_pods_spread_over_nodes_until_the_cluster_is_full(cluster: Any) -> None:
    for number in range(5):
        cluster.create("Pod", f"p{number}", spec=pod("4"))
    cluster.settle()
    placed = [p["spec"].get("nodeName") for p in cluster.all("Pod")]
    assert sorted(filter(None, placed)) == ["m-node-1", "m-node-1", "m-node-2", "m-node-2"]
    waiting = next(p["metadata"]["name"] for p in cluster.all("Pod") if "nodeName" not in p["spec"])
    assert cluster.get("Pod", waiting)["status"]["phase"] == "Pending"
    condition = scheduled(cluster, waiting)
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["message"] == "0/2 nodes are available: 2 Insufficient cpu."


def test_pending_pod_takes_freed_capacity(cluster: Any) -> None:
    for number in range(3):
        cluster.create("Pod", f"p{number}", spec=pod("8"))
    cluster.settle()
    waiting = next(p["metadata"]["name"] for p in cluster.all("Pod") if "nodeName" not in p["spec"])
    leaving = next(p["metadata"]["name"] for p in cluster.all("Pod") if "nodeName" in p["spec"])
    cluster.deleted("Pod", leaving)
    assert cluster.get("Pod", waiting)["status"]["phase"] == "Running"
    assert scheduled(cluster, waiting)["status"] == "True"


def test_number_of_pods_is_limited(make_cluster: Any) -> None:
    cluster = make_cluster(nodes=1, pods=2)
    for number in range(3):
        cluster.create("Pod", f"p{number}", spec=pod("0"))
    cluster.settle()
    assert scheduled(cluster, "p2")["message"] == "0/1 nodes are available: 1 Too many pods."


def test_replicas_created_together_share_capacity(make_cluster: Any, deployment: Any) -> None:
    cluster = make_cluster(nodes=2, cpu="2")
    cluster.created("Deployment", "web", spec=deployment(6, cpu="1"))
    placed = sorted(p["spec"].get("nodeName", "") for p in cluster.all("Pod"))
    assert placed == ["", "", "m-node-1", "m-node-1", "m-node-2", "m-node-2"]
    status = cluster.get("Deployment", "web")["status"]
    assert (status["replicas"], status["availableReplicas"], status["unavailableReplicas"]) == (6, 4, 2)


def test_cordoned_node_gets_no_new_pods_and_keeps_the_old(cluster: Any) -> None:
    cluster.created("Pod", "old", spec=pod(nodeName="m-node-1"))
    cluster.change("Node", "m-node-1", "", unschedulable=True)
    for number in range(3):
        cluster.create("Pod", f"p{number}", spec=pod("1"))
    cluster.settle()
    assert {cluster.get("Pod", f"p{n}")["spec"]["nodeName"] for n in range(3)} == {"m-node-2"}
    assert cluster.get("Pod", "old")["status"]["phase"] == "Running"
    taints = cluster.get("Node", "m-node-1", "")["spec"]["taints"]
    assert [t["key"] for t in taints] == ["node.kubernetes.io/unschedulable"]
    cluster.changed("Node", "m-node-1", "", unschedulable=False)
    assert "taints" not in cluster.get("Node", "m-node-1", "")["spec"]


@pytest.mark.parametrize(
    ("tolerations", "runs"),
    [
        ([], False),
        ([{"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"}], True),
        ([{"key": "dedicated", "operator": "Equal", "value": "web"}], False),
        ([{"key": "dedicated", "operator": "Exists"}], True),
        ([{"operator": "Exists"}], True),
        ([{"operator": "Exists", "effect": "NoExecute"}], False),
    ],
)
def test_taints_and_tolerations(make_cluster: Any, tolerations: list[Any], runs: bool) -> None:
    cluster = make_cluster(nodes=1)
    cluster.change("Node", "m-node-1", "", taints=[TAINT])
    cluster.created("Pod", "p", spec=pod(tolerations=tolerations))
    assert ("nodeName" in cluster.get("Pod", "p")["spec"]) is runs


def required(*terms: Any) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


@pytest.mark.parametrize(
    ("spec", "node"),
    [
        ({"nodeSelector": {"kubernetes.io/hostname": "m-node-2"}}, "m-node-2"),
        ({"nodeSelector": {"kubernetes.io/hostname": "nowhere"}}, None),
        (
            {
                "affinity": required(
                    {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["m-b"]}]}
                )
            },
            "m-node-2",
        ),
        (
            {
                "affinity": required(
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m-node-1"]}]}
                )
            },
            "m-node-1",
        ),
        ({"affinity": required({"matchExpressions": [{"key": "gpu", "operator": "Exists"}]})}, None),
        ({"affinity": required({})}, None),
    ],
)
def test_selectors_and_required_affinity(cluster: Any, spec: dict[str, Any], node: str | None) -> None:
    cluster.created("Pod", "p", spec=pod(**spec))
    assert cluster.get("Pod", "p")["spec"].get("nodeName") == node


def test_stopped_node_keeps_pods_for_their_toleration(cluster: Any, deployment: Any) -> None:
    patience = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    spec = deployment(2)
    spec["template"]["spec"]["tolerations"] = [{**patience, "tolerationSeconds": 60}]
    cluster.created("Deployment", "web", spec=spec)
    cluster.state.down.add("m-node-1")
    cluster.again([Key(NODES, "", "m-node-1"), *cluster.state.pods_on("m-node-1")])
    cluster.settle(30)
    assert [c["status"] for c in cluster.get("Node", "m-node-1", "")["status"]["conditions"]] == ["Unknown"] * 4
    assert cluster.get("Deployment", "web")["status"]["readyReplicas"] == 1
    assert len(cluster.all("Pod")) == 2
    cluster.settle(60)
    assert cluster.get("Deployment", "web")["status"]["readyReplicas"] == 2
    # The stopped kubelet cannot confirm the end of its pod; it does once it is back.
    assert len(cluster.all("Pod")) == 3
    cluster.state.down.clear()
    cluster.again([Key(NODES, "", "m-node-1"), *cluster.state.pods_on("m-node-1")])
    cluster.settle()
    assert len(cluster.all("Pod")) == 2
    assert "taints" not in cluster.get("Node", "m-node-1", "")["spec"]


def test_pods_do_not_outlive_their_node(cluster: Any, deployment: Any) -> None:
    cluster.create("Deployment", "web", spec=deployment(2))
    cluster.created("Node", "extra", "", spec={})
    cluster.created("Pod", "there", spec=pod(nodeName="extra"))
    cluster.deleted("Node", "extra", "")
    assert "there" not in {p["metadata"]["name"] for p in cluster.all("Pod")}


def test_deleted_node_comes_back_without_heartbeat_writes(cluster: Any) -> None:
    cluster.deleted("Node", "m-node-1", "")
    node = cluster.get("Node", "m-node-1", "")
    assert node["status"]["allocatable"] == {
        "cpu": "8",
        "ephemeral-storage": "100Gi",
        "memory": "32Gi",
        "pods": "110",
    }
    assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.31.4"
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "m-a"
    cluster.writes.clear()
    cluster.settle(100_000)
    assert cluster.writes == []


def test_two_pods_never_share_an_address(cluster: Any) -> None:
    for number in range(100):
        cluster.create("Pod", f"p{number}", spec=pod("0"))
    cluster.settle()
    assert len({p["status"]["podIP"] for p in cluster.all("Pod")}) == 100
