"""A connection to a member stays open while nothing is written there, and its end is noticed before the next write."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from services._kit.delivery import member_connection
from services._kit.delivery.member_connection import MemberConnection
from services._kit.kube.client import KubeClient
from tests.support.waiting import eventually

OFTEN = 0.05


class Cluster:
    """Answers /version; `refuses` is the status of its refusals, 0 for none."""

    def __init__(self) -> None:
        self.refuses = 0
        self.asked = 0
        self.connections: Counter[tuple[str, int]] = Counter()
        self.mute = False

    async def answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        assert request.transport is not None
        self.connections[request.transport.get_extra_info("peername")] += 1
        if self.mute:
            request.transport.abort()
        if self.refuses:
            return web.json_response({"kind": "Status", "code": self.refuses}, status=self.refuses)
        return web.json_response({"major": "1"})


@asynccontextmanager
async def connected(cluster: Cluster) -> AsyncIterator[MemberConnection]:
    """A connection that is up."""
    application = web.Application()
    application.router.add_get("/version", cluster.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    (host, port) = runner.addresses[0][:2]

    async def open_client() -> KubeClient:
        return KubeClient.from_token(f"http://{host}:{port}", "")

    connection = MemberConnection("m1", open_client, lambda: "", lambda client, gate: None, lambda: None, 0.1)
    connection.start()
    try:
        await eventually(connection.up.is_set, "the first answer")
        yield connection
    finally:
        await connection.close()
        await runner.cleanup()


@pytest.mark.parametrize("refuses", [0, 403, 429])
async def test_a_connection_at_rest_stays_open(monkeypatch: pytest.MonkeyPatch, refuses: int) -> None:
    monkeypatch.setattr(member_connection, "WARM_SECONDS", OFTEN)
    cluster = Cluster()
    async with connected(cluster) as connection:
        cluster.refuses = refuses
        await eventually(lambda: cluster.asked >= 5, "requests while nothing is written")
        assert len(cluster.connections) == 1
        assert connection.up.is_set()
        assert connection.interruptions == 0


async def test_a_cluster_that_went_away_at_rest_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_connection, "WARM_SECONDS", OFTEN)
    cluster = Cluster()
    async with connected(cluster) as connection:
        cluster.mute = True
        await eventually(lambda: connection.trouble, "the trouble")
        assert connection.interruptions == 1
        cluster.mute = False
        await eventually(connection.up.is_set, "the cluster again")
