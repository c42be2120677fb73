"""StatefulSets, DaemonSets, Jobs and crashing pods in the simulated cluster."""

from typing import Any

import pytest

from services._rules.kubernetes.validation.job_status import job_status
from services.member_sim.world.world_model import PODS, Key


def names(cluster: Any) -> list[str]:
    return sorted(p["metadata"]["name"] for p in cluster.all("Pod"))


def conditions(found: dict[str, Any]) -> dict[str, str]:
    return {c["type"]: c["status"] for c in found["status"].get("conditions", [])}


def stateful(template: Any, replicas: int, **more: Any) -> dict[str, Any]:
    return {
        "replicas": replicas,
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "web"}},
        "template": template(),
        **more,
    }


def test_statefulset_starts_in_order_and_numbers_its_pods(cluster: Any, template: Any) -> None:
    cluster.create("StatefulSet", "db", spec=stateful(template, 3))
    seen: list[list[str]] = []
    for _ in range(100):
        cluster.settle(0.02)
        if not seen or seen[-1] != names(cluster):
            seen.append(names(cluster))
    assert seen == [["db-0"], ["db-0", "db-1"], ["db-0", "db-1", "db-2"]]
    status = cluster.get("StatefulSet", "db")["status"]
    assert status["replicas"] == status["readyReplicas"] == status["currentReplicas"] == status["updatedReplicas"] == 3
    assert status["availableReplicas"] == 3
    assert status["currentRevision"] == status["updateRevision"]
    assert status["observedGeneration"] == 1


def test_statefulset_in_parallel_starts_all_at_once(cluster: Any, template: Any) -> None:
    cluster.create("StatefulSet", "db", spec=stateful(template, 3, podManagementPolicy="Parallel"))
    cluster.step()
    assert names(cluster) == ["db-0", "db-1", "db-2"]


def test_statefulset_scales_down_from_the_last_ordinal(cluster: Any, template: Any) -> None:
    cluster.created("StatefulSet", "db", spec=stateful(template, 3))
    cluster.deleted("Pod", "db-1")
    assert names(cluster) == ["db-0", "db-1", "db-2"]
    cluster.changed("StatefulSet", "db", replicas=1)
    assert names(cluster) == ["db-0"]


def test_statefulset_updates_down_to_its_partition(cluster: Any, template: Any) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    cluster.created("StatefulSet", "db", spec=stateful(template, 3, updateStrategy=strategy))
    cluster.changed("StatefulSet", "db", template=template(image="web:2"))
    images = {p["metadata"]["name"]: p["spec"]["containers"][0]["image"] for p in cluster.all("Pod")}
    assert images == {"db-0": "web:1", "db-1": "web:2", "db-2": "web:2"}
    status = cluster.get("StatefulSet", "db")["status"]
    assert status["updatedReplicas"] == 2
    assert status["currentRevision"] != status["updateRevision"]


def test_statefulset_claims_are_made_bound_and_kept(cluster: Any, template: Any) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}},
    }
    cluster.created("StatefulSet", "db", spec=stateful(template, 1, volumeClaimTemplates=[claim]))
    found = cluster.get("PersistentVolumeClaim", "data-db-0")
    assert found["status"] == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "5Gi"}}
    volume = cluster.get("PersistentVolume", found["spec"]["volumeName"], "")
    assert volume["status"]["phase"] == "Bound"
    assert volume["spec"]["claimRef"]["uid"] == found["metadata"]["uid"]
    mounted = cluster.get("Pod", "db-0")["spec"]["volumes"]
    assert mounted == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]
    cluster.changed("StatefulSet", "db", replicas=0)
    assert len(cluster.all("PersistentVolumeClaim")) == 1
    cluster.deleted("PersistentVolumeClaim", "data-db-0")
    assert cluster.all("PersistentVolume") == []


def test_volume_that_is_protected_is_released_with_its_claim(cluster: Any) -> None:
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}
    cluster.created("PersistentVolumeClaim", "data", spec=size)
    [volume] = cluster.all("PersistentVolume")
    cluster.marked("PersistentVolume", volume["metadata"]["name"], "")
    cluster.deleted("PersistentVolumeClaim", "data")
    [volume] = cluster.all("PersistentVolume")
    assert volume["status"]["phase"] == "Released"


def test_containers_that_look_into_a_pod_start_once(cluster: Any, template: Any) -> None:
    cluster.created("Pod", "p", spec=template()["spec"])
    started = cluster.get("Pod", "p")["status"]["containerStatuses"]
    look = {"name": "look", "image": "busybox"}
    cluster.changed("Pod", "p", ephemeralContainers=[look])
    status = cluster.get("Pod", "p")["status"]
    assert status["containerStatuses"] == started
    [first] = status["ephemeralContainerStatuses"]
    assert (first["name"], list(first["state"]), first["ready"]) == ("look", ["running"], False)
    cluster.changed("Pod", "p", ephemeralContainers=[look, {**look, "name": "again"}])
    found = cluster.get("Pod", "p")["status"]["ephemeralContainerStatuses"]
    assert found[0] == first
    assert [one["name"] for one in found] == ["look", "again"]


def daemon(template: Any, **spec: Any) -> dict[str, Any]:
    return {"selector": {"matchLabels": {"app": "web"}}, "template": template(**spec)}


def test_daemonset_runs_on_every_node_even_a_cordoned_one(cluster: Any, template: Any) -> None:
    cluster.change("Node", "m-node-2", "", unschedulable=True)
    cluster.created("DaemonSet", "log", spec=daemon(template))
    assert sorted(p["spec"]["nodeName"] for p in cluster.all("Pod")) == ["m-node-1", "m-node-2"]
    assert cluster.get("DaemonSet", "log")["status"] == {
        "currentNumberScheduled": 2,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 2,
        "numberReady": 2,
        "observedGeneration": 1,
        "updatedNumberScheduled": 2,
        "numberAvailable": 2,
    }


def test_daemonset_follows_nodes_and_selectors(cluster: Any, template: Any) -> None:
    cluster.created("DaemonSet", "log", spec=daemon(template, nodeSelector={"disk": "ssd"}))
    assert cluster.all("Pod") == []
    cluster.created("Node", "extra", "", spec={}, metadata={"labels": {"disk": "ssd"}})
    assert [p["spec"]["nodeName"] for p in cluster.all("Pod")] == ["extra"]


def test_daemonset_replaces_its_pods_when_the_template_changes(cluster: Any, template: Any) -> None:
    cluster.created("DaemonSet", "log", spec=daemon(template))
    cluster.changed("DaemonSet", "log", template=template(image="web:2"))
    assert [p["spec"]["containers"][0]["image"] for p in cluster.all("Pod")] == ["web:2", "web:2"]
    status = cluster.get("DaemonSet", "log")["status"]
    assert (status["updatedNumberScheduled"], status["numberAvailable"]) == (2, 2)


def job(template: Any, **spec: Any) -> dict[str, Any]:
    return {"parallelism": 1, "completions": 1, "backoffLimit": 6, "template": template(restartPolicy="Never"), **spec}


def test_job_completes_with_counts_and_times(cluster: Any, template: Any) -> None:
    cluster.create("Job", "sum", spec=job(template, completions=3, parallelism=2))
    cluster.step()
    assert len(cluster.all("Pod")) == 2
    assert cluster.get("Job", "sum")["status"]["active"] == 2
    cluster.settle()
    status = cluster.get("Job", "sum")["status"]
    assert status["succeeded"] == 3
    assert "active" not in status
    assert status["startTime"] <= status["completionTime"]
    assert conditions(cluster.get("Job", "sum")) == {"SuccessCriteriaMet": "True", "Complete": "True"}
    assert job_status(cluster.get("Job", "sum"), {}) == []
    assert {p["status"]["phase"] for p in cluster.all("Pod")} == {"Succeeded"}


def test_indexed_job_runs_every_index_once(cluster: Any, template: Any) -> None:
    cluster.created("Job", "sum", spec=job(template, completions=4, parallelism=3, completionMode="Indexed"))
    assert cluster.get("Job", "sum")["status"]["completedIndexes"] == "0-3"
    assert len(cluster.all("Pod")) == 4


def test_suspended_job_waits(cluster: Any, template: Any) -> None:
    cluster.created("Job", "sum", spec=job(template, suspend=True))
    assert cluster.all("Pod") == []
    assert conditions(cluster.get("Job", "sum")) == {"Suspended": "True"}
    cluster.changed("Job", "sum", suspend=False)
    assert conditions(cluster.get("Job", "sum")) == {
        "Suspended": "False",
        "SuccessCriteriaMet": "True",
        "Complete": "True",
    }


def test_finished_job_goes_after_its_time(cluster: Any, template: Any) -> None:
    cluster.create("Job", "sum", spec=job(template, ttlSecondsAfterFinished=60))
    cluster.settle(30)
    assert len(cluster.all("Job")) == 1
    cluster.settle(60)
    assert cluster.all("Job") == []
    assert cluster.all("Pod") == []


def test_job_whose_pods_crash_fails_after_its_retries(cluster: Any, template: Any) -> None:
    cluster.state.crashing.add(("default", "Job", "sum"))
    cluster.created("Job", "sum", spec=job(template, backoffLimit=2))
    status = cluster.get("Job", "sum")["status"]
    assert conditions(cluster.get("Job", "sum")) == {"FailureTarget": "True", "Failed": "True"}
    assert job_status(cluster.get("Job", "sum"), {}) == []
    assert status["failed"] == 3
    assert status["conditions"][0]["reason"] == "BackoffLimitExceeded"


@pytest.mark.parametrize("named", [("Deployment", "web"), ("Pod", None)])
def test_crashing_pods_make_the_deployment_unavailable(
    cluster: Any, deployment: Any, named: tuple[str, str | None]
) -> None:
    cluster.created("Deployment", "web", spec=deployment(1))
    name = named[1] or names(cluster)[0]
    keys = [Key(PODS, "default", n) for n in names(cluster)]
    cluster.state.crashing.add(("default", named[0], name))
    cluster.again(keys)
    cluster.settle()
    status = cluster.get("Deployment", "web")["status"]
    assert (status.get("readyReplicas", 0), status["unavailableReplicas"]) == (0, 1)
    (pod,) = cluster.all("Pod")
    container = pod["status"]["containerStatuses"][0]
    assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert container["restartCount"] == 1
    cluster.state.crashing.clear()
    cluster.again(keys)
    cluster.settle()
    assert cluster.get("Deployment", "web")["status"]["readyReplicas"] == 1


def test_service_has_endpoints_of_its_ready_pods(cluster: Any, deployment: Any) -> None:
    ports = [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]
    cluster.create("Service", "web", spec={"selector": {"app": "web"}, "ports": ports, "type": "LoadBalancer"})
    cluster.created("Deployment", "web", spec=deployment(2))
    addresses = sorted(p["status"]["podIP"] for p in cluster.all("Pod"))
    (subset,) = cluster.get("Endpoints", "web")["subsets"]
    assert [a["ip"] for a in subset["addresses"]] == addresses
    assert subset["ports"] == [{"port": 8080, "protocol": "TCP"}]
    (found,) = cluster.all("EndpointSlice")
    assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
    assert [e["addresses"][0] for e in found["endpoints"]] == addresses
    assert all(e["conditions"]["ready"] for e in found["endpoints"])
    assert cluster.get("Service", "web")["status"]["loadBalancer"]["ingress"][0]["ip"]
    cluster.changed("Deployment", "web", replicas=0)
    assert "subsets" not in cluster.get("Endpoints", "web") or cluster.get("Endpoints", "web")["subsets"] == []
    cluster.deleted("Service", "web")
    assert cluster.all("Endpoints") == cluster.all("EndpointSlice") == []


def test_namespace_gets_account_and_authority_back(cluster: Any) -> None:
    cluster.created("Namespace", "shop", "")
    assert cluster.get("ConfigMap", "kube-root-ca.crt", "shop")["data"].keys() == {"ca.crt"}
    cluster.deleted("ServiceAccount", "default", "shop")
    assert cluster.get("ServiceAccount", "default", "shop")


@pytest.mark.parametrize(
    ("budget", "desired", "allowed"),
    [
        ({"minAvailable": 2}, 2, 2),
        ({"minAvailable": "60%"}, 3, 1),
        ({"maxUnavailable": 1}, 3, 1),
        ({"maxUnavailable": "30%"}, 2, 2),
        ({"minAvailable": 9}, 9, 0),
    ],
)
def test_budget_says_how_many_pods_may_be_evicted(
    cluster: Any, deployment: Any, budget: dict[str, Any], desired: int, allowed: int
) -> None:
    cluster.create("Deployment", "web", spec=deployment(4))
    cluster.created("PodDisruptionBudget", "web", spec={"selector": {"matchLabels": {"app": "web"}}, **budget})
    status = cluster.get("PodDisruptionBudget", "web")["status"]
    assert (status["currentHealthy"], status["desiredHealthy"]) == (4, desired)
    assert status["disruptionsAllowed"] == allowed
    assert conditions(cluster.get("PodDisruptionBudget", "web")) == {"DisruptionAllowed": str(bool(allowed))}
