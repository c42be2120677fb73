"""A control plane whose answers are garbage for a while: the detector says so, and then hears everything again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from schemas.keys import ObjectKey
from services._kit.base.health import Health
from services._kit.concurrency.supervision import Supervisor
from services._kit.kube.client import KubeClient, resource_path
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.detector.kind_watch import Watching
from services.detector.state import DetectorState, Key
from tests.support.hostile_server import HostileServer, hostile_server
from tests.support.serving import api_server
from tests.support.waiting import eventually

CONFIG_MAPS = resource_path("", "v1", "configmaps", "default")
BACK_SECONDS = 60.0
"""A sixth of it is enough on a machine with nothing else to do."""


class Ground:
    """A detector's watches, behind a proxy that can be made to lie."""

    def __init__(self, client: KubeClient, proxy: HostileServer, seen: KubeClient, health: Health) -> None:
        self.client = client
        self.proxy = proxy
        self.health = health
        self.state = DetectorState()
        self.watching = Watching(seen, self.state, self._mark, period=0.2)
        health.check("watches", lambda: self.watching.trouble)

    def _mark(self, keys: Iterable[Key]) -> None:
        return

    async def hears(self, name: str) -> None:
        """Whether an object that is created now is known soon."""
        await self.client.create(CONFIG_MAPS, {"metadata": {"name": name}})
        async with asyncio.timeout(BACK_SECONDS):
            await eventually(lambda: ObjectKey("", "configmaps", "default", name) in self.state.templates)


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Ground]:
    """Watches that have listed everything."""
    async with AsyncExitStack() as stack:
        client, server, _ = await api_server(stack, tmp_path, builtin_registry(), "root")
        proxy = await stack.enter_async_context(hostile_server(server.url))
        seen = KubeClient.from_token(proxy.url, "root")
        stack.push_async_callback(seen.close)
        health = Health()
        await stack.enter_async_context(Supervisor(health))
        made = Ground(client, proxy, seen, health)
        made.watching.start()
        stack.push_async_callback(made.watching.stop)
        await made.hears("before")
        yield made


@pytest.mark.parametrize("mode", ["html_200", "refuse_500"])
async def test_a_control_plane_without_answers_shows_and_is_got_over(ground: Ground, mode: str) -> None:
    ground.proxy.turn(mode)
    ground.proxy.cut()
    # Neither a watch nor a list nor discovery can be read.
    await eventually(lambda: ground.health.reasons().get("watches", "").startswith("no usable answer for"))
    ground.proxy.heal()
    await ground.hears("after")
    await eventually(lambda: ground.health.ready)
