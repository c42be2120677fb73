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
from tests.support.hostile_server import HostileServer, hostile_server
from tests.support.view_world import PREFIX, ViewWorld, config_map, pod, view_world
from tests.support.waiting import PATIENCE, eventually, stands_still

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
HASTY = 3.0
"""Seconds for an answer, where a member never gives one; the others answer within that."""
NO_ANSWER = {
    "hang": 504,
    "slow_bytes": 504,
    "endless_body": 502,
    "html_200": 502,
    "wrong_types": 502,
    "wrong_items": 502,
    "deep_nesting": 502,
    "repeated_continue": 502,
    "redirect": 502,
    "refuse_401": 502,
    "refuse_500": 500,
}
"""What a member does, and the code of the answer to a caller."""


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


@pytest.fixture
async def member2(world: ViewWorld) -> AsyncIterator[HostileServer]:
    """Another member, which is not followed."""
    async with hostile_server() as made:
        made.objects[PODS] = []
        world.address_of("member2", made.url)
        yield made


def in_time(*modes: str) -> pytest.MarkDecorator:
    """Each way not to answer, and the time for it."""
    cases = [(HASTY if NO_ANSWER[mode] == 504 else PATIENCE, mode) for mode in modes]
    return pytest.mark.parametrize(("world", "mode"), cases, indirect=["world"], ids=modes)


@in_time(*NO_ANSWER)
async def test_a_list_says_which_member_failed(world: ViewWorld, member2: HostileServer, mode: str) -> None:
    await world.create("member1", config_map("a"))
    member2.turn(mode)
    refused = await world.get(MAPS, status=NO_ANSWER[mode])
    assert refused["kind"] == "Status"
    assert "cluster member2" in refused["message"]
    assert len(refused["message"]) < 3000


@pytest.mark.parametrize(
    ("body", "status"), [({"kind": "PodList", "items": [{"metadata": {"annotations": 1}}]}, 200), ({}, 299)]
)
async def test_odd_marks_and_codes_are_the_failure_of_a_member(world: ViewWorld, body: object, status: int) -> None:
    async with served(saying(body, status)) as url:
        world.address_of("member2", url)
        assert "cluster member2" in (await world.get(MAPS, status=502))["message"]


@in_time("hang", "html_200")
async def test_others_are_read_by_name_beside_it(world: ViewWorld, member2: HostileServer, mode: str) -> None:
    await world.create("member1", config_map("a"))
    member2.turn(mode)
    assert (await world.get(f"{MAPS}/a"))["metadata"]["name"] == "a"
    assert (await world.get(f"{MAPS}/b", status=NO_ANSWER[mode]))["kind"] == "Status"


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
    async with hostile_server() as broken:
        broken.turn("refuse_500")
        world.address_of("member2", broken.url)
        with pytest.raises(aiohttp.ClientError):
            await world.get(MAPS)


def saying(body: object, status: int = 200) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """A member that says the same to everything."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status)

    return answer


async def test_rows_of_odd_objects_are_shown_all_the_same(world: ViewWorld) -> None:
    odd = {"metadata": {"name": "odd"}, "spec": {"containers": 7}, "status": {"podIPs": 1, "containerStatuses": "x"}}
    async with served(saying({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [odd]})) as url:
        world.address_of("member2", url)
        found = await world.get("/api/v1/pods", Accept=TABLE)
    assert found["rows"][0]["cells"][:2] == ["odd", "<invalid>"]


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
        (b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n', ["ERROR"]),
    ],
    ids=["no JSON", "nested deeply", "too long", "too old"],
)
async def test_a_watch_ends_with_what_is_no_event(
    world: ViewWorld, member2: HostileServer, line: bytes, told: list[str]
) -> None:
    watching = asyncio.create_task(watched(world))
    await eventually(lambda: member2.asked("watch"))
    member2.change("ADDED", PODS, pod("b"))
    member2.inject(line)
    member2.change("ADDED", PODS, pod("c"))
    assert await watching == ["ADDED", *told]


@pytest.mark.parametrize("world", [HASTY], indirect=True)
async def test_a_watch_that_hangs_is_refused_in_time(world: ViewWorld, member2: HostileServer) -> None:
    member2.turn("hang")
    assert "member2" in (await world.get(f"{PODS}?watch=true", status=504))["message"]


async def test_a_client_that_does_not_read_holds_its_members_up(world: ViewWorld, member2: HostileServer) -> None:
    await world.create("member1", config_map("a"))
    member2.turn("invented_objects", "watch")
    async with world.session.get(f"{world.url}{PREFIX}{PODS}?watch=true") as answer:
        assert answer.status == 200
        assert await stands_still(lambda: member2.sent, "the member is held up") < 64 << 20
        assert (await world.get(f"{MAPS}/a"))["metadata"]["name"] == "a"
        answer.close()
