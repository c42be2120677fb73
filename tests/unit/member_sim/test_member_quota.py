"""Given ResourceQuotas of a simulated member, when its objects change, then the status says what they take."""

from __future__ import annotations

from typing import Any


def used(cluster: Any, name: str = "all") -> dict[str, str]:
    status = cluster.get("ResourceQuota", name).get("status") or {}
    assert status["hard"] == cluster.get("ResourceQuota", name)["spec"]["hard"]
    found: dict[str, str] = status["used"]
    return found


def test_status_follows_pods_and_services(cluster: Any, deployment: Any) -> None:
    hard = {"cpu": "1", "requests.cpu": "2", "pods": "9", "services": "5", "count/deployments.apps": "3"}
    cluster.created("ResourceQuota", "all", spec={"hard": hard})
    cluster.settle()
    assert used(cluster) == dict.fromkeys(sorted(hard), "0")
    cluster.created("Deployment", "web", spec=deployment(replicas=3))
    cluster.created("Service", "web", spec={"ports": [{"port": 80}], "selector": {"app": "web"}})
    cluster.settle()
    three = {"cpu": "300m", "requests.cpu": "300m", "pods": "3", "services": "1", "count/deployments.apps": "1"}
    assert used(cluster) == dict(sorted(three.items()))
    cluster.changed("Deployment", "web", replicas=1)
    cluster.settle()
    assert used(cluster)["cpu"] == "100m"
    assert len(cluster.all("Pod")) == 1


def test_other_namespaces_and_limits_count_apart(cluster: Any, deployment: Any) -> None:
    cluster.created("ResourceQuota", "all", spec={"hard": {"cpu": "1"}})
    cluster.created("Deployment", "web", namespace="kube-system", spec=deployment(replicas=2))
    cluster.settle()
    assert used(cluster) == {"cpu": "0"}
    cluster.changed("ResourceQuota", "all", hard={"cpu": "5", "secrets": "1"})
    cluster.settle()
    assert used(cluster) == {"cpu": "0"}
