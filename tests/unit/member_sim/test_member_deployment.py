"""Deployments in the simulated cluster: creation, scaling, rollouts, limits, status and how many writes they cost."""

from typing import Any

import pytest

from services.member_sim.world.world_model import RESOURCE_OF_KIND, key_of

REVISION = "deployment.kubernetes.io/revision"


def ready(cluster: Any) -> list[dict[str, Any]]:
    return [
        pod
        for pod in cluster.all("Pod")
        if any(c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions", []))
    ]


def reasons(found: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in found["status"]["conditions"]}


def sizes(cluster: Any) -> dict[str, int]:
    return {
        rs["spec"]["template"]["spec"]["containers"][0]["image"]: rs["spec"]["replicas"]
        for rs in cluster.all("ReplicaSet")
    }


def test_deployment_becomes_available_with_a_full_status(cluster: Any, deployment: Any) -> None:
    cluster.created("Deployment", "web", spec=deployment(3))
    found = cluster.get("Deployment", "web")
    counts = {k: v for k, v in found["status"].items() if k != "conditions"}
    assert counts == {
        "observedGeneration": found["metadata"]["generation"],
        "replicas": 3,
        "updatedReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
    }
    assert [c["type"] for c in found["status"]["conditions"]] == ["Available", "Progressing"]
    assert reasons(found) == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }
    assert found["metadata"]["annotations"][REVISION] == "1"


def test_names_labels_and_owners_lead_from_pod_to_deployment(cluster: Any, deployment: Any) -> None:
    cluster.created("Deployment", "web", spec=deployment(1))
    (replicaset,) = cluster.all("ReplicaSet")
    (pod,) = cluster.all("Pod")
    digest = replicaset["metadata"]["labels"]["pod-template-hash"]
    assert replicaset["metadata"]["name"] == f"web-{digest}"
    assert pod["metadata"]["name"].startswith(f"web-{digest}-")
    assert pod["metadata"]["labels"] == {"app": "web", "pod-template-hash": digest}
    assert pod["metadata"]["ownerReferences"][0]["uid"] == replicaset["metadata"]["uid"]
    assert replicaset["metadata"]["ownerReferences"][0]["kind"] == "Deployment"
    assert replicaset["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": digest}


def test_before_pods_run_the_status_says_unavailable(cluster: Any, deployment: Any) -> None:
    cluster.create("Deployment", "web", spec=deployment(2))
    cluster.step()
    found = cluster.get("Deployment", "web")
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
    assert found["status"]["unavailableReplicas"] == 2
    assert reasons(found)["Available"] == ("False", "MinimumReplicasUnavailable")
    assert reasons(found)["Progressing"] == ("True", "ReplicaSetUpdated")


def test_pods_starting_together_cost_few_status_writes(cluster: Any, deployment: Any) -> None:
    cluster.writes.clear()
    cluster.created("Deployment", "web", spec=deployment(10))
    by_kind = [(w.key.resource, w.op) for w in cluster.writes]
    assert by_kind.count(("deployments.apps", "status")) == 2
    assert by_kind.count(("deployments.apps", "update")) == 0
    assert cluster.get("Deployment", "web")["metadata"]["annotations"][REVISION] == "1"
    assert cluster.get("Deployment", "web")["metadata"]["generation"] == 1
    assert by_kind.count(("replicasets.apps", "status")) == 1
    assert by_kind.count(("pods", "create")) == 10
    assert by_kind.count(("pods", "status")) == 10
    assert len(by_kind) == 24


def test_nothing_is_written_while_nothing_changes(cluster: Any, deployment: Any) -> None:
    cluster.created("Deployment", "web", spec=deployment(3))
    cluster.writes.clear()
    cluster.again([key_of(RESOURCE_OF_KIND[k], found) for k in RESOURCE_OF_KIND for found in cluster.all(k)])
    cluster.settle(10_000)
    assert cluster.writes == []


@pytest.mark.parametrize("size", [0, 1, 5])
def test_scaling_reaches_the_wanted_size(cluster: Any, deployment: Any, size: int) -> None:
    cluster.created("Deployment", "web", spec=deployment(3))
    cluster.changed("Deployment", "web", replicas=size)
    assert len(cluster.all("Pod")) == len(ready(cluster)) == size
    found = cluster.get("Deployment", "web")
    status = found["status"]
    assert status["observedGeneration"] == found["metadata"]["generation"]
    assert status.get("availableReplicas", 0) == size
    assert len(cluster.all("ReplicaSet")) == 1


def test_rolling_update_stays_within_its_limits(cluster: Any, deployment: Any, template: Any) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    cluster.created("Deployment", "web", spec=deployment(4, strategy))
    cluster.change("Deployment", "web", template=template(image="web:2"))
    seen = []
    for _ in range(400):
        cluster.settle(0.01)
        active = [p for p in cluster.all("Pod") if "deletionTimestamp" not in p["metadata"]]
        seen.append((len(active), len([p for p in ready(cluster) if p in active])))
    assert max(total for total, _ in seen) <= 5
    assert min(serving for _, serving in seen) >= 3
    assert sizes(cluster) == {"web:1": 0, "web:2": 4}
    found = cluster.get("Deployment", "web")
    assert found["metadata"]["annotations"][REVISION] == "2"
    assert found["status"]["updatedReplicas"] == 4
    assert reasons(found)["Progressing"] == ("True", "NewReplicaSetAvailable")


def test_recreate_removes_the_old_pods_first(cluster: Any, deployment: Any, template: Any) -> None:
    cluster.created("Deployment", "web", spec=deployment(3, {"type": "Recreate"}))
    cluster.change("Deployment", "web", template=template(image="web:2"))
    images = set()
    for _ in range(100):
        cluster.settle(0.01)
        images.add(frozenset(p["spec"]["containers"][0]["image"] for p in cluster.all("Pod")))
    assert frozenset({"web:1", "web:2"}) not in images
    assert sizes(cluster) == {"web:1": 0, "web:2": 3}


def test_going_back_to_an_old_template_reuses_its_replicaset(cluster: Any, deployment: Any, template: Any) -> None:
    cluster.created("Deployment", "web", spec=deployment(2))
    for image in ("web:2", "web:1"):
        cluster.changed("Deployment", "web", template=template(image=image))
    assert sizes(cluster) == {"web:1": 2, "web:2": 0}
    assert cluster.get("Deployment", "web")["metadata"]["annotations"][REVISION] == "3"
    back = next(rs for rs in cluster.all("ReplicaSet") if rs["spec"]["replicas"])
    assert back["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"


def test_history_limit_removes_the_oldest_replicasets(cluster: Any, deployment: Any, template: Any) -> None:
    cluster.created("Deployment", "web", spec=deployment(1, revisionHistoryLimit=1))
    for number in range(2, 6):
        cluster.changed("Deployment", "web", template=template(image=f"web:{number}"))
    assert sizes(cluster) == {"web:4": 0, "web:5": 1}


def test_paused_deployment_scales_but_does_not_roll(cluster: Any, deployment: Any, template: Any) -> None:
    cluster.created("Deployment", "web", spec=deployment(2))
    cluster.changed("Deployment", "web", paused=True, replicas=4, template=template(image="web:2"))
    assert sizes(cluster) == {"web:1": 4}
    assert reasons(cluster.get("Deployment", "web"))["Progressing"] == ("Unknown", "DeploymentPaused")
    cluster.changed("Deployment", "web", paused=False)
    assert sizes(cluster) == {"web:1": 0, "web:2": 4}


def test_resize_during_a_rollout_is_proportional(cluster: Any, deployment: Any, template: Any) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
    cluster.created("Deployment", "web", spec=deployment(10, strategy))
    # No room for the new template: 8 old and 5 new pods stand still.
    cluster.changed("Deployment", "web", template=template(image="web:2", cpu="90"))
    assert sizes(cluster) == {"web:1": 8, "web:2": 5}
    cluster.change("Deployment", "web", replicas=15)
    cluster.step()
    assert sizes(cluster) == {"web:1": 11, "web:2": 7}


def test_rollout_without_progress_exceeds_its_deadline(cluster: Any, deployment: Any) -> None:
    cluster.create("Deployment", "web", spec=deployment(1, cpu="100", progressDeadlineSeconds=60))
    cluster.settle(30)
    assert reasons(cluster.get("Deployment", "web"))["Progressing"][0] == "True"
    cluster.settle(60)
    assert reasons(cluster.get("Deployment", "web"))["Progressing"] == ("False", "ProgressDeadlineExceeded")


def test_min_ready_seconds_delay_availability(cluster: Any, deployment: Any) -> None:
    cluster.create("Deployment", "web", spec=deployment(2, minReadySeconds=30))
    cluster.settle(10)
    status = cluster.get("Deployment", "web")["status"]
    assert (status["readyReplicas"], status.get("availableReplicas", 0)) == (2, 0)
    cluster.settle(30)
    assert cluster.get("Deployment", "web")["status"]["availableReplicas"] == 2


def test_pod_deleted_by_hand_is_replaced(cluster: Any, deployment: Any) -> None:
    cluster.created("Deployment", "web", spec=deployment(2))
    before = {p["metadata"]["name"] for p in cluster.all("Pod")}
    victim = min(before)
    cluster.deleted("Pod", victim)
    after = {p["metadata"]["name"] for p in cluster.all("Pod")}
    assert victim not in after
    assert len(after & before) == 1
    assert len(ready(cluster)) == 2


def test_replicaset_of_a_foreign_hash_is_adopted(cluster: Any, deployment: Any) -> None:
    cluster.created("Deployment", "web", spec=deployment(2))
    (ours,) = cluster.all("ReplicaSet")
    labels = {"app": "web", "pod-template-hash": "77b4fdf86c"}
    spec = {**ours["spec"], "template": {**ours["spec"]["template"], "metadata": {"labels": labels}}}
    cluster.delete("ReplicaSet", ours["metadata"]["name"])
    owners = ours["metadata"]["ownerReferences"]
    meta = {"name": "web-77b4fdf86c", "namespace": "default", "labels": labels, "ownerReferences": owners}
    cluster.created("ReplicaSet", "web-77b4fdf86c", spec=spec, metadata=meta)
    assert [rs["metadata"]["name"] for rs in cluster.all("ReplicaSet")] == ["web-77b4fdf86c"]


def test_name_taken_by_a_stranger_counts_as_collision(cluster: Any, deployment: Any) -> None:
    cluster.created("Deployment", "web", spec=deployment(1))
    (ours,) = cluster.all("ReplicaSet")
    name = ours["metadata"]["name"]
    cluster.deleted("Deployment", "web")
    cluster.create("ReplicaSet", name, spec={**ours["spec"], "replicas": 0})
    cluster.created("Deployment", "web", spec=deployment(1))
    status = cluster.get("Deployment", "web")["status"]
    assert status["collisionCount"] == 1
    assert status["availableReplicas"] == 1


def test_nothing_is_created_in_a_namespace_that_goes_away(cluster: Any, deployment: Any) -> None:
    cluster.created("Deployment", "web", namespace="gone", spec=deployment(1))
    assert cluster.all("ReplicaSet") == []
    cluster.created("Namespace", "gone", "")
    assert len(ready(cluster)) == 1
