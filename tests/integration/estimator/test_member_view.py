"""A view follows the nodes and pods of a Kubernetes endpoint, from its lists on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from schemas.manifest import Manifest
from services._kit.kube.client import KubeClient, resource_path
from services._kit.members.node_informer import MemberView
from services._rules.capacity.replica_estimate import NO_OPINION, Answers, Picture, requirements_of
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore

# New nodes carry the taint of those that are not ready yet.
CLAIM = {"tolerations": [{"operator": "Exists"}]}
NEEDS = requirements_of({"replicaRequirements": {"resourceRequest": {"cpu": "3"}, "nodeClaim": CLAIM}})


@pytest.fixture
async def member(tmp_path: Path) -> AsyncIterator[ApiServer]:
    """A member in memory."""
    tokens = {"admin": Identity("admin", "admin", ("system:masters",))}
    server = ApiServer(MemoryStore(), builtin_registry(), Settings(data_dir=tmp_path, tokens=tokens, tls=False))
    await server.start()
    yield server
    await server.stop()


def node(name: str) -> Manifest:
    status = {"allocatable": {"cpu": "4", "pods": "10"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str, on: str) -> Manifest:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    spec = {"nodeName": on, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def test_a_view_counts_what_comes_and_goes(member: ApiServer) -> None:
    changed = asyncio.Event()
    picture = Picture()
    answers = Answers(picture)

    async def opener() -> KubeClient:
        return KubeClient.from_token(member.url, "admin")

    async def until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                changed.clear()
                await changed.wait()

    client = await opener()
    for name in ("a", "b"):
        created = await client.create(resource_path("", "v1", "nodes"), node(name))
        status = {"status": node(name)["status"], "metadata": {"name": name}}
        assert created["metadata"]["name"] == name
        await client.patch(resource_path("", "v1", "nodes", "", name, "status"), status)
    view = MemberView("m1", opener, picture, changed.set)
    assert answers.replicas(NEEDS) == NO_OPINION
    view.start()
    try:
        await until(lambda: answers.replicas(NEEDS) == 2)
        await client.create(resource_path("", "v1", "pods", "default"), pod("p", "a"))
        await until(lambda: answers.replicas(NEEDS) == 1)
        await client.delete(resource_path("", "v1", "nodes", "", "b"))
        await until(lambda: answers.replicas(NEEDS) == 0)
        ended = {"status": {"phase": "Succeeded"}}
        await client.patch(resource_path("", "v1", "pods", "default", "p", "status"), ended)
        await until(lambda: answers.replicas(NEEDS) == 1)
        assert view.trouble == ""
    finally:
        await view.close()
        await client.close()
