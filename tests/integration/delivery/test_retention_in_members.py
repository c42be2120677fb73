"""What a member's controllers and users put into our objects stays there when a new version is delivered.

What a server refuses to change, what is kept on request, and what is kept of every kind.
"""

from __future__ import annotations

from typing import Any

import pytest

from schemas.manifest import Manifest
from services._rules import constants as const
from tests.support.manifests import container, manifest, pod_spec, workload

pytestmark = pytest.mark.asyncio(loop_scope="module")
KEEP = {const.RETAIN_REPLICAS_LABEL: "true"}


async def test_a_deployment_that_asks_for_it_keeps_its_replicas(member: Any, fresh_name: str) -> None:
    await member.apply(workload("Deployment", fresh_name, labels=KEEP))
    web = workload("Deployment", fresh_name, image="web:2", labels=KEEP)
    await member.patch(web, {"spec": {"replicas": 4}}, "scale")
    live = await member.apply(web, 2)
    assert live["spec"]["replicas"] == 4
    assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "web:2"


async def test_replicas_that_are_kept_are_no_drift(member: Any, fresh_name: str) -> None:
    await member.apply(workload("Deployment", fresh_name, labels=KEEP))
    web = workload("Deployment", fresh_name, labels=KEEP)
    await member.patch(web, {"spec": {"replicas": 4}}, "scale")
    # A change beside them is drift, and its repair leaves them as they are.
    changed = {"name": "web", "image": "web:9"}
    await member.patch(web, {"spec": {"template": {"spec": {"containers": [changed]}}}})
    live = await member.until_live(
        web, lambda live: live["spec"]["template"]["spec"]["containers"][0]["image"] == "web:1"
    )
    assert live["spec"]["replicas"] == 4


@pytest.mark.parametrize("asks", [{}, {const.RETAIN_REPLICAS_LABEL: "yes"}], ids=["silent", "other-value"])
async def test_a_deployment_that_does_not_ask_loses_them(member: Any, fresh_name: str, asks: Manifest) -> None:
    web = workload("Deployment", fresh_name, labels=asks)
    await member.apply(web)
    await member.patch(web, {"spec": {"replicas": 4}}, "scale")
    await member.until_live(web, lambda live: live["spec"]["replicas"] == 1)


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet"])
async def test_replicas_of_other_workloads_are_never_kept(member: Any, fresh_name: str, kind: str) -> None:
    web = workload(kind, fresh_name, labels=KEEP)
    await member.apply(web)
    await member.patch(web, {"spec": {"replicas": 3}}, "scale")
    await member.until_live(web, lambda live: live["spec"]["replicas"] == 1)


async def test_a_pod_keeps_its_node_account_volumes_and_mounts(member: Any, fresh_name: str) -> None:
    token = {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    mount = {"name": "token", "mountPath": "/var/run/secrets", "readOnly": True}
    filled = pod_spec(
        volumes=[token],
        initContainers=[{**container(), "name": "first", "volumeMounts": [mount]}],
        serviceAccountName="default",
    )
    filled["containers"][0]["volumeMounts"] = [mount]
    marked = manifest("v1", "Pod", fresh_name, spec=filled, labels={const.MANAGED_LABEL: const.LABEL_TRUE})
    await member.client.create("/api/v1/namespaces/default/pods", marked)
    placed = await member.until_live(marked, lambda live: bool(live["spec"].get("nodeName")))
    wanted = pod_spec("web:2", initContainers=[{**container(), "name": "first"}])
    live = await member.apply(manifest("v1", "Pod", fresh_name, spec=wanted))
    spec = live["spec"]
    assert (spec["nodeName"], spec["serviceAccountName"]) == (placed["spec"]["nodeName"], "default")
    # The member adds the volume with the token of the account.
    assert spec["volumes"] == placed["spec"]["volumes"]
    assert spec["volumes"][0]["name"] == "token"
    for kind in ("containers", "initContainers"):
        assert spec[kind][0]["volumeMounts"] == placed["spec"][kind][0]["volumeMounts"]
        assert spec[kind][0]["volumeMounts"][0] == mount
    assert spec["containers"][0]["image"] == "web:2"
    assert live["metadata"]["uid"] == placed["metadata"]["uid"]


async def test_a_service_keeps_its_address_and_health_check_port(member: Any, fresh_name: str) -> None:
    def service(port: int) -> Manifest:
        ports = [{"name": "http", "port": port, "targetPort": 8080}]
        spec = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports, "selector": {"app": "x"}}
        return manifest("v1", "Service", fresh_name, spec=spec)

    before = (await member.apply(service(80)))["spec"]
    assert before["clusterIP"]
    if not before.get("healthCheckNodePort"):
        before = (await member.patch(service(80), {"spec": {"healthCheckNodePort": 32123}}))["spec"]
    after = (await member.apply(service(81), 2))["spec"]
    assert after["ports"][0]["port"] == 81
    assert after["clusterIP"] == before["clusterIP"]
    assert after["healthCheckNodePort"] == before["healthCheckNodePort"]


async def test_a_job_keeps_the_selector_that_was_made_for_it(member: Any, fresh_name: str) -> None:
    def job(parallelism: int) -> Manifest:
        template = {"metadata": {"labels": {"app": "x"}}, "spec": pod_spec(restartPolicy="Never")}
        spec = {"parallelism": parallelism, "completions": 5, "suspend": True, "template": template}
        return manifest("batch/v1", "Job", fresh_name, spec=spec)

    before = (await member.apply(job(1)))["spec"]
    assert before["selector"]["matchLabels"]
    after = (await member.apply(job(2), 2))["spec"]
    assert after["parallelism"] == 2
    assert after["selector"] == before["selector"]
    assert after["template"]["metadata"]["labels"] == before["template"]["metadata"]["labels"]


async def test_labels_finalizers_and_owners_of_the_member_stay(member: Any, fresh_name: str) -> None:
    def settings(text: str) -> Manifest:
        return manifest("v1", "ConfigMap", fresh_name, data={"a": text}, labels={"ours": text})

    owner = await member.apply(manifest("v1", "ConfigMap", f"{fresh_name}-owner"))
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": f"{fresh_name}-owner",
        "uid": owner["metadata"]["uid"],
    }
    await member.apply(settings("1"))
    theirs = {
        "labels": {"theirs": "x"},
        "annotations": {"theirs": "x"},
        "finalizers": ["example.com/hold"],
        "ownerReferences": [reference],
    }
    await member.patch(settings("1"), {"metadata": theirs})
    live = await member.apply(settings("2"), 2)
    metadata = live["metadata"]
    assert (metadata["labels"]["theirs"], metadata["labels"]["ours"], live["data"]) == ("x", "2", {"a": "2"})
    assert metadata["annotations"]["theirs"] == "x"
    assert metadata["finalizers"] == ["example.com/hold"]
    assert metadata["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
    await member.patch(settings("2"), {"metadata": {"finalizers": None}})


async def test_a_status_is_never_written(member: Any, fresh_name: str) -> None:
    web = {**workload("Deployment", fresh_name), "status": {"replicas": 99}}
    await member.apply(web)
    live = await member.until_live(web, lambda live: live["status"].get("observedGeneration", 0) > 0)
    assert live["status"].get("replicas") != 99
