"""Failover as a user meets it: a member dies, a member is tainted, and services are killed in between."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.fleet import Fleet, until, until_equal
from tests.e2e.installations import installation
from tests.e2e.member_faults import fault
from tests.e2e.space import Space, weighed

SETTINGS = {
    "FLEETLOG_FEATURE_GATES": "Failover=true",
    "FLEETLOG_ENABLE_NO_EXECUTE_TAINT_EVICTION": "true",
    "FLEETLOG_CLUSTER_STATUS_UPDATE_FREQUENCY": "0.3",
    "FLEETLOG_CLUSTER_FAILURE_THRESHOLD": "0.5",
    "FLEETLOG_CLUSTER_SUCCESS_THRESHOLD": "0.5",
}
TAINT_THE_DEAD = {
    "apiVersion": "policy.karmada.io/v1alpha1",
    "kind": "ClusterTaintPolicy",
    "metadata": {"name": "taint-the-dead"},
    "spec": {
        "taints": [{"key": "example/failed", "effect": "NoExecute"}],
        "addOnConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["False", "Unknown"]}],
        "removeOnConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["True"]}],
    },
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """An installation that notices dead members soon and evicts."""
    with installation(tmp_path_factory, "failover", environment=SETTINGS) as made:
        yield made


def binding(space: Space, name: str) -> dict[str, Any]:
    return space.control.get("rb", f"{name}-deployment", space.name) or {}


def assigned(space: Space, name: str) -> dict[str, int]:
    """Replicas by cluster, as the binding says."""
    clusters = binding(space, name).get("spec", {}).get("clusters") or []
    return {target["name"]: target.get("replicas", 0) for target in clusters}


def leaving(space: Space, name: str) -> list[str]:
    """Clusters with a graceful eviction task."""
    tasks = binding(space, name).get("spec", {}).get("gracefulEvictionTasks") or []
    return [task["fromCluster"] for task in tasks]


def ready(space: Space, name: str) -> int:
    held = space.control.get("deployment", name, space.name) or {}
    return int((held.get("status") or {}).get("readyReplicas") or 0)


def deployed(space: Space, name: str, placement: dict[str, Any], **spec: Any) -> None:
    web = space.load("web.yaml")
    web["metadata"]["name"] = name
    web["spec"]["replicas"] = 6
    for part in (web["spec"]["selector"]["matchLabels"], web["spec"]["template"]["metadata"]["labels"]):
        part["app"] = name
    space.apply(web)
    space.policy(web, placement, **spec)
    until_equal(f"replicas of {name}", lambda: assigned(space, name), {"member1": 2, "member2": 2, "member3": 2})


def test_replicas_leave_a_failed_member(space: Space, fleet: Fleet) -> None:
    space.control.apply(TAINT_THE_DEAD)
    deployed(space, "web", weighed(member1=1, member2=1, member3=1))
    until_equal("ready replicas", lambda: ready(space, "web"), 6)
    # The scheduler must not answer yet: what an eviction looks like is seen meanwhile.
    fleet.signal("scheduler", signal.SIGSTOP)
    fault(fleet, "member1", "", mode="stop")
    until_equal("clusters being left", lambda: leaving(space, "web"), ["member1"])
    assert assigned(space, "web") == {"member2": 2, "member3": 2}
    (task,) = binding(space, "web")["spec"]["gracefulEvictionTasks"]
    assert (task["reason"], task["producer"], task["replicas"]) == ("TaintUntolerated", "TaintManager", 2)
    fleet.kill("failover")
    fleet.kill("scheduler")
    until_equal("replicas elsewhere", lambda: assigned(space, "web"), {"member2": 3, "member3": 3})
    until_equal("clusters being left", lambda: leaving(space, "web"), [])
    for member in ("member2", "member3"):
        space.until_field(member, "deployment", "web", "status.readyReplicas", 3)
    fault(fleet, "member1", "", mode="none")
    space.until_in("deployment", "web", ("member2", "member3"))
    until_equal("taints of member1", lambda: taints(space, "member1"), [])
    assert assigned(space, "web") == {"member2": 3, "member3": 3}
    told = ("Normal", "EvictWorkloadFromClusterSucceed", "Evict from cluster member1 succeed.")
    until("the Event of the eviction", lambda: told in space.events("web"))
    # Other tests mean to see no evictions, should a busy machine's member be silent for a moment.
    space.control.delete("clustertaintpolicy", "taint-the-dead")


def taints(space: Space, member: str) -> list[str]:
    spec = (space.control.get("cluster", member) or {}).get("spec") or {}
    return [f"{taint['key']}:{taint['effect']}" for taint in spec.get("taints") or []]
