"""A simulated member as its users see it: through kubectl, over HTTPS, from creation to deletion."""

import json
from typing import Any


def available(number: int) -> Any:
    def holds(found: dict[str, Any]) -> bool:
        status = found.get("status", {})
        return bool(
            status.get("observedGeneration") == found["metadata"]["generation"]
            and status.get("availableReplicas", 0) == status.get("updatedReplicas", 0) == number
            and status.get("replicas", 0) == number
        )

    return holds


def phases(found: dict[str, Any]) -> list[str]:
    return sorted(pod["status"]["phase"] for pod in found["items"])


async def test_deployment_lives_from_creation_to_deletion(member: Any, web: Any) -> None:
    await member.apply(web(3))
    await member.kubectl("wait", "deployment/web", "--for=condition=Available", "--timeout=60s")
    pods = await member.get("pods", selector="app=web")
    assert phases(pods) == ["Running"] * 3
    assert {pod["spec"]["nodeName"] for pod in pods["items"]} == {"m1-node-1", "m1-node-2"}

    await member.kubectl("scale", "deployment/web", "--replicas=5")
    await member.until(available(5), "deployment", "web")

    await member.kubectl("set", "image", "deployment/web", "c=web:2")
    out = await member.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert "successfully rolled out" in out
    await member.until(lambda found: len(found["items"]) == 5, "pods", selector="app=web")
    found = await member.get("pods", selector="app=web")
    assert {pod["spec"]["containers"][0]["image"] for pod in found["items"]} == {"web:2"}
    assert "2" in await member.kubectl("rollout", "history", "deployment/web")

    await member.kubectl("rollout", "undo", "deployment/web")
    await member.until(available(5), "deployment", "web")

    await member.kubectl("delete", "deployment", "web", "--timeout=60s")
    await member.until(lambda found: not found["items"], "pods,replicasets")


async def test_pod_deleted_by_hand_comes_back_under_a_new_name(member: Any, web: Any) -> None:
    await member.apply(web(2))
    await member.until(available(2), "deployment", "web")
    before = {pod["metadata"]["name"] for pod in (await member.get("pods"))["items"]}
    victim = min(before)
    await member.kubectl("delete", "pod", victim, "--timeout=60s")
    await member.until(available(2), "deployment", "web")
    after = {pod["metadata"]["name"] for pod in (await member.get("pods"))["items"]}
    assert victim not in after
    assert len(after) == 2


async def test_pods_of_a_full_cluster_wait_for_capacity(member: Any, web: Any) -> None:
    await member.apply(web(5, cpu="4"))
    found = await member.until(lambda f: phases(f) == ["Pending"] + ["Running"] * 4, "pods")
    waiting = next(pod for pod in found["items"] if pod["status"]["phase"] == "Pending")
    await member.until(
        lambda pod: any(c["reason"] == "Unschedulable" for c in pod["status"].get("conditions", [])),
        "pod",
        waiting["metadata"]["name"],
    )
    await member.kubectl("scale", "deployment/web", "--replicas=4")
    await member.until(available(4), "deployment", "web")


async def test_bare_pod_is_bound_to_a_node(member: Any) -> None:
    await member.kubectl("run", "one", "--image=one")
    await member.kubectl("wait", "pod/one", "--for=condition=Ready", "--timeout=60s")
    assert (await member.get("pod", "one"))["spec"]["nodeName"]


async def test_namespace_has_its_account_and_goes_with_its_content(member: Any, web: Any) -> None:
    await member.kubectl("create", "namespace", "shop")
    await member.until(lambda f: len(f["items"]) == 1, "serviceaccounts", namespace="shop")
    found = await member.until(lambda f: len(f["items"]) == 1, "configmaps", namespace="shop")
    assert "BEGIN CERTIFICATE" in found["items"][0]["data"]["ca.crt"]
    deployment = web(2)
    deployment["metadata"]["namespace"] = "shop"
    await member.apply(deployment)
    await member.until(available(2), "deployment", "web", namespace="shop")
    await member.kubectl("delete", "namespace", "shop", "--timeout=60s")
    assert (await member.get("pods", namespace="shop"))["items"] == []


async def test_service_job_daemonset_and_statefulset_work(member: Any, web: Any) -> None:
    template = web()["spec"]["template"]
    job_template = {"spec": {**template["spec"], "restartPolicy": "Never"}}
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    selector = {"matchLabels": {"app": "web"}}
    await member.apply(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"app": "web"}, "type": "LoadBalancer", "ports": [{"port": 80}]},
        },
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "sum", "namespace": "default"},
            "spec": {"completions": 2, "parallelism": 2, "template": job_template},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "log", "namespace": "default"},
            "spec": {"selector": selector, "template": template},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "db", "namespace": "default"},
            "spec": {
                "replicas": 2,
                "serviceName": "db",
                "selector": selector,
                "template": template,
                "volumeClaimTemplates": [claim],
            },
        },
    )
    await member.kubectl("wait", "job/sum", "--for=condition=Complete", "--timeout=60s")
    await member.until(lambda f: f["status"].get("numberAvailable") == 2, "daemonset", "log")
    await member.until(lambda f: f["status"].get("availableReplicas") == 2, "statefulset", "db")
    found = await member.get("persistentvolumeclaims")
    assert [claim["status"]["phase"] for claim in found["items"]] == ["Bound", "Bound"]
    await member.until(lambda f: len(f.get("subsets", [{}])[0].get("addresses", [])) == 4, "endpoints", "web")
    assert (await member.get("service", "web"))["status"]["loadBalancer"]["ingress"]


async def test_nodes_and_version_look_like_a_cluster(run_member_with: Any) -> None:
    async with run_member_with(nodes=4, version="v1.27.3", cpu="2", memory="4Gi") as member:
        found = await member.get("nodes")
        assert [node["status"]["nodeInfo"]["kubeletVersion"] for node in found["items"]] == ["v1.27.3"] * 4
        assert {node["status"]["allocatable"]["memory"] for node in found["items"]} == {"4Gi"}
        version = json.loads(await member.kubectl("version", "-o", "json"))
        assert version["serverVersion"]["gitVersion"] == "v1.27.3"


async def test_drain_moves_pods_to_the_other_node(member: Any, web: Any) -> None:
    await member.apply(web(2))
    await member.until(available(2), "deployment", "web")
    await member.kubectl("create", "poddisruptionbudget", "web", "--selector=app=web", "--min-available=1")
    await member.until(lambda f: f.get("status", {}).get("disruptionsAllowed") == 1, "poddisruptionbudget", "web")
    await member.kubectl("drain", "m1-node-1", "--ignore-daemonsets", "--force", "--timeout=60s")
    await member.until(available(2), "deployment", "web")
    found = await member.get("pods")
    assert {pod["spec"]["nodeName"] for pod in found["items"]} == {"m1-node-2"}
