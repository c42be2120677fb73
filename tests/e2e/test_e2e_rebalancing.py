"""WorkloadRebalancers and Remedies through kubectl: fresh schedules, results, lifetimes, and actions of clusters."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.manifest import Manifest
from tests.e2e.fleet import until, until_equal
from tests.e2e.space import Space, clusters

pytestmark = pytest.mark.xdist_group("views")

TWO_TO_ONE: Manifest = {
    **clusters("member1", "member2"),
    "replicaScheduling": {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {
            "staticWeightList": [
                {"targetCluster": {"clusterNames": ["member1"]}, "weight": 2},
                {"targetCluster": {"clusterNames": ["member2"]}, "weight": 1},
            ]
        },
    },
}


def rebalancer(space: Space, *workloads: Manifest, **spec: Any) -> str:
    """A WorkloadRebalancer named after the namespace; applying it again edits it."""
    space.apply(
        {
            "apiVersion": "apps.karmada.io/v1alpha1",
            "kind": "WorkloadRebalancer",
            "metadata": {"name": space.name},
            "spec": {"workloads": list(workloads), **spec},
        }
    )
    return space.name


def named(manifest: Manifest) -> Manifest:
    """How a rebalancer names an object."""
    metadata = manifest["metadata"]
    place = {"namespace": metadata["namespace"]} if "namespace" in metadata else {}
    return {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "name": metadata["name"], **place}


def status(space: Space) -> Manifest:
    """Its status; empty once it is gone."""
    found = space.control.get("workloadrebalancer", space.name) or {}
    return dict(found.get("status") or {})


def results(space: Space) -> list[str]:
    """Kind, result and reason of every workload in its status, in order."""
    return [
        " ".join(filter(None, (item["workload"]["kind"], item.get("result"), item.get("reason"))))
        for item in status(space).get("observedWorkloads", [])
    ]


def where(space: Space, name: str) -> dict[str, int]:
    """Replicas of a Deployment by member, from its binding."""
    binding = space.control.get("resourcebinding", f"{name}-deployment", space.name) or {}
    return {item["name"]: item.get("replicas", 0) for item in (binding.get("spec") or {}).get("clusters", [])}


@pytest.mark.main_path
def test_drifted_replicas_return_and_the_object_goes(space: Space) -> None:
    nginx = space.load("web.yaml")
    nginx["spec"]["replicas"] = 3
    try:
        space.taint("member1", {"key": "moved", "effect": "NoSchedule"})
        space.apply(nginx)
        space.policy(nginx, TWO_TO_ONE)
        name = nginx["metadata"]["name"]
        until_equal("all replicas in member2", lambda: where(space, name), {"member2": 3})
    finally:
        space.taint("member1")
    rebalancer(space, named(nginx))
    until_equal("replicas as the weights say", lambda: where(space, name), {"member1": 2, "member2": 1})
    until_equal("its result", lambda: results(space), ["Deployment Successful"])
    until("its end", lambda: "finishTime" in status(space))
    rebalancer(space, named(nginx), ttlSecondsAfterFinished=1)
    until("the deletion", lambda: space.control.get("workloadrebalancer", space.name) is None)


def test_batch_names_what_is_missing_and_an_edit_drops_it(space: Space) -> None:
    nginx, settings = space.load("web.yaml"), space.load("settings.yaml")
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": space.name},
        "rules": [],
    }
    selectors = [{name: value for name, value in named(item).items() if name != "namespace"} for item in (role,)]
    for item in (nginx, settings):
        space.apply(item)
        space.policy(item, clusters("member1"))
    space.apply(role)
    space.apply(
        {
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": "ClusterPropagationPolicy",
            "metadata": {"name": space.name},
            "spec": {"resourceSelectors": selectors, "placement": clusters("member1")},
        }
    )
    until("the role's binding", lambda: space.control.get("clusterresourcebinding", f"{space.name}-clusterrole"))
    for item in (nginx, settings):
        binding = f"{item['metadata']['name']}-{item['kind'].lower()}"
        until(f"the binding {binding}", lambda name=binding: space.control.get("resourcebinding", name, space.name))
    missing = {**named(nginx), "name": "missing"}
    rebalancer(space, missing, named(role), named(settings), named(nginx))
    wanted = [
        "Deployment Failed ReferencedBindingNotFound",
        "Deployment Successful",
        "ClusterRole Successful",
        "ConfigMap Successful",
    ]
    until_equal("its results", lambda: results(space), wanted)
    rebalancer(space, named(settings))
    kept = ["Deployment Successful", "ClusterRole Successful", "ConfigMap Successful"]
    until_equal("what succeeded", lambda: results(space), kept)
    assert status(space)["observedGeneration"] == 2
    for kind in ("workloadrebalancer", "clusterpropagationpolicy", "clusterrole"):
        space.control.delete(kind, space.name)


def test_remedy_sets_actions_and_its_end_clears_them(space: Space) -> None:
    def told() -> object:
        return (space.control.get("cluster", "member1") or {}).get("status", {}).get("remedyActions")

    match = {"conditionType": "Ready", "operator": "Equal", "conditionStatus": "True"}
    space.apply(
        {
            "apiVersion": "remedy.karmada.io/v1alpha1",
            "kind": "Remedy",
            "metadata": {"name": space.name},
            "spec": {
                "clusterAffinity": {"clusterNames": ["member1"]},
                "decisionMatches": [{"clusterConditionMatch": match}],
                "actions": ["TrafficControl"],
            },
        }
    )
    until_equal("the action", told, ["TrafficControl"])
    own = '{"status":{"remedyActions":["Own"]}}'
    space.control.run("patch", "cluster", "member1", "--subresource=status", "--type=merge", "-p", own)
    until_equal("the correction", told, ["TrafficControl"])
    space.control.delete("remedy", space.name)
    until("no action", lambda: not told())
