"""Division by room as a user meets it: what fits in the sum of a member but on none of its nodes is not sent there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.fleet import Fleet, metric, until, until_equal
from tests.e2e.installations import installation, namespace
from tests.e2e.space import Space
from tests.support.commands import run_command

# Members with three nodes of four CPUs each; the third is a pull member.
PUSH = ("member1", "member2")
SETTINGS = {
    "FLEETLOG_MEMBER_CPU": "4",
    # On a busy machine an answer may take long.
    "FLEETLOG_SCHEDULER_ESTIMATOR_TIMEOUT": "8",
    "FLEETLOG_AGENT_ANSWER_TIMEOUT": "30",
    "FLEETLOG_ROOM_ANSWER_SECONDS": "30",
    # Without an answer the sums of a member decide, not its nodes by grade.
    "FLEETLOG_FEATURE_GATES": "CustomizedClusterResourceModeling=false",
}
AGGREGATED = {
    "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
}
BY_ROOM = {
    "replicaScheduling": {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    }
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two push members and a pull member with small nodes."""
    with installation(tmp_path_factory, "estimator", ("--members", "3"), SETTINGS) as made:
        estimating(made)
        yield made


@pytest.fixture
def space(fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Space]:
    """A namespace of its own, present in every member; what ran in it is gone afterwards, and counted nowhere."""
    with namespace(fleet, request.node.name) as made:
        yield made
        made.control.run("delete", "deployments,propagationpolicies", "--all", namespace=made.name)
        # What found no room so far may be placed while the others go.
        until_equal("bindings left", lambda: made.control.names("rb", made.name), [])
        for name, member in made.member.items():
            until_equal(f"pods left in {name}", lambda m=member: m.names("pods", made.name), [])
            until_equal(f"CPUs taken in {name}", lambda n=name: taken(made, n), "0")


def deploy(
    space: Space, name: str, replicas: int, cpu: str, placement: dict[str, Any], members: tuple[str, ...] = PUSH
) -> None:
    placement = {**placement, "clusterAffinity": {"clusterNames": list(members)}}
    web = space.load("web.yaml")
    web["metadata"]["name"] = name
    web["spec"]["replicas"] = replicas
    for part in (web["spec"]["selector"]["matchLabels"], web["spec"]["template"]["metadata"]["labels"]):
        part["app"] = name
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    space.policy(web, placement)
    space.apply(web)


def assigned(space: Space, name: str) -> dict[str, int]:
    """Replicas by cluster, as the binding says."""
    binding = space.control.get("rb", f"{name}-deployment", space.name) or {}
    return {item["name"]: item.get("replicas", 0) for item in binding.get("spec", {}).get("clusters") or []}


def scheduled(space: Space, name: str) -> str:
    """Reason of the binding's Scheduled condition."""
    binding = space.control.get("rb", f"{name}-deployment", space.name) or {}
    conditions = binding.get("status", {}).get("conditions") or []
    return next((str(item["reason"]) for item in conditions if item["type"] == "Scheduled"), "")


def ready(space: Space, name: str) -> int:
    held = space.control.get("deployment", name, space.name) or {}
    return int((held.get("status") or {}).get("readyReplicas") or 0)


def history(space: Space, fleet: Fleet, name: str) -> str:
    """The story of a Deployment."""
    words = ("history", "deployment", name, "-n", space.name)
    done = run_command("fleetlog", *words, "--dir", str(fleet.layout.directory))
    assert done.returncode == 0, done.stderr
    return done.stdout


def taken(space: Space, member: str) -> str:
    """The CPUs that a member's summary counts as given away."""
    cluster = space.control.get("cluster", member) or {}
    summary = (cluster.get("status") or {}).get("resourceSummary") or {}
    return str((summary.get("allocated") or {}).get("cpu", "0"))


def estimating(fleet: Fleet) -> None:
    """Return once the estimator knows the nodes of members: before that it has no opinion, and summaries decide."""
    known = "fleetlog_estimator_members_known"
    until_equal("members whose nodes the estimator knows", lambda: metric(fleet, "estimator", known), len(PUSH))


def test_replicas_are_placed_where_nodes_have_capacity(space: Space) -> None:
    # A member's sum of 12 CPUs would hold four replicas of three CPUs, its nodes of four CPUs hold one each.
    deploy(space, "packed", 4, "3", AGGREGATED)
    until_equal("shares", lambda: assigned(space, "packed"), {"member1": 2, "member2": 2})
    until_equal("ready replicas", lambda: ready(space, "packed"), 4)
    deploy(space, "weighed", 4, "2", BY_ROOM)
    until_equal("shares", lambda: assigned(space, "weighed"), {"member1": 2, "member2": 2})
    until_equal("ready replicas", lambda: ready(space, "weighed"), 4)
    # Two CPUs are free in each member now, one on each of two nodes.
    deploy(space, "late", 1, "2", BY_ROOM)
    until_equal("reason", lambda: scheduled(space, "late"), "Unschedulable")
    assert assigned(space, "late") == {}
    for member in space.member.values():
        assert member.get("deployment", "late", space.name) is None
    space.control.delete("deployment", "weighed", space.name)
    until_equal("shares once nodes are free again", lambda: sum(assigned(space, "late").values()), 1)
    until_equal("ready replicas", lambda: ready(space, "late"), 1)


def test_capacity_of_a_pull_member_comes_from_its_agent(space: Space, fleet: Fleet) -> None:
    deploy(space, "pulled", 2, "3", AGGREGATED, ("member3",))
    until_equal("ready replicas", lambda: ready(space, "pulled"), 2)
    # One node is free: the sum of the member would hold one more of these, its nodes hold one.
    deploy(space, "crowd", 2, "3", AGGREGATED, ("member3",))
    until_equal("reason", lambda: scheduled(space, "crowd"), "Unschedulable")
    told = history(space, fleet, "crowd")
    assert "room member3=1" in told, told
    assert "by the agent" in told
    space.control.delete("deployment", "pulled", space.name)
    until_equal("shares once nodes are free again", lambda: assigned(space, "crowd"), {"member3": 2})
    until_equal("ready replicas", lambda: ready(space, "crowd"), 2)


def test_simultaneous_workloads_do_not_share_capacity(space: Space) -> None:
    names = [f"burst-{number}" for number in range(6)]
    for name in names:
        deploy(space, name, 2, "3", AGGREGATED)
    until("every decision", lambda: all(scheduled(space, name) for name in names))
    # Six nodes have room for one replica each: three of six workloads fit, and every replica of them runs.
    until_equal("workloads placed", lambda: sum(bool(assigned(space, name)) for name in names), 3)
    placed = [name for name in names if assigned(space, name)]
    for name in placed:
        until_equal(f"ready replicas of {name}", lambda name=name: ready(space, name), 2)
    for name in set(names) - set(placed):
        assert scheduled(space, name) == "Unschedulable"
