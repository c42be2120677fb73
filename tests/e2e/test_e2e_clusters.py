"""What happens when clusters change: labels, taints, clusters that leave and clusters that come."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from services.cli.attachments.member_attachments import join_members
from services.cli.common.layout import CONTROL
from tests.e2e.fleet import Fleet, until, until_equal
from tests.e2e.installations import namespace
from tests.e2e.space import EVERYWHERE, Space, weighed

pytestmark = pytest.mark.xdist_group("views")

TAINT = {"key": "dedicated", "value": "special-user", "effect": "NoSchedule"}


@pytest.fixture
def space(fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Space]:
    """A namespace of its own; labels and taints of clusters are taken away afterwards."""
    with namespace(fleet, request.node.name, everywhere=False) as made:
        yield made
        for member in EVERYWHERE:
            made.control.run("label", "cluster", member, "tier-", check=False)
            made.control.patch("cluster", member, {"spec": {"taints": []}})


@pytest.mark.main_path
def test_tainted_cluster_takes_tolerating_objects_only(space: Space) -> None:
    space.taint("member2", TAINT)
    settings, web = space.apply(space.load("settings.yaml")), space.apply(space.load("web.yaml"))
    tolerated = {"key": "dedicated", "operator": "Equal", "value": "special-user", "effect": "NoSchedule"}
    space.policy(web, {"clusterTolerations": [tolerated]})
    space.policy(settings, {})
    space.until_in("deployment", "web", EVERYWHERE)
    space.until_in("configmap", "settings", ("member1", "member3"))
    space.taint("member2")
    space.until_in("configmap", "settings", EVERYWHERE)


def test_unjoined_cluster_is_emptied_and_joined_one_is_filled(space: Space, fleet: Fleet) -> None:
    settings, web = space.apply(space.load("settings.yaml")), space.load("web.yaml")
    web["spec"]["replicas"] = 6
    space.apply(web)
    space.policy(settings, {})
    space.policy(web, weighed(member2=1, member3=1))
    space.until_in("configmap", "settings", EVERYWHERE)
    space.until_field("member3", "deployment", "web", "spec.replicas", 3)

    space.control.run("delete", "cluster", "member3", "--timeout=60s")
    until_equal("clusters", lambda: space.control.names("clusters"), ["member1", "member2"])
    space.until_in("configmap", "settings", ("member1", "member2"))
    space.until_field("member2", "deployment", "web", "spec.replicas", 6)
    assert space.held("member3", "deployment", "web") is None

    back = {"member3": fleet.layout.kubeconfig("member3")}
    agents = {"member3": fleet.layout.agent_kubeconfig("member3")}
    asyncio.run(join_members(fleet.layout.kubeconfig(CONTROL), back, agents))
    until("namespace in the cluster that came back", lambda: space.member["member3"].get("namespace", space.name))
    space.until_in("configmap", "settings", EVERYWHERE)
    # Divided replicas stay where they run until something asks for another division.
    space.control.run("scale", "deployment/web", "--replicas=8", namespace=space.name)
    space.until_field("member3", "deployment", "web", "spec.replicas", 4)
    space.until_field("member2", "deployment", "web", "spec.replicas", 4)
