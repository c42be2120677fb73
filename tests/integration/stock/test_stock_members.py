"""Members that go away and come back or leave, and a control plane that starts again, without native controllers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from schemas.codec import decode
from schemas.events.rollup import StatusRolledUp
from services._kit.kube.client import KubeClient, resource_path
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services.cli.attachments.member_attachments import join_members
from services.cli.installation.up import services_of
from tests.faults.rounds import unrest
from tests.integration.stock.conftest import Stock
from tests.integration.stock.walking import (
    CLUSTERS,
    CONFIG_MAPS,
    NAMESPACES,
    POLICIES,
    Walk,
    found,
)
from tests.support.closing import closing
from tests.support.waiting import comes_to


async def busy(stock: Stock) -> list[str]:
    """What the services still have to do."""
    installation = stock.fleet.installation
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as http:
        urls = {name: f"http://127.0.0.1:{installation.port(name)}" for name in services_of(installation)}
        return [complaint for name, url in urls.items() for complaint in await unrest(http, name, url)]


@asynccontextmanager
async def facts(stock: Stock) -> AsyncIterator[JetStreamLog]:
    """The installation's log of facts."""
    async with closing(await Connection.open(stock.fleet.installation.log_access, name="test")) as connection:
        yield JetStreamLog(connection, "FACTS")


async def ready(control: KubeClient, name: str) -> str:
    """Status of a cluster's Ready condition."""
    cluster = await found(control, resource_path(*CLUSTERS, "", name)) or {}
    conditions = (cluster.get("status") or {}).get("conditions") or ()
    return next((entry["status"] for entry in conditions if entry["type"] == "Ready"), "")


async def test_returned_member_catches_up_without_delaying_others(stock: Stock, walk: Walk) -> None:
    if stock.gate is None:
        pytest.skip("the second member's server is not on this machine: it cannot be cut off")
    await walk.begin()
    stock.gate.shut()
    try:

        async def readiness() -> str:
            return await ready(walk.control, walk.second)

        async def away() -> bool:
            return await readiness() in ("False", "Unknown")

        await comes_to("the cluster is not ready", away)
        await walk.change({"spec": {"replicas": 6}})

        async def first() -> int:
            return (await walk.replicas())[walk.first]

        await comes_to("replicas in the member that is there", first, 3)
        assert (await walk.replicas())[walk.second] == 1
    finally:
        stock.gate.open()
    await comes_to("the cluster is ready", readiness, "True")
    await comes_to("replicas by member", walk.replicas, {walk.first: 3, walk.second: 3})


async def test_a_start_with_a_silent_member_succeeds(stock: Stock, walk: Walk) -> None:
    if stock.gate is None:
        pytest.skip("the second member's server is not on this machine: it cannot be cut off")
    await walk.begin()
    stock.fleet.stop()
    stock.gate.shut()
    try:
        stock.fleet.start()
        assert f"member {walk.second} is not usable: kubeconfig " in stock.fleet.printed()
        await walk.change({"spec": {"replicas": 4}})

        async def first() -> int:
            return (await walk.replicas())[walk.first]

        await comes_to("replicas in the member that is there", first, 2)
    finally:
        stock.gate.open()
    await comes_to("replicas by member", walk.replicas, {walk.first: 2, walk.second: 2})

    async def readiness() -> str:
        return await ready(walk.control, walk.second)

    await comes_to("the cluster is ready", readiness, "True")


async def test_a_restart_appends_nothing_but_leases(stock: Stock, walk: Walk) -> None:
    await walk.begin()
    seen = 0
    async with facts(stock) as log:

        async def summed() -> bool:
            sums = [message async for message in log.read(["rollup.>"]) if walk.name in message.subject]
            last = decode(sums[-1].subject, sums[-1].data) if sums else None
            return isinstance(last, StatusRolledUp) and last.fully_applied

        async def moving() -> list[str]:
            nonlocal seen
            seen = (await log.identity()).last_seq
            found = await busy(stock)
            return found if seen == (await log.identity()).last_seq else [*found, "the log grows"]

        await comes_to("the sum of both copies", summed)
        await comes_to("what services have to do", moving, [])
    stock.fleet.stop()
    stock.fleet.start()
    # What is delivered after the start proves that every service has taken up its work again.
    later = f"{walk.name}-later"
    metadata = {"name": later, "namespace": "default"}
    await walk.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}})
    spec = {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": later}]}
    policy = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy"}
    await walk.create(POLICIES, {**policy, "metadata": metadata, "spec": spec})

    async def copies() -> list[str]:
        path = resource_path(*CONFIG_MAPS, "default", later)
        return [name for name, member in walk.members.items() if await found(member, path)]

    await comes_to("copies of what was created after the start", copies, list(walk.members))
    async with facts(stock) as log:
        stop = (await log.identity()).last_seq
        subjects = [message.subject async for message in log.read([">"], seen + 1, stop)]
    assert any(later in subject for subject in subjects)
    assert [name for name in subjects if later not in name and not name.startswith("lease.")] == []


async def test_a_cluster_that_is_deleted_lets_go_and_may_join_again(stock: Stock, walk: Walk) -> None:
    third = walk.members[walk.third]
    await walk.begin({walk.first: 1, walk.third: 1})
    # A namespace of the member stays Terminating without its controller; that must not hold the cluster.
    await walk.control.create(resource_path(*NAMESPACES), {"kind": "Namespace", "metadata": {"name": walk.name}})
    namespace = resource_path(*NAMESPACES, "", walk.name)

    async def made() -> bool:
        return await found(third, namespace) is not None

    await comes_to("the namespace in the member", made)
    path = resource_path(*CLUSTERS, "", walk.third)
    await walk.control.delete(path)

    async def gone() -> bool:
        return await found(walk.control, path) is None

    await comes_to("the Cluster object is gone", gone)
    assert await walk.copy(walk.third) == {}
    left = await found(third, namespace)
    assert left is None or "deletionTimestamp" in left["metadata"]
    await comes_to("replicas by member", walk.replicas, {walk.first: 2})
    kubeconfig = stock.servers.members[walk.third]
    assert str(await join_members(stock.servers.control, {}, attached={walk.third: kubeconfig})) == walk.third
    # What is placed stays placed; the next division counts the member in again.
    await walk.change({"spec": {"replicas": 4}})
    await comes_to("replicas by member", walk.replicas, {walk.first: 2, walk.third: 2})
