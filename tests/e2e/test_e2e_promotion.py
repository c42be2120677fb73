"""What a member runs already becomes a template, and its pods go on as they are (journeys 83 and 84)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from schemas.manifest import Manifest
from tests.e2e.fleet import Fleet, until, until_equal
from tests.e2e.installations import namespace
from tests.e2e.space import Space

pytestmark = pytest.mark.xdist_group("views")


@pytest.fixture
def space(fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Space]:
    """A namespace of its own."""
    with namespace(fleet, request.node.name) as made:
        yield made


def application(space: Space, member: str) -> set[tuple[str, str]]:
    """Run a Deployment and what it reads in a member only; names and uids of its pods."""
    web = space.load("web.yaml")
    web["spec"]["replicas"] = 2
    volume = {"name": "page", "configMap": {"name": "page"}}
    web["spec"]["template"]["spec"]["volumes"] = [volume]
    page = {"name": "page", "namespace": space.name}
    items = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": page, "data": {"index.html": "hello"}}, web]
    space.member[member].apply({"apiVersion": "v1", "kind": "List", "items": items})
    space.until_field(member, "deployment", "web", "status.readyReplicas", 2)
    return pods(space, member)


def pods(space: Space, member: str) -> set[tuple[str, str]]:
    """Names and uids of the pods in a member."""
    found = space.member[member].items("pods", space.name)
    return {(item["metadata"]["name"], item["metadata"]["uid"]) for item in found}


def adopted(fleet: Fleet, space: Space, member: str) -> list[list[str]]:
    """What a table says of the Deployment: name, cluster, ready replicas, adoption."""
    rows = fleet.table("get", "deploy", "web", "-n", space.name, "-s", "all", "-C", member, "--ignore-not-found")
    return [[*row[:3], row[-1]] for row in rows[1:]]


def policy(space: Space) -> Manifest:
    """The policy that was made."""
    (found,) = space.control.items("propagationpolicies", space.name)
    return found


@pytest.mark.main_path
def test_a_workload_of_a_push_member_is_taken_over(fleet: Fleet, space: Space) -> None:
    before = application(space, "member1")
    assert adopted(fleet, space, "member1") == [["web", "member1", "2/2", "N"]]
    promote = ("promote", "deployment", "web", "-n", space.name, "-C", "member1")
    printed = fleet.said(*promote, "-o", "yaml")
    assert (printed.count("\nkind: Deployment"), printed.count("\nkind: PropagationPolicy")) == (1, 1)
    assert fleet.said(*promote, "--dry-run=true") == f"Deployment {space.name}/web would be promoted (dry run)\n"
    assert space.control.get("deployment", "web", space.name) is None

    said = fleet.said(*promote)
    made = policy(space)
    name = made["metadata"]["name"]
    assert said == (
        f"ResourceTemplate ({space.name}/web) is created successfully\n"
        f"PropagationPolicy ({space.name}/{name}) is created successfully\n"
        f'Resource "apps/v1, Resource=deployments"({space.name}/web) is promoted successfully\n'
    )
    assert made["spec"]["placement"]["clusterAffinity"] == {"clusterNames": ["member1"]}
    assert made["spec"]["conflictResolution"] == "Overwrite"
    assert made["spec"]["preserveResourcesOnDeletion"] is True
    assert not made["spec"].get("propagateDeps")
    taken = [["web", "Karmada", "2/2", "-"], ["web", "member1", "2/2", "Y"]]
    until_equal("the Deployment", lambda: adopted(fleet, space, "member1"), taken)
    assert pods(space, "member1") == before

    again = fleet.karmadactl(*promote)
    assert (again.returncode, again.stdout) == (0, "")
    assert "is in the control plane already" in again.stderr


def test_a_pull_members_workload_brings_what_it_needs(fleet: Fleet, space: Space) -> None:
    before = application(space, "member3")
    direct = ("--cluster-kubeconfig", str(fleet.layout.kubeconfig("member3")))
    said = fleet.said("promote", "deploy/web", "-n", space.name, "-C", "member3", *direct, "-d")
    assert said.splitlines()[:3] == [
        "Dependencies are found by the default interpreter",
        f"Dependency (ConfigMap {space.name}/page) is created successfully",
        f"ResourceTemplate ({space.name}/web) is created successfully",
    ]
    assert policy(space)["spec"]["propagateDeps"] is True
    taken = [["web", "Karmada", "2/2", "-"], ["web", "member3", "2/2", "Y"]]
    until_equal("the Deployment", lambda: adopted(fleet, space, "member3"), taken)
    until("the page", lambda: _managed(space))
    assert pods(space, "member3") == before


def _managed(space: Space) -> bool:
    labels = (space.held("member3", "configmap", "page") or {})["metadata"].get("labels") or {}
    return labels.get("karmada.io/managed") == "true"


def test_promotion_that_cannot_be_says_why(fleet: Fleet, space: Space) -> None:
    application(space, "member1")
    there = ("-n", space.name, "-C", "member1")
    for words, said in (
        (("deploy", "nothing", *there), f"Deployment {space.name}/nothing is not in cluster member1"),
        (("widgets", "w", *there), "deployment.v1.apps"),
        (("deploy", "web", "-n", space.name), "say which member runs it"),
        (("deploy", "web", "-n", space.name, "-C", "nowhere"), "no cluster object nowhere"),
        (("deploy", *there), "name one object"),
        (("deploy", "web", *there, "-o", "table"), "'table' is not one of"),
    ):
        done = fleet.karmadactl("promote", *words)
        assert (done.returncode, done.stdout) == (1, ""), words
        assert said in done.stderr
    fleet.said("promote", "cm", "page", *there, "--auto-create-policy=false")
    assert space.control.items("propagationpolicies", space.name) == []
    page: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}}
    space.policy(page, {})
    taken = fleet.karmadactl("promote", "deploy", "web", *there, "--policy-name", "shared", "-d")
    assert taken.returncode == 1
    assert f"ConfigMap {space.name}/page is in the control plane already" in taken.stderr
    assert f"PropagationPolicy {space.name}/shared exists already; the template was created" in taken.stderr
    assert policy(space)["spec"]["resourceSelectors"][0]["kind"] == "ConfigMap"
