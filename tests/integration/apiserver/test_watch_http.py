"""Watches over HTTP: order, selectors, expiry, bookmarks, forms."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from services.apiserver.reads import watch_requests as reading
from services.apiserver.server import ApiServer
from services.apiserver.store.object_index import Bucket

CM = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"


def config(name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels or {}}, "data": {}}


@asynccontextmanager
async def watching(client: Any, query: str, **headers: str) -> AsyncIterator[Any]:
    url = f"{client.server.url}{CM}?watch=1&{query}"
    async with client.session.get(url, headers={k.replace("_", "-"): v for k, v in headers.items()}) as response:
        assert response.status == 200

        async def read() -> Any:
            line = await asyncio.wait_for(response.content.readline(), 60)
            return json.loads(line) if line else None

        yield read


async def test_events_come_in_order_with_their_revisions(client: Any, server: ApiServer) -> None:
    async with watching(client, f"resourceVersion={server.store.revision}") as read:
        _, made = await client("POST", CM, config("a"))
        _, changed = await client("PATCH", f"{CM}/a", {"data": {"x": "1"}}, media=MERGE)
        await client("DELETE", f"{CM}/a")
        events = [await read() for _ in range(3)]
    assert [e["type"] for e in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events[0]["object"] == made
    assert events[1]["object"] == changed
    assert events[2]["object"]["data"] == {"x": "1"}
    assert int(events[2]["object"]["metadata"]["resourceVersion"]) == server.store.revision


async def test_entering_and_leaving_a_selector_are_added_and_deleted(client: Any, server: ApiServer) -> None:
    await client("POST", CM, config("a"))
    async with watching(client, f"resourceVersion={server.store.revision}&labelSelector=s%3Dyes") as read:
        for value in ("yes", "no", "yes"):
            await client("PATCH", f"{CM}/a", {"metadata": {"labels": {"s": value}}}, media=MERGE)
        await client("PATCH", f"{CM}/a", {"data": {"x": "1"}}, media=MERGE)
        await client("DELETE", f"{CM}/a")
        events = [await read() for _ in range(5)]
    assert [e["type"] for e in events] == ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]
    assert events[1]["object"]["metadata"]["labels"] == {"s": "yes"}
    revisions = [int(e["object"]["metadata"]["resourceVersion"]) for e in events]
    assert revisions == sorted(set(revisions))


async def test_list_then_watch_misses_and_repeats_nothing_in_a_storm(client: Any, server: ApiServer) -> None:
    async def write(prefix: str) -> None:
        for i in range(60):
            await client("POST", CM, config(f"{prefix}-{i}"))

    writers = [asyncio.create_task(write(p)) for p in "abc"]
    await asyncio.sleep(0)
    cursor = server.store.watch("", "configmaps", 0)
    count = 0
    while count < 30:
        count += len(await cursor.next(10))
    _, listed = await client("GET", CM)
    seen = [i["metadata"]["name"] for i in listed["items"]]
    async with watching(client, f"resourceVersion={listed['metadata']['resourceVersion']}") as read:
        while len(seen) < 180:
            event = await read()
            assert event["type"] == "ADDED"
            seen.append(event["object"]["metadata"]["name"])
    await asyncio.gather(*writers)
    assert len(set(seen)) == len(seen)


async def test_a_revision_below_the_floor_is_410_for_watch_and_list(client: Any, server: ApiServer) -> None:
    _, made = await client("POST", CM, config("a"))
    old = made["metadata"]["resourceVersion"]
    await client("PATCH", f"{CM}/a", {"data": {"x": "1"}}, media=MERGE)
    bucket: Bucket = server.store.bucket("", "configmaps")  # type: ignore[attr-defined]
    bucket.forget_before(server.store.revision)
    async with watching(client, f"resourceVersion={old}") as read:
        event = await read()
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
        assert await read() is None
    code, status = await client("GET", f"{CM}?resourceVersion={old}&resourceVersionMatch=Exact")
    assert (code, status["reason"]) == (410, "Expired")


async def test_without_a_revision_the_present_comes_first(client: Any) -> None:
    await client("POST", CM, config("a"))
    async with watching(client, "timeoutSeconds=30") as read:
        assert (await read())["object"]["metadata"]["name"] == "a"
        await client("POST", CM, config("b"))
        assert (await read())["object"]["metadata"]["name"] == "b"


async def test_a_streaming_list_ends_with_a_marked_bookmark(client: Any) -> None:
    await client("POST", CM, config("a"))
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with watching(client, query) as read:
        assert (await read())["type"] == "ADDED"
        mark = await read()
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_bookmark_moves_an_idle_watch_forward(client: Any, server: ApiServer, monkeypatch: Any) -> None:
    monkeypatch.setattr(reading, "TICK_SECONDS", 0.01)
    monkeypatch.setattr(reading, "BOOKMARK_SECONDS", 0.0)
    async with watching(client, f"resourceVersion={server.store.revision}&allowWatchBookmarks=true") as read:
        await client("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "other"}})
        mark = await read()
    assert mark["type"] == "BOOKMARK"
    assert int(mark["object"]["metadata"]["resourceVersion"]) == server.store.revision


async def test_a_table_watch_has_its_columns_once(client: Any, server: ApiServer) -> None:
    form = "application/json;as=Table;v=v1;g=meta.k8s.io"
    async with watching(client, f"resourceVersion={server.store.revision}", Accept=form) as read:
        await client("POST", CM, config("a"))
        await client("POST", CM, config("b"))
        first, second = await read(), await read()
    assert first["object"]["kind"] == "Table"
    assert first["object"]["columnDefinitions"][0]["name"] == "Name"
    assert second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][0] == "b"


async def test_watchers_share_one_encoding(client: Any, server: ApiServer) -> None:
    cursor = server.store.watch("", "configmaps", server.store.revision)
    async with watching(client, "resourceVersion=1") as one, watching(client, "resourceVersion=1") as two:
        await client("POST", CM, config("shared"))
        (event,) = await cursor.next(5)
        while (await one())["object"]["metadata"]["name"] != "shared":
            pass
        while (await two())["object"]["metadata"]["name"] != "shared":
            pass
        assert event.frames is not None
        assert len(event.frames) == 1


async def test_without_initial_events_a_watch_begins_now(client: Any) -> None:
    await client("POST", CM, config("a"))
    async with watching(client, "sendInitialEvents=false&resourceVersionMatch=NotOlderThan") as read:
        await client("POST", CM, config("b"))
        assert (await read())["object"]["metadata"]["name"] == "b"


async def test_large_events_reach_a_watch_in_several_writes(client: Any, server: ApiServer, monkeypatch: Any) -> None:
    monkeypatch.setattr(reading, "CHUNK_BYTES", 10)
    revision = server.store.revision
    for name in "abc":
        await client("POST", CM, config(name))
    async with watching(client, f"resourceVersion={revision}") as read:
        assert [(await read())["object"]["metadata"]["name"] for _ in "abc"] == list("abc")


async def test_what_a_watch_is_refused_for(client: Any, server: ApiServer) -> None:
    future = f"resourceVersion={server.store.revision + 9}"
    initial = f"{future}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    assert (await client("GET", f"{CM}?watch=1&{initial}"))[0] == 504
    assert (await client("GET", f"{CM}?watch=1&resourceVersion=abc"))[0] == 400
    code, answer = await client("GET", f"{CM}?watch=1", Accept="application/yaml")
    assert (code, "stream=watch" in str(answer)) == (406, True)
    named = CM.replace("/api/v1/", "/api/v1/watch/") + "/a?timeoutSeconds=1&fieldSelector=metadata.name="
    assert (await client("GET", f"{named}b"))[0] == 400
    assert (await client("GET", f"{named}a"))[0] == 200


async def test_reads_of_one_object(client: Any, server: ApiServer) -> None:
    await client("POST", CM, config("a"))
    assert (await client("GET", f"{CM}/a?resourceVersion={server.store.revision}"))[0] == 200
    code, answer = await client("GET", f"{CM}/a?resourceVersion={server.store.revision + 1}")
    assert (code, answer["reason"], answer["details"]["retryAfterSeconds"]) == (504, "Timeout", 1)
    assert (await client("GET", f"{CM}/a?resourceVersion=abc"))[0] == 400
    assert (await client("HEAD", f"{CM}/a"))[0] == 405
    for agent, query, lines in (("curl/8", "", True), ("curl/8", "?pretty=0", False), ("x", "?pretty=T", True)):
        url = f"{server.url}{CM}/a{query}"
        async with client.session.get(url, headers={"User-Agent": agent}) as response:
            assert (b"\n  " in await response.read()) == lines
