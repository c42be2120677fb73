"""A pull member: its agent delivers and reports, dies and comes back, falls silent, and leaves and joins again."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import Iterator

import pytest

from schemas.manifest import Manifest
from services._kit.log.connection import Connection
from services.cli.common.layout import agent_process
from services.cli.nats.server_identities import connect_agent
from tests.e2e.fleet import Fleet, until, until_equal
from tests.e2e.installations import installation, namespace
from tests.e2e.space import Space, clusters

PULL = "member3"
AGENT = agent_process(PULL)
SOON = {
    "FLEETLOG_AGENT_HEARTBEAT": "0.5",
    "FLEETLOG_CLUSTER_MONITOR_GRACE_PERIOD": "3",
    "FLEETLOG_CLUSTER_SUCCESS_THRESHOLD": "0",
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """An installation whose agents greet often, so that their silence shows soon."""
    with installation(tmp_path_factory, "pull", environment=SOON) as made:
        yield made


@pytest.fixture
def space(fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Space]:
    """A namespace of its own."""
    with namespace(fleet, request.node.name, everywhere=False) as made:
        yield made


def large(name: str) -> Manifest:
    """An object too large to ride in an event."""
    data = {f"line{number}": "x" * 1000 for number in range(40)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def into(space: Space, manifest: Manifest) -> Manifest:
    """Apply an object that only the pull member gets."""
    manifest["metadata"]["namespace"] = space.name
    space.apply(manifest)
    space.policy(manifest, clusters(PULL))
    return manifest


def ready(space: Space) -> str:
    """Status of the pull member's Ready condition."""
    status = (space.control.get("cluster", PULL) or {}).get("status") or {}
    return next((entry["status"] for entry in status.get("conditions") or () if entry["type"] == "Ready"), "")


def taints(space: Space) -> list[str]:
    """Keys of the pull member's taints."""
    return [taint["key"] for taint in (space.control.get("cluster", PULL) or {})["spec"].get("taints") or ()]


def test_an_agent_delivers_large_objects_and_reports_status(space: Space) -> None:
    book = into(space, large("book"))
    web = into(space, space.load("web.yaml"))
    space.until_in("configmap", "book", (PULL,))
    assert (space.held(PULL, "configmap", "book") or {})["data"] == book["data"]
    space.until_field(PULL, "deployment", "web", "status.readyReplicas", web["spec"]["replicas"])

    def summed() -> object:
        return ((space.control.get("deployment", "web", space.name) or {}).get("status") or {}).get("readyReplicas")

    until_equal("replicas on the template", summed, web["spec"]["replicas"])

    def used() -> object:
        return (space.control.get("cluster", PULL) or {}).get("status", {}).get("resourceSummary", {}).get("allocated")

    until("the sum of what is used", used)


def test_secrets_of_the_installation_are_for_its_owner_only(fleet: Fleet) -> None:
    layout = fleet.layout
    for path in (
        layout.agent_seed(PULL),
        layout.agent_kubeconfig(PULL),
        layout.data("nats") / "nats.conf",
        layout.hub_password,
        layout.state,
    ):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_an_agent_that_was_killed_goes_on_where_it_was(space: Space, fleet: Fleet) -> None:
    first = into(space, large("first"))
    space.until_in("configmap", "first", (PULL,))
    killed = fleet.kill(AGENT)
    second = into(space, large("second"))
    first["data"] = {"short": "1"}
    space.apply(first)
    space.control.delete("propagationpolicy", "second", space.name)
    space.policy(second, clusters(PULL))
    until("another agent", lambda: fleet.pid(AGENT) not in (0, killed))
    space.until_in("configmap", "second", (PULL,))
    space.until_field(PULL, "configmap", "first", "data", {"short": "1"})


def test_cluster_of_a_silent_agent_is_unknown(space: Space, fleet: Fleet) -> None:
    into(space, large("stays"))
    space.until_in("configmap", "stays", (PULL,))
    until_equal("ready", lambda: ready(space), "True")
    pid = fleet.signal(AGENT, signal.SIGSTOP)
    try:
        until_equal("ready", lambda: ready(space), "Unknown")
        until_equal("taints", lambda: taints(space), ["cluster.karmada.io/unreachable"])
        assert space.held(PULL, "configmap", "stays") is not None
    finally:
        os.kill(pid, signal.SIGCONT)
    until_equal("ready", lambda: ready(space), "True")
    until_equal("taints", lambda: taints(space), [])


async def refused(fleet: Fleet, seed: str) -> bool:
    """Whether the log's server lets nobody in with this seed."""
    answer = await connect_agent(fleet.installation.log_url, seed)
    if isinstance(answer, Connection):
        await answer.close()
        return False
    return "authorization" in answer.lower()


def test_pull_member_leaves_and_joins_with_another_identity(space: Space, fleet: Fleet) -> None:
    into(space, large("book"))
    space.until_in("configmap", "book", (PULL,))
    seed = fleet.layout.agent_seed(PULL).read_text()
    assert not asyncio.run(refused(fleet, seed))
    assert fleet.said("unjoin", PULL) == f"cluster({PULL}) is unjoined successfully\n"
    assert space.held(PULL, "configmap", "book") is None
    assert not fleet.layout.agent_seed(PULL).exists()
    assert PULL not in fleet.installation.agents
    until("the end of the identity", lambda: asyncio.run(refused(fleet, seed)))

    member = str(fleet.layout.kubeconfig(PULL))
    told = fleet.said("join", PULL, "--mode", "pull", "--cluster-kubeconfig", member, "--cluster-region", "eu")
    assert told.startswith(f"cluster({PULL}) is joined successfully\n")
    assert fleet.layout.agent_seed(PULL).read_text() != seed
    until("the end of the former identity", lambda: asyncio.run(refused(fleet, seed)))
    until_equal("ready", lambda: ready(space), "True")
    assert (space.control.get("cluster", PULL) or {})["spec"]["region"] == "eu"
    space.until_in("configmap", "book", (PULL,))


def given(space: Space, name: str) -> bool:
    """Whether the member has been given an object since it joined."""
    works = space.control.items("work", f"karmada-es-{PULL}")
    return any(work["metadata"]["name"].startswith(f"{name}-") for work in works)


def test_member_with_a_dead_agent_can_be_unjoined(space: Space, fleet: Fleet) -> None:
    into(space, large("left"))
    space.until_in("configmap", "left", (PULL,))
    pid = fleet.signal(AGENT, signal.SIGSTOP)
    try:
        assert fleet.said("unjoin", PULL) == f"cluster({PULL}) is unjoined successfully\n"
        assert space.held(PULL, "configmap", "left") is not None
    finally:
        os.kill(pid, signal.SIGCONT)
    fleet.said("join", PULL, "--mode", "pull", "--cluster-kubeconfig", str(fleet.layout.kubeconfig(PULL)))
    until_equal("ready", lambda: ready(space), "True")
    # What nobody has given it again is not taken away from it again.
    until("a work in the member that joined again", lambda: given(space, "left"))
    space.control.delete("configmap", "left", space.name)
    space.until_in("configmap", "left", ())
