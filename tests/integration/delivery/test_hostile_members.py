"""A member that answers garbage gets its objects soon after it is in order; one that invents objects takes no room.

Every kind of garbage is told to the client and the reflector in tests/unit/kit/test_hostile_{client,watch}.py.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from services._rules.constants import LABEL_TRUE, MANAGED_LABEL
from tests.integration.delivery.conftest import Member
from tests.integration.delivery.hostile_front import config_map, front
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("mode", ["html_200", "refuse_401"])
async def test_delivery_goes_on_soon_after_a_member_is_in_order(
    member: Member, fresh_name: str, tmp_path: Path, mode: str
) -> None:
    await member.namespace(fresh_name)
    async with front(member, tmp_path) as ground:
        await ground.delivered(ground.give(config_map(fresh_name, "a", "1")))
        ground.server.turn(mode)
        ground.server.cut()
        keys = [ground.give(config_map(fresh_name, name, "2")) for name in ("a", "b")]
        before = len(ground.server.requests)
        await eventually(lambda: len(ground.server.requests) > before + 8)
        ground.server.heal()
        began = asyncio.get_running_loop().time()
        for key in keys:
            await ground.delivered(key)
        assert asyncio.get_running_loop().time() - began < 60.0
        assert (await member.live(config_map(fresh_name, "b", "")))["data"] == {"text": "2"}


async def test_writes_alone_may_be_answered_with_garbage(member: Member, fresh_name: str, tmp_path: Path) -> None:
    await member.namespace(fresh_name)
    async with front(member, tmp_path) as ground:
        await ground.delivered(ground.give(config_map(fresh_name, "a", "1")))
        ground.server.turn("html_200", "write")
        before = len(ground.server.asked("write"))
        key = ground.give(config_map(fresh_name, "a", "2"))
        event = await ground.desk.until(key, lambda event: bool(event.reason))
        assert not event.applied
        await eventually(lambda: ground.lane._turns.failures(key) >= 4, "failures in a row, after which pauses grow")
        assert len(ground.server.asked("write")) - before <= ground.lane._turns.failures(key) + 1
        ground.server.heal()
        await ground.delivered(key)


async def test_a_kind_that_cannot_be_listed_holds_up_no_other(member: Member, fresh_name: str, tmp_path: Path) -> None:
    await member.namespace(fresh_name)
    async with front(member, tmp_path) as ground:
        place = {"namespace": fresh_name}
        ground.server.turn("html_200", "list", paths=("/serviceaccounts",))
        accounts = [
            ground.give({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": f"s{n}", **place}})
            for n in range(40)
        ]
        await ground.delivered(ground.give(config_map(fresh_name, "a", "1")))
        await ground.desk.until(accounts[0], lambda event: "cannot be listed" in event.message)
        ground.server.heal()
        for key in accounts:
            await ground.delivered(key)


async def test_objects_without_works_are_not_cached(member: Member, fresh_name: str, tmp_path: Path) -> None:
    await member.namespace(fresh_name)
    labels = {MANAGED_LABEL: LABEL_TRUE}
    for number in range(30):
        manifest = config_map(fresh_name, f"other{number}", "x")
        manifest["metadata"]["labels"] = labels
        await member.client.create(f"/api/v1/namespaces/{fresh_name}/configmaps", manifest)
    async with front(member, tmp_path) as ground:
        await ground.delivered(ground.give(config_map(fresh_name, "ours", "1")))
        kept = await ground.kinds.of("v1", "ConfigMap")
        assert list(kept.live) == [(fresh_name, "ours")]
        late = config_map(fresh_name, "other7", "2")
        late["metadata"]["annotations"] = {"work.karmada.io/conflict-resolution": "overwrite"}
        await ground.delivered(ground.give(late))
        assert (await member.live(late))["data"] == {"text": "2"}


async def test_what_does_not_fit_is_read_when_it_is_compared(member: Member, fresh_name: str, tmp_path: Path) -> None:
    await member.namespace(fresh_name)
    async with front(member, tmp_path) as ground:
        large = [config_map(fresh_name, f"large{number}", "x" * 40_000) for number in range(6)]
        for manifest in large:
            await ground.delivered(ground.give(manifest))
        kept = await ground.kinds.of("v1", "ConfigMap")
        assert len(kept.live) < 6
        assert ground.kinds.cache.used <= ground.kinds.cache.most
        for number, manifest in enumerate(large):
            manifest["data"]["text"] = f"{number}"
            await ground.delivered(ground.give(manifest))
            assert (await member.live(manifest))["data"] == {"text": f"{number}"}
        await eventually(lambda: len(kept.live) == 6)
        for manifest in large:
            key = ground.desk.give(manifest)
            ground.desk.withdraw(key)
            ground.lane.look_at(key)
            await ground.desk.until(key, lambda event: event.absent)
