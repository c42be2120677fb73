"""Another API server at the control plane's address takes nothing away, and neither does an older state of it."""

from __future__ import annotations

from pathlib import Path
from time import time

from services._kit.identity.identity_reading import read_identity
from services.cli.installation.install_crds import apply_definitions, needed_definitions
from tests.integration.identity.ground import ground
from tests.support.waiting import eventually


async def test_another_api_server_at_the_address_takes_nothing_away(tmp_path: Path) -> None:
    async with ground(tmp_path) as (made, control, member):
        before = await member.held()
        other = await made.endpoint()
        await apply_definitions(other.client, needed_definitions())
        made.lead("control", other)
        made.proxy.cut()
        held, _ = await made.until_held(lambda held: held.count >= 11)
        assert held.reason == "IdentityChanged"
        assert held.identity == await other.uid()
        assert held.expected == await control.uid()
        await made.until_held(lambda held: held.kinds == {"clusters.cluster.karmada.io": 1}, "clusters")
        assert await member.held() == before
        assert await made.losses() == []
        assert not made.runners["detector"].health.ready
        made.lead("control", control)
        made.proxy.cut()
        await made.until_released()
        await made.until_released("clusters")
        await control.make("late")

        async def delivered() -> bool:
            return "late" in await member.held()

        await eventually(delivered, "a new object")
        after = await member.held()
        assert {name: after[name] for name in before} == before
        assert await made.losses() == []


async def test_deletions_of_another_api_server_are_not_ours(tmp_path: Path) -> None:
    async with ground(tmp_path) as (made, control, member):
        before = await member.held()
        other = await made.endpoint()
        await apply_definitions(other.client, needed_definitions())
        await other.client.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        await other.make(*before)
        # Its revision is ahead, so that it takes the versions that watches go on from.
        while (await read_identity(other.client)).revision < (await read_identity(control.client)).revision + 50:
            await other.client.patch("/api/v1/namespaces/shop", {"metadata": {"annotations": {"at": str(time())}}})
        made.lead("control", other)
        made.proxy.cut()
        for name in before:
            await other.client.delete(f"/api/v1/namespaces/shop/configmaps/{name}")
        await other.client.delete("/api/v1/namespaces/shop")
        held, _ = await made.until_held(lambda held: held.kinds.get("configmaps", 0) >= 10)
        assert held.reason == "IdentityChanged"
        assert await made.losses() == []
        assert await member.held() == before
