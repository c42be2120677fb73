"""A client whose guard lets nothing through: reads go on, what changes something waits or is never sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from services._kit.base.log_errors import FenceLost
from services._kit.kube.client import KubeClient, NotLeading, Unreachable
from tests.support.endpoints import answering


class Gate:
    """A guard that a test opens, or shuts for good."""

    def __init__(self) -> None:
        self.holds = False
        self.over = False
        self.waiting = asyncio.Event()
        self.moved = asyncio.Event()

    async def wait(self) -> None:
        self.waiting.set()
        while not self.holds:
            if self.over:
                raise FenceLost(0, "another instance leads")
            await self.moved.wait()
            self.moved.clear()


class Endpoint:
    """Counts the requests that reached it."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.seen.append(request.method)
        return web.json_response({})


@pytest.fixture
async def endpoint() -> AsyncIterator[tuple[Endpoint, KubeClient, Gate]]:
    made, gate = Endpoint(), Gate()
    async with answering(made.answer) as client:
        client.guard = gate
        yield made, client, gate


async def test_reads_need_no_leadership(endpoint: tuple[Endpoint, KubeClient, Gate]) -> None:
    made, client, _ = endpoint
    await client.get("/version")
    assert made.seen == ["GET"]


async def test_a_write_waits_until_it_may_be_sent(endpoint: tuple[Endpoint, KubeClient, Gate]) -> None:
    made, client, gate = endpoint
    writing = asyncio.create_task(client.patch("/x", {}))
    await gate.waiting.wait()
    assert made.seen == []
    gate.holds = True
    gate.moved.set()
    await writing
    assert made.seen == ["PATCH"]


async def test_write_is_not_sent_after_the_leader_paused(
    endpoint: tuple[Endpoint, KubeClient, Gate],
) -> None:
    made, client, gate = endpoint
    await client.get("/version")

    class Lapsing(Gate):
        """Holds when it is asked for the first times, and no more when the bytes are to be written."""

        asked = 0

        @property
        def holds(self) -> bool:  # type: ignore[override]
            self.asked += 1
            return self.asked <= 2

        @holds.setter
        def holds(self, value: bool) -> None:
            return

    client.guard = lapsing = Lapsing()
    with pytest.raises(Unreachable, match="not sent"):
        await client.patch("/x", {})
    assert lapsing.asked == 3
    assert made.seen == ["GET"]
    client.guard = gate


async def test_a_write_of_a_leader_that_was_replaced_is_never_sent(
    endpoint: tuple[Endpoint, KubeClient, Gate],
) -> None:
    made, client, gate = endpoint
    writing = asyncio.create_task(client.delete("/x"))
    await gate.waiting.wait()
    gate.over = True
    gate.moved.set()
    with pytest.raises(NotLeading, match="another instance leads"):
        await writing
    assert made.seen == []
