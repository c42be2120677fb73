"""Logs, exec and the like go through the global proxy to the pod's one cluster, as bytes in both directions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import WSMsgType, web

from tests.support.endpoints import served
from tests.support.view_world import PREFIX, ViewWorld, pod, view_world
from tests.support.waiting import PATIENCE, eventually

POD = "/api/v1/namespaces/default/pods/a"


class Kubelet:
    """Stands before a member and answers what concerns containers, as a kubelet behind it would."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str, str]] = []
        self.more = asyncio.Event()
        self.left = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Logs of any length; an exec that echoes."""
        user = request.headers.get("Impersonate-User", "")
        self.asked.append((request.method, request.path, request.query_string, user))
        if request.path.endswith("/log"):
            return await self._log(request)
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        async for message in socket:
            if message.type is WSMsgType.BINARY:
                await socket.send_bytes(b"\x01" + message.data[1:])
        return socket

    async def _log(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        await response.write(b"first\n")
        try:
            if "follow" in request.query:
                await self.more.wait()
            await response.write(b"last\n")
            while "endless" in request.query:
                await response.write(b"y" * 65536)
        except ConnectionError:
            self.left.set()
        return response


@pytest.fixture
async def kubelet() -> Kubelet:
    return Kubelet()


@pytest.fixture
async def world(tmp_path: Path, kubelet: Kubelet) -> AsyncIterator[ViewWorld]:
    async with view_world(tmp_path, "member1", "member2") as made, served(kubelet.answer) as url:
        await made.create("member2", pod("a"))
        made.address_of("member2", url)
        yield made


async def test_logs_are_followed_in_the_cluster_of_the_pod(world: ViewWorld, kubelet: Kubelet) -> None:
    async with world.session.get(f"{world.url}{PREFIX}{POD}/log?follow=true&container=main") as answer:
        assert await answer.content.readline() == b"first\n"
        kubelet.more.set()
        assert await answer.content.readline() == b"last\n"
    assert kubelet.asked == [("GET", f"{POD}/log", "follow=true&container=main", "admin")]


async def test_a_reader_that_leaves_ends_endless_logs(world: ViewWorld, kubelet: Kubelet) -> None:
    async with world.session.get(f"{world.url}{PREFIX}{POD}/log?endless=1") as answer:
        await answer.content.readexactly(1 << 20)
        answer.close()
    async with asyncio.timeout(PATIENCE):
        await kubelet.left.wait()
    await eventually(lambda: world.carried.count == 0)


@pytest.mark.parametrize("subresource", ["exec?command=sh&stdin=true", "attach?stdin=true", "portforward?ports=80"])
async def test_connections_switch_and_carry_bytes(world: ViewWorld, kubelet: Kubelet, subresource: str) -> None:
    url = f"{world.url}{PREFIX}{POD}/{subresource}"
    async with world.session.ws_connect(url, protocols=("v5.channel.k8s.io",)) as socket:
        assert socket.protocol == "v5.channel.k8s.io"
        for number in range(20):
            await socket.send_bytes(b"\x00" + bytes([number]) * 50_000)
            assert await socket.receive_bytes() == b"\x01" + bytes([number]) * 50_000
    assert kubelet.asked[0][3] == "admin"
    await eventually(lambda: world.carried.count == 0)
