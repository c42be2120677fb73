"""Writes through the global proxy reach the one cluster that has the object, with the versions that it knows."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator

import pytest

from services.search.union.provenance_marks import CACHED_FROM
from services.search.union.version_map import VersionMap
from tests.support.view_world import PREFIX, ViewWorld, config_map
from tests.support.waiting import eventually

MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"


async def in_member(world: ViewWorld, member: str, name: str = "a") -> dict:
    """The object as its member has it."""
    return await world.members[member].client.get(f"{MAPS}/{name}")


async def test_an_object_that_was_read_can_be_written_back(world: ViewWorld) -> None:
    await world.create("member1", config_map("b"))
    await world.create("member2", config_map("a", x="1"))
    found = await world.get(f"{MAPS}/a")
    written = await world.ask("PUT", f"{MAPS}/a", {**found, "data": {"x": "2"}})
    stored = await in_member(world, "member2")
    assert stored["data"] == {"x": "2"}
    assert CACHED_FROM not in json.dumps(stored)
    assert written["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    again = await world.ask("PUT", f"{MAPS}/a", {**written, "data": {"x": "3"}})
    assert again["data"] == {"x": "3"}, "versions of the member itself are taken, too"
    refused = await world.ask("PUT", f"{MAPS}/a", {**found, "data": {"x": "4"}}, status=409)
    assert "object has been modified" in refused["message"]


async def test_an_object_of_another_cluster_is_not_overwritten(world: ViewWorld) -> None:
    await world.create("member2", config_map("a", x="1"))
    version = VersionMap({"member1": "5"}).text()
    body = config_map("a", x="2")
    body["metadata"]["resourceVersion"] = version
    refused = await world.ask("PUT", f"{MAPS}/a", body, status=409)
    assert "the object is in cluster member2 now" in refused["message"]
    assert (await in_member(world, "member2"))["data"] == {"x": "1"}


@pytest.mark.parametrize("media", ["application/yaml", "application/vnd.kubernetes.protobuf", "text/plain; a=b"])
async def test_objects_are_written_as_json_only(world: ViewWorld, media: str) -> None:
    await world.create("member1", config_map("a"))
    found = await world.get(f"{MAPS}/a")
    for spelling in ("application/json; charset=utf-8", "Application/JSON"):
        await world.ask("PUT", f"{MAPS}/a", {**found, "data": {"x": "1"}}, content_type=spelling)
        found = await world.get(f"{MAPS}/a")
    refused = await world.ask("PUT", f"{MAPS}/a", {**found, "data": {"x": "2"}}, status=415, content_type=media)
    assert (refused["reason"], refused["code"]) == ("UnsupportedMediaType", 415)
    assert media.partition(";")[0] in refused["message"]
    assert (await in_member(world, "member1"))["data"] == {"x": "1"}


async def test_patches_and_deletions_reach_the_cluster(world: ViewWorld) -> None:
    await world.create("member2", config_map("a", x="1"))
    path = f"{MAPS}/a"
    patched = await world.ask("PATCH", path, {"metadata": {"labels": {"l": "m"}}}, content_type=MERGE)
    assert patched["metadata"]["labels"] == {"l": "m"}
    assert (await in_member(world, "member2"))["metadata"]["labels"] == {"l": "m"}
    await world.ask("DELETE", path)

    async def gone() -> bool:
        return not (await world.get(MAPS))["items"]

    await eventually(gone)


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize("announced", [True, False])
async def test_too_large_a_body_is_refused(world: ViewWorld, method: str, announced: bool) -> None:
    await world.create("member1", config_map("a"))

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b"x" * 65536

    body = io.BytesIO(b"x" * (4 << 20)) if announced else pieces()
    headers = {"Content-Type": "application/json"}
    async with world.session.request(method, f"{world.url}{PREFIX}{MAPS}/a", data=body, headers=headers) as answer:
        assert answer.status == 413
        assert (await answer.json())["kind"] == "Status"
