"""Watches of the global proxy: events of all clusters with versions to go on from, and the ways in which they end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from services.search.union.version_map import read_version
from tests.support.view_world import PREFIX, ViewWorld, config_map, pod
from tests.support.waiting import eventually
from tests.support.watching import Watching, told, versions


@asynccontextmanager
async def watching(
    world: ViewWorld, query: str = "", path: str = "/api/v1/pods", **headers: str
) -> AsyncIterator[Watching]:
    """A watch that has begun."""
    url = f"{world.url}{PREFIX}{path}?watch=true{query}"
    async with world.session.get(url, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        yield Watching(answer)


async def test_a_watch_after_a_list_sends_what_follows(world: ViewWorld) -> None:
    await world.create("member1", config_map("a"))
    listed = await world.get("/api/v1/configmaps")
    since = f"&resourceVersion={listed['metadata']['resourceVersion']}"
    async with watching(world, since, "/api/v1/configmaps") as events:
        made = await world.create("member2", config_map("b"))
        added = await events.next()
        assert told(added) == ("ADDED", "member2", "b")
        before = read_version(listed["metadata"]["resourceVersion"])
        assert versions(added).of("member1") == before.of("member1")
        assert versions(added).of("member2") == made["metadata"]["resourceVersion"]
        await world.members["member1"].client.delete("/api/v1/namespaces/default/configmaps/a")
        assert told(await events.next()) == ("DELETED", "member1", "a")


async def test_the_end_of_one_cluster_ends_the_watch(world: ViewWorld) -> None:
    async with watching(world) as events:
        await world.members["member2"].server.stop()
        assert await events.next() == {}


async def test_a_watch_ends_after_its_time(world: ViewWorld) -> None:
    async with watching(world, "&timeoutSeconds=1") as events:
        assert await events.next() == {}


@pytest.mark.parametrize("away", ["member1", "member2"])
async def test_a_watch_that_cannot_begin_is_refused(world: ViewWorld, away: str) -> None:
    await world.members[away].server.stop()
    refused = await world.get("/api/v1/pods?watch=true", status=503)
    assert away in refused["message"]


async def test_fields_that_members_test_are_watched_there(world: ViewWorld) -> None:
    async with watching(world, "&fieldSelector=status.phase!%3DFailed") as events:
        assert world.carried.count == 2
        await world.create("member1", pod("a"))
        assert told(await events.next()) == ("ADDED", "member1", "a")
    # The next event shows that the client has gone.
    await world.create("member1", pod("b"))
    await eventually(lambda: world.carried.count == 0)
