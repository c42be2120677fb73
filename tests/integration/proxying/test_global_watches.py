"""Watches of the global proxy: events of all clusters with versions to go on from, and the ways in which they end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from services.search.registries.wanted_kinds import Wanted
from services.search.union.provenance_marks import CACHED_FROM
from services.search.union.version_map import VersionMap, read_version
from tests.support.view_world import PODS, PREFIX, ViewWorld, config_map, pod
from tests.support.waiting import PATIENCE, eventually

PODS_PATH = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


class Watching:
    """The events of one open watch."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def next(self) -> dict:
        """The next event; empty at the end."""
        async with asyncio.timeout(PATIENCE):
            line = await self._answer.content.readline()
        return json.loads(line) if line else {}

    async def some(self, count: int) -> list[dict]:
        """So many events."""
        return [await self.next() for _ in range(count)]


@asynccontextmanager
async def watching(
    world: ViewWorld, query: str = "", path: str = "/api/v1/pods", **headers: str
) -> AsyncIterator[Watching]:
    """A watch that has begun."""
    url = f"{world.url}{PREFIX}{path}?watch=true{query}"
    async with world.session.get(url, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        yield Watching(answer)


def seen(event: dict) -> tuple[str, str, str]:
    """Kind of change, cluster and name."""
    metadata = event["object"]["metadata"]
    return event["type"], metadata["annotations"][CACHED_FROM], metadata["name"]


def versions(event: dict) -> VersionMap:
    return read_version(event["object"]["metadata"]["resourceVersion"])


async def test_a_watch_begins_with_what_there_is(world: ViewWorld) -> None:
    await world.create("member1", pod("a"))
    await world.create("member2", pod("b"))
    async with watching(world) as events:
        found = await events.some(2)
        assert sorted(map(seen, found)) == [("ADDED", "member1", "a"), ("ADDED", "member2", "b")]
        assert sorted(versions(found[1]).clusters) == ["member1", "member2"]


async def test_a_watch_after_a_list_sends_what_follows(world: ViewWorld) -> None:
    await world.create("member1", config_map("a"))
    listed = await world.get("/api/v1/configmaps")
    since = f"&resourceVersion={listed['metadata']['resourceVersion']}"
    async with watching(world, since, "/api/v1/configmaps") as events:
        made = await world.create("member2", config_map("b"))
        added = await events.next()
        assert seen(added) == ("ADDED", "member2", "b")
        before = read_version(listed["metadata"]["resourceVersion"])
        assert versions(added).of("member1") == before.of("member1")
        assert versions(added).of("member2") == made["metadata"]["resourceVersion"]
        await world.members["member1"].client.delete("/api/v1/namespaces/default/configmaps/a")
        assert seen(await events.next()) == ("DELETED", "member1", "a")


async def test_a_watch_goes_on_where_another_ended(world: ViewWorld) -> None:
    await world.create("member1", pod("a"))
    await world.create("member2", pod("b"))
    async with watching(world) as events:
        last = (await events.some(2))[-1]
    await world.create("member1", pod("c"))
    await world.create("member2", pod("d"))
    version = last["object"]["metadata"]["resourceVersion"]
    async with watching(world, f"&resourceVersion={version}") as events:
        assert sorted(map(seen, await events.some(2))) == [("ADDED", "member1", "c"), ("ADDED", "member2", "d")]


async def test_only_what_is_selected_is_watched(world: ViewWorld) -> None:
    await world.create("member1", pod("a", tier="web"))
    await world.create("member1", pod("b", tier="db"))
    await world.create("member2", pod("c", "shop", tier="web"))
    async with watching(world, "&labelSelector=tier%3Dweb", PODS_PATH) as events:
        assert seen(await events.next()) == ("ADDED", "member1", "a")
        await world.create("member2", pod("d", tier="web"))
        assert seen(await events.next()) == ("ADDED", "member2", "d")
    async with watching(world, path="/api/v1/watch/namespaces/default/pods/b") as events:
        assert seen(await events.next()) == ("ADDED", "member1", "b")


async def test_only_namespaces_of_registries_are_watched(world: ViewWorld) -> None:
    await world.create("member1", pod("a", "shop"))
    await world.create("member1", pod("b", "bank"))
    world.coverage.become("member2", {})
    world.coverage.become("member1", {PODS: Wanted(PODS, "Pod", frozenset(("bank", "inn")))})
    async with watching(world) as events:
        assert seen(await events.next()) == ("ADDED", "member1", "b")
        await world.create("member1", pod("c", "shop"))
        await world.create("member1", pod("d", "inn"))
        assert seen(await events.next()) == ("ADDED", "member1", "d")


async def test_the_end_of_one_cluster_ends_the_watch(world: ViewWorld) -> None:
    async with watching(world) as events:
        await world.members["member2"].server.stop()
        assert await events.next() == {}


async def test_a_cluster_that_leaves_ends_the_watch(world: ViewWorld) -> None:
    async with watching(world) as events:
        world.coverage.become("member2", {})
        assert await events.next() == {}


async def test_a_cluster_that_comes_ends_the_watch(world: ViewWorld) -> None:
    async with watching(world) as events:
        await world.add_member("member3")
        assert await events.next() == {}
    await world.create("member3", pod("a"))
    async with watching(world) as events:
        assert seen(await events.next()) == ("ADDED", "member3", "a")


async def test_a_watch_ends_after_its_time(world: ViewWorld) -> None:
    async with watching(world, "&timeoutSeconds=1") as events:
        assert await events.next() == {}


async def test_initial_events_end_once_for_all_clusters(world: ViewWorld) -> None:
    await world.create("member1", pod("a"))
    await world.create("member2", pod("b"))
    query = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with watching(world, query) as events:
        found = await events.some(3)
        assert sorted(map(seen, found[:2])) == [("ADDED", "member1", "a"), ("ADDED", "member2", "b")]
        assert found[2]["type"] == "BOOKMARK"
        assert found[2]["object"]["kind"] == "Pod"
        metadata = found[2]["object"]["metadata"]
        assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert sorted(read_version(metadata["resourceVersion"]).clusters) == ["member1", "member2"]


async def test_tables_are_watched(world: ViewWorld) -> None:
    await world.create("member1", pod("a"))
    async with watching(world, Accept=TABLE) as events:
        first = await events.next()
        assert first["object"]["kind"] == "Table"
        assert first["object"]["rows"][0]["cells"][0] == "a"
        assert first["object"]["columnDefinitions"]
        await world.create("member2", pod("b"))
        second = await events.next()
        assert not second["object"]["columnDefinitions"]
        assert second["object"]["rows"][0]["object"]["metadata"]["annotations"][CACHED_FROM] == "member2"


@pytest.mark.parametrize("away", ["member1", "member2"])
async def test_a_watch_that_cannot_begin_is_refused(world: ViewWorld, away: str) -> None:
    await world.members[away].server.stop()
    refused = await world.get("/api/v1/pods?watch=true", status=503)
    assert away in refused["message"]


async def test_watches_of_all_clients_open_none_in_members(world: ViewWorld) -> None:
    async with watching(world) as one, watching(world) as two:
        assert world.carried.count == 0
        await world.create("member1", pod("a"))
        assert seen(await one.next()) == seen(await two.next()) == ("ADDED", "member1", "a")


async def test_fields_that_members_test_are_watched_there(world: ViewWorld) -> None:
    async with watching(world, "&fieldSelector=status.phase!%3DFailed") as events:
        assert world.carried.count == 2
        await world.create("member1", pod("a"))
        assert seen(await events.next()) == ("ADDED", "member1", "a")


async def test_watches_of_a_client_that_left_end_in_members(world: ViewWorld) -> None:
    async with watching(world, "&fieldSelector=status.phase!%3DFailed"):
        assert world.carried.count == 2
    # The next event shows that the client has gone.
    await world.create("member1", pod("a"))
    await eventually(lambda: world.carried.count == 0)
