"""Members that hang, lie or never end cost their own part of the global proxy, within bounds, and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from services._kit.base import answer_limits
from services.search.proxying import list_answer
from services.search.union.version_map import read_version
from tests.support.endpoints import served
from tests.support.view_world import PREFIX, ViewWorld, config_map, pod, view_world
from tests.support.waiting import PATIENCE, stands_still

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


HASTY = 3.0
"""Seconds for an answer, where a member never gives one; the others answer within that."""


@pytest.fixture
async def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ViewWorld]:
    seconds = getattr(request, "param", PATIENCE)
    limits = answer_limits.Limits(
        answer_seconds=seconds, first_byte_seconds=seconds, answer_bytes=1 << 20, object_bytes=1 << 18
    )
    monkeypatch.setattr(answer_limits, "_in_force", limits)
    async with view_world(tmp_path, "member1") as made:
        yield made


async def hang(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(PATIENCE)
    return web.Response()


async def stall(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(b'{"kind":"ConfigMapList","items":[')
    await asyncio.sleep(PATIENCE)
    return response


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    while request.transport is not None and not request.transport.is_closing():
        await response.write(b" " * 65536)
    return response


def saying(body: object, status: int = 200, **headers: str) -> Handler:
    """A member that says the same to everything."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=raw, status=status, headers=headers, content_type="application/json")

    return answer


async def in_circles(request: web.Request) -> web.StreamResponse:
    return web.json_response({"kind": "ConfigMapList", "metadata": {"continue": "again"}, "items": []})


NO_ANSWER = {
    "hangs": (hang, 504),
    "stalls": (stall, 504),
    "never ends": (endless, 502),
    "is no JSON": (saying(b"<html>"), 502),
    "is no list": (saying({"kind": "Pod"}), 502),
    "has items that are none": (saying({"kind": "PodList", "items": [1]}), 502),
    "has marks that are none": (saying({"kind": "PodList", "items": [{"metadata": {"annotations": 1}}]}), 502),
    "is nested deeply": (saying(b'{"items":[{"metadata":' + b"[" * 100_000), 502),
    "leads in circles": (in_circles, 502),
    "leads elsewhere": (saying({}, 302, Location="http://elsewhere.example/"), 502),
    "refuses the impersonator": (saying({"message": "who are you"}, 401), 502),
    "is broken": (saying({"kind": "Status", "message": "no disk"}, 500), 500),
    "answers with odd codes": (saying({}, 299), 502),
}


def in_time(*ways: str) -> pytest.MarkDecorator:
    """Each way not to answer, and the time for it."""
    cases = [(HASTY if NO_ANSWER[how][0] in (hang, stall) else PATIENCE, how) for how in ways]
    return pytest.mark.parametrize(("world", "how"), cases, indirect=["world"], ids=ways)


@in_time(*NO_ANSWER)
async def test_a_list_says_which_member_failed(world: ViewWorld, how: str) -> None:
    handler, code = NO_ANSWER[how]
    await world.create("member1", config_map("a"))
    async with served(handler) as url:
        world.address_of("member2", url)
        refused = await world.get(MAPS, status=code)
    assert refused["kind"] == "Status"
    assert "cluster member2" in refused["message"]
    assert len(refused["message"]) < 3000


@in_time("hangs", "is no JSON")
async def test_others_are_read_by_name_beside_it(world: ViewWorld, how: str) -> None:
    await world.create("member1", config_map("a"))
    async with served(NO_ANSWER[how][0]) as url:
        world.address_of("member2", url)
        assert (await world.get(f"{MAPS}/a"))["metadata"]["name"] == "a"
        assert (await world.get(f"{MAPS}/b", status=NO_ANSWER[how][1]))["kind"] == "Status"


async def test_pages_of_large_objects_are_asked_for_in_parts(world: ViewWorld) -> None:
    for number in range(24):
        await world.create("member1", config_map(f"m{number:02}", x="y" * 100_000))
    found = await world.get(MAPS)
    assert [item["metadata"]["name"] for item in found["items"]] == [f"m{number:02}" for number in range(24)]


async def test_a_long_list_is_sent_while_it_is_read(world: ViewWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_answer, "KEPT_BYTES", 1000)
    await world.add_member("member3")
    for number in range(4):
        await world.create("member1", config_map(f"a{number}", x="y" * 1000))
        await world.create("member3", config_map(f"b{number}", x="y" * 1000))
    found = await world.get(MAPS)
    assert [item["metadata"]["name"] for item in found["items"]] == [
        *(f"a{n}" for n in range(4)),
        *(f"b{n}" for n in range(4)),
    ]
    assert sorted(read_version(found["metadata"]["resourceVersion"]).clusters) == ["member1", "member3"]
    assert (found["kind"], found["apiVersion"]) == ("ConfigMapList", "v1")
    table = await world.get(MAPS, Accept=TABLE)
    assert len(table["rows"]) == 8
    async with served(NO_ANSWER["is broken"][0]) as url:
        world.address_of("member2", url)
        with pytest.raises(aiohttp.ClientError):
            await world.get(MAPS)


async def test_rows_of_odd_objects_are_shown_all_the_same(world: ViewWorld) -> None:
    odd = {"metadata": {"name": "odd"}, "spec": {"containers": 7}, "status": {"podIPs": 1, "containerStatuses": "x"}}
    async with served(saying({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [odd]})) as url:
        world.address_of("member2", url)
        found = await world.get("/api/v1/pods", Accept=TABLE)
    assert found["rows"][0]["cells"][:2] == ["odd", "<invalid>"]


def watch_of(*lines: object) -> Handler:
    """A member whose watch sends these lines, and then stays silent."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for line in lines:
            await response.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
        await asyncio.sleep(PATIENCE)
        return response

    return answer


async def watched(world: ViewWorld) -> list[str]:
    """The types of the events of a watch until it ends."""
    async with world.session.get(f"{world.url}{PREFIX}/api/v1/pods?watch=true") as answer, asyncio.timeout(PATIENCE):
        assert answer.status == 200
        text = await answer.text()
    return [json.loads(line)["type"] for line in text.splitlines()]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"<html>\n", []),
        (b'{"type":"ADDED","object":' + b"[" * 100_000 + b"\n", []),
        (b"x" * (1 << 19), []),
        ({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}, ["ERROR"]),
    ],
    ids=["no JSON", "nested deeply", "too long", "too old"],
)
async def test_a_watch_ends_with_what_is_no_event(world: ViewWorld, line: object, told: list[str]) -> None:
    added = {"type": "ADDED", "object": pod("b")}
    async with served(watch_of(added, line, added)) as url:
        world.address_of("member2", url)
        assert await watched(world) == ["ADDED", *told]


@pytest.mark.parametrize("world", [HASTY], indirect=True)
async def test_a_watch_that_hangs_is_refused_in_time(world: ViewWorld) -> None:
    async with served(hang) as url:
        world.address_of("member2", url)
        assert "member2" in (await world.get("/api/v1/pods?watch=true", status=504))["message"]


async def test_a_client_that_does_not_read_holds_its_members_up(world: ViewWorld) -> None:
    await world.create("member1", config_map("a"))
    sent = 0

    async def flood(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        line = json.dumps({"type": "ADDED", "object": pod("b", x="y" * 60_000)}).encode() + b"\n"
        while request.transport is not None and not request.transport.is_closing():
            await response.write(line)
            sent += len(line)
        return response

    async with served(flood) as url:
        world.address_of("member2", url)
        async with world.session.get(f"{world.url}{PREFIX}/api/v1/pods?watch=true") as answer:
            assert answer.status == 200
            assert await stands_still(lambda: sent, "the member is held up") < 64 << 20
            assert (await world.get(f"{MAPS}/a"))["metadata"]["name"] == "a"
            answer.close()
