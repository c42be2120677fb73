"""Watches over a real log: what is there, what changes, what goes, and where a watch may begin."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import aiohttp
import msgspec
import pytest

from schemas.events.cluster import ClusterRemoved
from schemas.keys import ObjectKey
from tests.integration.gateway.conftest import Client
from tests.integration.gateway.story import cluster, observed, placed, released, rendered, requested, withdrawn

RB = "/apis/work.karmada.io/v1alpha2/resourcebindings"
WORKS = "/apis/work.karmada.io/v1alpha1/works"
OTHER = ObjectKey(group="apps", resource="deployments", namespace="shop", name="web")


class Events:
    def __init__(self, content):
        self._content = content

    async def next(self):
        """Type and object of the next event."""
        async with asyncio.timeout(60):
            event = msgspec.json.decode(await self._content.readline())
        return event["type"], event["object"]

    async def names(self, count):
        """Type and name of some events."""
        return [(kind, body["metadata"]["name"]) for kind, body in [await self.next() for _ in range(count)]]

    async def rest(self):
        """Everything until the watch ends."""
        async with asyncio.timeout(60):
            return [msgspec.json.decode(line) async for line in self._content]


@asynccontextmanager
async def watching(client, path, **params):
    async with client.session.get(
        client.url + path, params={"watch": "true", **params}, headers=client.headers
    ) as answer:
        assert answer.status == 200
        yield Events(answer.content)


async def test_watch_begins_with_the_list_and_goes_on(writer, gateway, client):
    await writer.append(requested())
    async with watching(client, RB) as events:
        kind, body = await events.next()
        assert (kind, body["metadata"]["name"]) == ("ADDED", "nginx-deployment")
        position = await writer.append(placed(member1=2))
        kind, body = await events.next()
        assert (kind, body["metadata"]["resourceVersion"]) == ("MODIFIED", str(position))
        assert body["spec"]["clusters"] == [{"name": "member1", "replicas": 2}]
        position = await writer.append(released())
        kind, body = await events.next()
        assert (kind, body["metadata"]["resourceVersion"]) == ("DELETED", str(position))


async def test_a_watch_goes_on_behind_the_revision_of_a_list(writer, gateway, client):
    await writer.append(requested())
    listed = await client.until(RB, lambda body: body["items"])
    await writer.append(requested(OTHER, "u2"))
    await client.until(RB, lambda body: len(body["items"]) == 2)
    async with watching(client, RB, resourceVersion=listed["metadata"]["resourceVersion"]) as events:
        assert await events.names(1) == [("ADDED", "web-deployment")]


async def test_a_watch_of_one_namespace_sees_no_other(writer, gateway, client):
    async with watching(client, "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings") as events:
        await writer.append(requested(), requested(OTHER, "u2"))
        assert await events.names(1) == [("ADDED", "web-deployment")]


async def test_an_object_of_another_uid_is_deleted_and_added(writer, gateway, client):
    await writer.append(requested())
    await client.until(RB, lambda body: body["items"])
    async with watching(client, RB) as events:
        assert await events.names(1) == [("ADDED", "nginx-deployment")]
        await writer.append(requested(uid="u9"))
        assert await events.names(2) == [("DELETED", "nginx-deployment"), ("ADDED", "nginx-deployment")]


async def test_leaving_a_selection_is_a_deletion(writer, gateway, client):
    await writer.append(requested(labels={"stage": "test"}))
    await client.until(RB, lambda body: body["items"])
    async with watching(client, RB, labelSelector="stage=test") as events:
        assert await events.names(1) == [("ADDED", "nginx-deployment")]
        await writer.append(requested(labels={"stage": "live"}, generation=2))
        assert await events.names(1) == [("DELETED", "nginx-deployment")]


async def test_withdrawn_work_is_terminating_until_its_copy_is_gone(writer, gateway, client):
    await writer.append(cluster("member1"), rendered("member1"), observed("member1"))
    await client.until(WORKS, lambda body: body["items"] and "manifestStatuses" in body["items"][0].get("status", {}))
    async with watching(client, WORKS) as events:
        await events.next()
        await writer.append(withdrawn("member1"))
        kind, body = await events.next()
        assert kind == "MODIFIED"
        assert "deletionTimestamp" in body["metadata"]
        assert body["spec"]["workload"]["manifests"][0]["kind"] == "Deployment"
        await writer.append(observed("member1", applied=False, absent=True))
        assert (await events.next())[0] == "DELETED"


async def test_works_go_with_their_cluster(writer, gateway, client):
    await writer.append(cluster("member1"), rendered("member1"))
    await client.until(WORKS, lambda body: body["items"])
    await writer.append(ClusterRemoved(name="member1", uid="uid-member1"))
    assert not (await client.until(WORKS, lambda body: not body["items"]))["items"]


async def test_a_watch_ends_at_its_time_with_a_bookmark_of_the_present(writer, gateway, client):
    await writer.append(requested())
    listed = await client.until(RB, lambda body: body["items"])
    position = await writer.append(requested(OTHER, "u2"))
    await client.until(RB, lambda body: len(body["items"]) == 2)
    params = {"timeoutSeconds": "1", "allowWatchBookmarks": "true"}
    path = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings"
    async with watching(client, path, resourceVersion=listed["metadata"]["resourceVersion"], **params) as events:
        rest = await events.rest()
    assert [(event["type"], event["object"]["metadata"]["resourceVersion"]) for event in rest] == [
        ("BOOKMARK", str(position))
    ]


async def test_initial_events_end_with_a_marked_bookmark(writer, gateway, client):
    await writer.append(requested())
    await client.until(RB, lambda body: body["items"])
    params = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with watching(client, RB, **params) as events:
        assert (await events.next())[0] == "ADDED"
        kind, body = await events.next()
    assert kind == "BOOKMARK"
    assert body["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


@pytest.mark.parametrize("path", [RB, WORKS])
async def test_watch_from_before_the_start_is_expired(writer, gateway, start_gateway, client, path):
    await writer.append(requested(), rendered("member1"), placed(member1=1), observed("member1"))
    other = await start_gateway()
    async with aiohttp.ClientSession() as session:
        late = Client(session, other.api.url)
        async with watching(late, path, resourceVersion="1") as events:
            kind, body = await events.next()
    assert (kind, body["code"], body["reason"]) == ("ERROR", 410, "Expired")


async def test_revision_of_another_instance_is_expired(writer, gateway, start_gateway, client):
    await writer.append(rendered("member1"))
    other = await start_gateway()
    listed = await client.until(WORKS, lambda body: body["items"])
    version = int(listed["metadata"]["resourceVersion"])
    foreign = str(version ^ 1)
    async with watching(client, WORKS, resourceVersion=foreign) as events:
        kind, body = await events.next()
    assert other is not gateway
    assert (kind, body["reason"]) == ("ERROR", "Expired")


async def test_pages_share_one_revision_and_miss_nothing(writer, gateway, client):
    keys = [ObjectKey(group="apps", resource="deployments", namespace="default", name=f"n{i}") for i in range(5)]
    await writer.append(*(requested(key, f"u{i}") for i, key in enumerate(keys)))
    await client.until(RB, lambda body: len(body["items"]) == 5)
    names, versions, token = [], set(), ""
    while True:
        page = await client.get(RB, limit="2", **({"continue": token} if token else {}))
        names += [item["metadata"]["name"] for item in page["items"]]
        versions.add(page["metadata"]["resourceVersion"])
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert names == [f"n{i}-deployment" for i in range(5)]
    assert len(versions) == 1


async def test_a_revision_ahead_of_the_log_is_a_timeout(writer, gateway, client):
    await writer.append(requested())
    await client.until(RB, lambda body: body["items"])
    body = await client.get(RB, status=504, resourceVersion="999999")
    assert body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
