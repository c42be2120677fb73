"""What a member says is not what it did: deletions that were not done, objects that are said to be gone and are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from schemas.manifest import Manifest
from services._kit.base.pacing import EXACT, Backoff
from services._kit.delivery import lane as lanes
from services._kit.delivery import member_connection
from services._kit.kube.client import ApiError, KubeClient
from services._rules.delivery.observations import FAILED
from tests.integration.delivery.conftest import Member
from tests.integration.delivery.hostile_front import Front, config_map, front
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses of a test."""
    monkeypatch.setattr(lanes, "_GONE", Backoff(0.2, 3.2, EXACT))
    monkeypatch.setattr(member_connection, "QUIET_SECONDS", 0.3)
    monkeypatch.setattr(member_connection, "LONGEST_SECONDS", 3.0)


async def is_gone(member: Member, manifest: Manifest) -> bool:
    try:
        await member.live(manifest)
    except ApiError as error:
        return error.status == 404
    return False


def withdraw(ground: Front, key: Any) -> None:
    ground.desk.withdraw(key)
    ground.lane.look_at(key)


@pytest.mark.parametrize("mode", ["success_untrue", "other_object", "wrong_types", "html_404"])
async def test_an_answer_to_a_deletion_does_not_prove_it(
    member: Member, fresh_name: str, tmp_path: Path, mode: str
) -> None:
    await member.namespace(fresh_name)
    manifest = config_map(fresh_name, "a", "1")
    async with front(member, tmp_path) as ground:
        await ground.delivered(key := ground.give(manifest))
        ground.server.turn(mode, "write")
        withdraw(ground, key)
        await eventually(lambda: len(ground.server.asked("write")) >= 3)
        assert not ground.desk.latest[key].absent
        assert not await is_gone(member, manifest)
        ground.server.heal()
        await ground.desk.until(key, lambda event: event.absent)
        assert await is_gone(member, manifest)


async def test_a_refused_deletion_is_reported_with_the_reason(
    member: Member, fresh_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await member.namespace(fresh_name)
    manifest = config_map(fresh_name, "a", "1")
    async with front(member, tmp_path) as ground:
        await ground.delivered(key := ground.give(manifest))

        async def refused(*_: Any, **__: Any) -> None:
            raise ApiError(403, "Forbidden", "protected by a policy of this cluster")

        monkeypatch.setattr(KubeClient, "delete", refused)
        withdraw(ground, key)
        event = await ground.desk.until(key, lambda event: event.reason == FAILED)
        assert (event.applied, event.absent) == (True, False)
        assert "protected by a policy of this cluster" in event.message
        monkeypatch.undo()
        await ground.desk.until(key, lambda event: event.absent)


async def test_object_back_after_its_withdrawal_is_removed(member: Member, fresh_name: str, tmp_path: Path) -> None:
    """The watch said that it was deleted, which was untrue; then the member answered garbage, and is sane now."""
    await member.namespace(fresh_name)
    manifest = config_map(fresh_name, "a", "1")
    async with front(member, tmp_path) as ground:
        await ground.delivered(key := ground.give(manifest))
        live = await member.live(manifest)
        kept = await ground.kinds.of("v1", "ConfigMap")
        kept.live.drop((fresh_name, "a"))
        withdraw(ground, key)
        await ground.desk.until(key, lambda event: event.absent)
        assert (await member.live(manifest))["metadata"]["uid"] == live["metadata"]["uid"]
        ground.server.turn("wrong_types", "write")
        ground.give(config_map(fresh_name, "b", "1"))
        await eventually(lambda: len(ground.server.asked("write")) >= 2)
        ground.server.heal()
        await eventually(lambda: is_gone(member, manifest))


@pytest.mark.parametrize("kinds", [("discovery",), ("discovery", "list", "read")])
async def test_a_member_that_names_no_kinds_has_lost_nothing(
    member: Member, fresh_name: str, tmp_path: Path, kinds: tuple[str, ...]
) -> None:
    await member.namespace(fresh_name)
    manifest = config_map(fresh_name, "a", "1")
    async with front(member, tmp_path) as ground:
        await ground.delivered(ground.give(manifest))
    async with front(member, tmp_path) as ground:
        ground.server.turn("empty_list", *kinds)
        key = ground.desk.give(manifest)
        withdraw(ground, key)
        await eventually(lambda: len(ground.server.asked("discovery")) >= 3)
        assert key not in ground.desk.latest
        ground.server.heal()
        await ground.desk.until(key, lambda event: event.absent)
        assert await is_gone(member, manifest)


async def test_empty_list_without_identity_proves_no_removal(member: Member, fresh_name: str, tmp_path: Path) -> None:
    await member.namespace(fresh_name)
    uid = (await member.client.get("/api/v1/namespaces/kube-system"))["metadata"]["uid"]
    manifest = config_map(fresh_name, "a", "1")
    async with front(member, tmp_path, identity=uid) as ground:
        await ground.delivered(key := ground.give(manifest))
        ground.server.turn("empty_list", "list")
        kept = await ground.kinds.of("v1", "ConfigMap")
        asked = len(ground.server.asked("list"))
        kept.list_again()
        await eventually(lambda: len(ground.server.asked("list")) >= asked + 3)
        withdraw(ground, key)
        assert not ground.desk.latest[key].absent
        assert (fresh_name, "a") in kept.live
        ground.server.heal()
        await ground.desk.until(key, lambda event: event.absent)
        assert await is_gone(member, manifest)
