"""Watches that share one feed: complete from every version on, exact for every selector, ended at every gap."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest

from services.search.index import change_history
from services.search.index.change_history import ChangeHistory
from services.search.proxying import feed_watches, kind_watches, shared_feed
from services.search.proxying.shared_feed import Late, SharedFeed
from services.search.registries.wanted_kinds import Wanted
from services.search.union.version_map import VersionMap, read_version
from tests.support.feed_world import MAPS, PATH, FeedWorld, feed_world
from tests.support.waiting import PATIENCE, eventually
from tests.support.watching import Watching, told, versions

World = tuple[FeedWorld, aiohttp.ClientSession]
Place = tuple[str, str]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with feed_world() as made:
        yield made


@asynccontextmanager
async def watching(world: World, query: str = "", path: str = PATH, **headers: str) -> AsyncIterator[Watching]:
    made, session = world
    async with session.get(f"{made.url}{path}?watch=true{query}", headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        yield Watching(answer)


async def refused(world: World, query: str, **headers: str) -> dict[str, Any]:
    made, session = world
    async with session.get(f"{made.url}{PATH}?watch=true{query}", headers=headers) as answer:
        assert answer.status >= 400
        return await answer.json()


def version(event: dict[str, Any]) -> str:
    return str(event["object"]["metadata"]["resourceVersion"])


def since(event: dict[str, Any]) -> str:
    return f"&resourceVersion={version(event)}"


def now(world: World) -> str:
    """The query for what comes from now on."""
    versions = {cluster: str(number) for cluster, number in world[0].shelf.history.versions.items()}
    return f"&resourceVersion={VersionMap(versions).text()}"


def taken(state: dict[Place, str], events: list[dict[str, Any]]) -> dict[Place, str]:
    """What a client has after some events."""
    for event in events:
        change, cluster, name = told(event)
        if change == "DELETED":
            del state[cluster, name]
        else:
            state[cluster, name] = json.dumps(event["object"]["data"])
    return state


@pytest.mark.parametrize("seed", range(3))
async def test_watch_from_any_event_on_misses_nothing(world: World, seed: int) -> None:
    draw, made = random.Random(seed), world[0]
    there: set[Place] = set()

    def change() -> None:
        cluster, name = draw.choice(made.clusters), draw.choice("abcdefgh")
        if (cluster, name) in there and draw.random() < 0.3:
            made.drop(cluster, name)
            there.discard((cluster, name))
        else:
            made.put(cluster, name, x=str(draw.random()))
            there.add((cluster, name))

    async with watching(world, now(world)) as first:
        for _ in range(120):
            change()
            if draw.random() < 0.2:
                await asyncio.sleep(0)
        events = await first.some(120)
        final = taken({}, events)
        assert final.keys() == there
        for place in draw.sample(range(120), 6):
            state = taken({}, events[: place + 1])
            async with watching(world, since(events[place])) as later:
                found = await later.some(119 - place)
                assert [told(event) for event in found] == [told(event) for event in events[place + 1 :]]
                assert taken(state, found) == final
                assert not found or versions(found[-1]) == versions(events[-1])
    async with watching(world) as fresh:
        assert {told(event)[1:] for event in await fresh.some(len(there))} == there


async def test_equal_watches_are_read_and_encoded_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world[0]
    encoded: list[str] = []
    plain = SharedFeed.object
    monkeypatch.setattr(
        SharedFeed, "object", lambda self, cluster, *rest: encoded.append(cluster) or plain(self, cluster, *rest)
    )
    async with (
        watching(world, now(world)) as one,
        watching(world, now(world)) as two,
        watching(world, now(world)) as three,
    ):
        assert len(made.members.requests) == len(made.clusters), "one question for rights in each member"
        for number in range(10):
            made.put("member1", f"m{number}")
        found = [await each.some(10) for each in (one, two, three)]
    assert found[0] == found[1] == found[2]
    assert len(encoded) == 10
    await eventually(lambda: made.shelf.audience is None, "nobody watches any more")


async def test_objects_come_and_go_by_their_labels(world: World) -> None:
    made = world[0]
    made.put("member1", "old", {"tier": "web"})
    async with watching(world, now(world) + "&labelSelector=tier%3Dweb") as events:
        made.put("member0", "a", {"tier": "db"})
        made.put("member0", "a", {"tier": "web"}, x="1")
        made.put("member0", "a", {"tier": "web"}, x="2")
        made.put("member0", "a", {"tier": "db"}, x="3")
        made.put("member1", "old", {"tier": "db"})
        made.put("member2", "b", {"tier": "web"})
        made.drop("member2", "b")
        found = await events.some(6)
    assert [told(event) for event in found] == [
        ("ADDED", "member0", "a"),
        ("MODIFIED", "member0", "a"),
        ("DELETED", "member0", "a"),
        ("DELETED", "member1", "old"),
        ("ADDED", "member2", "b"),
        ("DELETED", "member2", "b"),
    ]
    assert found[2]["object"]["data"] == {"x": "2"}, "the last state that was meant"


async def test_names_and_namespaces_are_selected(world: World) -> None:
    made = world[0]
    path = PATH.replace("/configmaps", "/namespaces/default/configmaps")
    async with (
        watching(world, now(world) + "&fieldSelector=metadata.name%3Db") as named,
        watching(world, now(world), path) as placed,
        watching(world, now(world), path.replace("default", "shop")) as elsewhere,
    ):
        made.put("member0", "a")
        made.put("member1", "b")
        assert told(await named.next()) == ("ADDED", "member1", "b")
        assert [told(event)[2] for event in await placed.some(2)] == ["a", "b"]
        made.coverage.become("member2", {})
        assert await elsewhere.next() == {}


async def test_version_that_is_too_old_is_refused(world: World) -> None:
    old = VersionMap(dict.fromkeys(world[0].clusters, "1")).text()
    found = await refused(world, f"&resourceVersion={old}")
    assert (found["code"], found["reason"]) == (410, "Expired")
    assert "member0" in found["message"]


async def test_what_is_listed_already_is_not_told_again(world: World) -> None:
    made = world[0]
    # The client's list was read in the member: it is ahead of what search has read.
    ahead = {**{name: str(number) for name, number in made.shelf.history.versions.items()}}
    listed = int(ahead["member1"]) + 2
    async with watching(world, f"&resourceVersion={VersionMap({**ahead, 'member1': str(listed)}).text()}") as events:
        assert made.put("member1", "one") < listed
        assert made.put("member1", "two") == listed
        made.put("member0", "other")
        made.put("member1", "three")
        assert [told(event)[2] for event in await events.some(2)] == ["other", "three"]


async def test_initial_events_end_with_a_bookmark(world: World) -> None:
    made = world[0]
    made.put("member0", "a")
    made.put("member2", "b")
    query = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with watching(world, query) as events:
        first, second, end = await events.some(3)
        assert {told(first)[2], told(second)[2]} == {"a", "b"}
        assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert dict(read_version(version(end)).clusters) == {
            name: str(number) for name, number in made.shelf.history.versions.items()
        }
        made.put("member1", "c")
        assert told(await events.next()) == ("ADDED", "member1", "c")


async def test_bookmarks_keep_quiet_members_young(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world[0]
    monkeypatch.setattr(shared_feed, "BOOKMARK_SECONDS", 0.0)
    start = now(world)
    async with watching(world, start + "&allowWatchBookmarks=true") as events, watching(world, start) as without:
        reached = made.reach("member2")
        mark = await events.next()
        assert (mark["type"], mark["object"]["kind"]) == ("BOOKMARK", "ConfigMap")
        assert read_version(version(mark)).of("member2") == str(reached)
        made.put("member0", "a")
        assert told(await events.next()) == told(await without.next()) == ("ADDED", "member0", "a")


@pytest.mark.parametrize("what", ["listed", "silent", "gone"])
async def test_gaps_of_a_member_end_every_watch(world: World, what: str) -> None:
    made = world[0]
    start = now(world)
    async with watching(world, start) as one, watching(world, start + "&labelSelector=a%3Db") as other:
        match what:
            case "listed":
                made.list("member1", "other")
            case "silent":
                made.shelf.fell_silent("member1", "it does not answer")
            case _:
                made.index.remove(MAPS, "member1")
        assert await one.next() == await other.next() == {}
    if what == "listed":
        assert (await refused(world, start))["code"] == 410
        async with watching(world, now(world)) as again:
            made.put("member1", "x")
            assert told(await again.next()) == ("ADDED", "member1", "x")


async def test_silent_member_is_asked_before_a_watch_begins(world: World) -> None:
    made = world[0]
    async with watching(world, now(world)):
        pass
    asked = len(made.members.requests)
    async with watching(world, now(world)):
        assert len(made.members.requests) == asked, "what was permitted holds for a while"
    made.shelf.fell_silent("member1", "it does not answer")
    async with watching(world, now(world)):
        assert [request.cluster for request in made.members.requests[asked:]] == ["member1"]


async def test_every_caller_and_selector_is_permitted_by_itself(world: World) -> None:
    made = world[0]
    async with watching(world, now(world)), watching(world, now(world), User="tom"):
        assert {request.user for request in made.members.requests} == {"ann", "tom"}
    async with watching(world, now(world) + "&labelSelector=a%3Db"):
        assert len(made.members.requests) == 3 * len(made.clusters)
        assert "labelSelector=a%3Db" in made.members.requests[-1].path


async def test_slow_client_is_told_that_it_is_too_late(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world[0]
    async with watching(world, now(world)) as events:
        made.put("member0", "a")
        assert told(await events.next()) == ("ADDED", "member0", "a")
        monkeypatch.setattr(shared_feed, "WINDOW_LINES", 4)
        # Before the client has a turn there is more than is kept for it.
        for number in range(20):
            made.put("member0", f"m{number}")
        error = await events.next()
        assert (error["type"], error["object"]["code"], error["object"]["reason"]) == ("ERROR", 410, "Expired")
        assert await events.next() == {}


async def test_client_that_takes_nothing_is_cut_off(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world[0]
    monkeypatch.setattr(feed_watches, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(shared_feed, "WINDOW_LINES", 50)
    url = made.url.removeprefix("http://")
    host, _, port = url.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
    writer.write(f"GET {PATH}?watch=true{now(world)} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert b"200" in await reader.readline()
    await eventually(lambda: made.shelf.audience is not None)
    numbers = itertools.count()

    def full() -> bool:
        for _ in range(10):
            made.put("member0", f"m{next(numbers) % 100}", x="y" * 20_000)
        return made.shelf.audience is None

    await eventually(full, "the watch ended")
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def test_tables_are_rendered_for_each_client(world: World) -> None:
    made = world[0]
    table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    async with watching(world, now(world), Accept=table) as one:
        made.put("member0", "a")
        first = await one.next()
        async with watching(world, now(world), Accept=table) as two:
            made.put("member1", "b")
            assert first["object"]["columnDefinitions"]
            assert not (await one.next())["object"]["columnDefinitions"]
            assert (await two.next())["object"]["columnDefinitions"]


async def test_member_that_comes_is_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world[0]
    monkeypatch.setattr(kind_watches, "READY_SECONDS", PATIENCE)
    made.index.remove(MAPS, "member2")

    async def first() -> tuple[str, str, str]:
        async with watching(world) as events:
            return told(await events.next())

    watch = asyncio.create_task(first())
    await eventually(lambda: made.proxy.limits.under_way)
    made.list("member2", "late")
    assert await watch == ("ADDED", "member2", "late")
    assert len(made.members.requests) == len(made.clusters), "no watch was opened in members"


async def test_only_namespaces_of_registries_are_told(world: World) -> None:
    made = world[0]
    for cluster, namespaces in (("member0", ("shop",)), ("member1", ("bank", "default"))):
        made.coverage.become(cluster, {MAPS: Wanted(MAPS, "ConfigMap", frozenset(namespaces))})
    made.coverage.become("member2", {})
    async with watching(world, now(world)) as events:
        made.put("member0", "a")
        made.put("member1", "b")
        assert told(await events.next()) == ("ADDED", "member1", "b")
        made.coverage.become("member1", {})
        assert await events.next() == {}


def test_history_forgets_the_oldest_and_knows_it() -> None:
    history = ChangeHistory(most_entries=8)
    world = FeedWorld(1)
    world.shelf.history = history
    world.list("member0")
    start = history.versions["member0"]
    for number in range(20):
        world.put("member0", f"m{number}")
    with pytest.raises(change_history.TooOld, match="member0"):
        history.since({"member0": start})
    last = history.versions["member0"]
    assert [entry.key for entry in history.since({"member0": last - 2})] == ["default/m18", "default/m19"]
    assert history.since({"member0": last}) == []


async def test_feed_keeps_no_more_than_its_window(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world[0]
    monkeypatch.setattr(shared_feed, "WINDOW_LINES", 16)
    feed = SharedFeed(made.shelf, "ConfigMap")
    for number in range(100):
        made.put("member0", f"m{number}")
    assert feed.head - feed.first <= 16
    with pytest.raises(Late):
        feed.changes(0, 10)
    feed.close()
