"""A member that answers garbage, too much, or as another one keeps its last good objects, and disturbs no other."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from schemas.manifest import Manifest
from services._kit.kube.client import resource_path
from tests.integration.search.conftest import REGISTRIES, Ground, registry
from tests.support.hostile_server import HostileServer, hostile_server
from tests.support.waiting import eventually

CONFIG_MAPS = resource_path("", "v1", "configmaps", "default")
MAPS = "api/v1/namespaces/default/configmaps"
GOOD = [("evil", "one"), ("good", "one")]


def config_map(name: str) -> Manifest:
    return {"metadata": {"name": name}}


@pytest.fixture
async def hostile(ground: Ground) -> AsyncIterator[HostileServer]:
    """A member behind a proxy that turns hostile, beside a good one."""
    await ground.begin(kind_bytes=100_000)
    member = await ground.join("evil")
    await ground.clients["evil"].create(CONFIG_MAPS, config_map("one"))
    await ground.join("good")
    await ground.clients["good"].create(CONFIG_MAPS, config_map("one"))
    async with hostile_server(member.url) as server:
        await ground.tell("evil", url=server.url)
        await ground.control.create(REGISTRIES, registry("all", ("v1", "ConfigMap")))
        await ground.shows(MAPS, GOOD)
        yield server


async def test_bad_answers_take_nothing_away(ground: Ground, hostile: HostileServer) -> None:
    hostile.turn("html_404")
    await ground.clients["good"].create(CONFIG_MAPS, config_map("two"))
    await ground.shows(MAPS, [*GOOD, ("good", "two")])
    await ground.clients["evil"].create(CONFIG_MAPS, config_map("late"))
    hostile.heal()
    await ground.shows(MAPS, [("evil", "late"), *GOOD, ("good", "two")])


async def test_kind_that_takes_too_much_is_bounded(ground: Ground, hostile: HostileServer) -> None:
    for number in range(300):
        await ground.clients["evil"].create(CONFIG_MAPS, config_map(f"many-{number}"))
    follower = ground.search._followers["evil"][1]
    await eventually(lambda: follower.refused or follower.troubles, "the bound is told")
    assert ground.search.index.bytes < 300_000
    assert ("good", "one") in await ground.places(MAPS)
