"""Members through the gateway of a control plane that does not know it, which is asked who asks and whether it may."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from services._kit.kube.client import ApiError, KubeClient
from services.cli.members.clusters import door_to_members, proxy_path
from tests.integration.gateway.conftest import TOKEN
from tests.integration.gateway.member_plane import MemberPlane, member_plane


@pytest.fixture
async def plane(tmp_path: Path, start_gateway: Any) -> AsyncIterator[MemberPlane]:
    async with member_plane(tmp_path, start_gateway, outside=True) as made:
        yield made


async def test_the_installation_token_has_the_rights_of_its_user(plane: MemberPlane) -> None:
    assert (await plane.ask("raw", "/version", TOKEN))[0] == 403
    await plane.allow("alice", "raw")
    assert (await plane.ask("raw", "/version", TOKEN))[0] == 200
    assert plane.raw.heard[-1].values("Impersonate-User") == ["alice"]
    assert (await plane.ask("raw", "/version", TOKEN, Impersonate_User="root"))[0] == 403


async def test_commands_reach_members_at_the_gateway(plane: MemberPlane) -> None:
    client = KubeClient(plane.base, ssl_context=None, headers={"Authorization": "Bearer jane"})
    try:
        path = proxy_path("real", await door_to_members(client))
        with pytest.raises(ApiError, match="does not allow you to get clusters"):
            await client.get(f"{path}/version")
        await plane.allow("jane", "real", verbs=("get",))
        assert "gitVersion" in await client.get(f"{path}/version")
    finally:
        await client.close()
