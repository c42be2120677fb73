"""Answers of members that break off, and clusters that leave in between: callers are told, and nothing is traced."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from schemas.events.cluster import ClusterRemoved
from tests.integration.gateway.member_plane import CLUSTERS, MemberPlane, member_plane
from tests.support.waiting import eventually

PODS = "/api/v1/namespaces/default/pods"
WATCH = f"{PODS}?watch=true"
ROOT = {"Authorization": "Bearer root"}


@pytest.fixture
async def plane(tmp_path: Path, start_gateway: Any, caplog: pytest.LogCaptureFixture) -> AsyncIterator[MemberPlane]:
    async with member_plane(tmp_path, start_gateway, member_answer_seconds=2.0) as made:
        yield made
        limits = made.gateway.api.members._limits
        await eventually(lambda: limits.under_way == 0, "the requests for members to end")
    # What members and callers break off happens every day: it must not fill the logs with traces.
    assert [
        record.getMessage() for record in caplog.records if record.exc_info and record.levelno >= logging.ERROR
    ] == []


async def last_event(watch: aiohttp.ClientResponse) -> dict[str, Any]:
    """The event behind the first, with which the watch ends in good order."""
    assert json.loads(await watch.content.readline()) == {"n": "1"}
    lines = (await watch.content.read()).splitlines()
    assert len(lines) == 1
    event: dict[str, Any] = json.loads(lines[0])
    assert (event["type"], event["object"]["kind"]) == ("ERROR", "Status")
    return event


async def read_until_broken(plane: MemberPlane, path: str) -> None:
    """Read an answer whose member breaks off, if not by itself then after its first bytes."""
    async with plane.session.get(plane.url("raw", path), headers=ROOT) as answer:
        await answer.content.readany()
        if path.startswith(WATCH):
            await plane.raw.close()
        await answer.read()


@pytest.mark.parametrize("path", ["/torn", "/stall", f"{WATCH}&half=true"])
async def test_what_breaks_off_is_not_taken_for_whole(plane: MemberPlane, path: str) -> None:
    with pytest.raises(aiohttp.ClientError):
        await read_until_broken(plane, path)
    assert (await plane.ask("real", "/version"))[0] == 200


async def test_a_watch_that_breaks_off_says_why(plane: MemberPlane) -> None:
    async with plane.session.get(plane.url("raw", WATCH), headers=ROOT) as watch:
        await eventually(lambda: plane.raw.heard, "the watch in the member")
        await plane.raw.close()
        event = await last_event(watch)
    assert "cluster raw broke off" in event["object"]["message"]


async def test_a_watch_of_a_cluster_that_leaves_says_why(plane: MemberPlane, writer: Any) -> None:
    async with (
        plane.session.get(plane.url("raw", WATCH), headers=ROOT) as watch,
        plane.session.get(plane.url("real", WATCH), headers=ROOT) as other,
    ):
        await eventually(lambda: plane.raw.heard, "the watch in the member")
        await writer.append(ClusterRemoved(name="raw", uid="u"))
        event = await last_event(watch)
        assert event["object"]["message"].startswith("cluster raw is no member any more")
        await eventually(plane.raw.ended.is_set, "the end of the watch in the member")
        # The other cluster is still watched.
        pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        await plane.member.local.create("v1", "pods", pod)
        assert json.loads(await other.content.readline())["type"] == "ADDED"


@pytest.mark.parametrize("path", ["/hang", f"{PODS}/p/log/hang"])
async def test_a_cluster_that_leaves_unanswered_is_named(plane: MemberPlane, writer: Any, path: str) -> None:
    asking = asyncio.create_task(plane.ask("raw", path))
    await eventually(lambda: plane.raw.heard, "the request in the member")
    await writer.append(ClusterRemoved(name="raw", uid="u"))
    code, status = await asking
    assert (code, status["reason"], status["details"]["name"]) == (404, "NotFound", "raw")
    assert "cluster raw is no member any more" in status["message"]


async def test_a_log_without_end_stops_with_its_cluster(plane: MemberPlane, writer: Any) -> None:
    async with plane.session.get(plane.url("raw", f"{PODS}/p/log/endless"), headers=ROOT) as log:
        await log.content.read(100_000)
        await writer.append(ClusterRemoved(name="raw", uid="u"))
        # Nothing is read of it: the member needs not wait for that.
        await eventually(plane.raw.ended.is_set, "the end of the log in the member")
        with pytest.raises(aiohttp.ClientError):
            await log.content.read()


async def test_an_upload_that_breaks_off_is_not_whole_there(plane: MemberPlane) -> None:
    _, connection = await asyncio.open_connection("127.0.0.1", int(plane.base.rpartition(":")[2]))
    lines = [f"POST {CLUSTERS}/raw/proxy/version HTTP/1.1", "Host: x", "Authorization: Bearer root"]
    connection.write("\r\n".join([*lines, "Content-Length: 5000000", "", ""]).encode() + b"x" * 100_000)
    limits = plane.gateway.api.members._limits
    await eventually(lambda: limits.under_way == 1, "the request at the gateway")
    connection.transport.abort()
    await eventually(plane.raw.ended.is_set, "the end of the request in the member")
    assert plane.raw.heard == []
