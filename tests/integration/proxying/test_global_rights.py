"""Members decide by their own roles what a caller of the global proxy may read and change there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.search.proxying.view_ports import Caller
from tests.support.view_world import PREFIX, ViewWorld, config_map, view_world
from tests.support.waiting import eventually

MAPS = "/api/v1/namespaces/default/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ViewWorld]:
    async with view_world(tmp_path) as made:
        for name in ("member1", "member2"):
            await made.add_member(name, "RBAC")
        made.callers["tom"] = Caller("tom", ("readers",))
        yield made


async def grant(world: ViewWorld, member: str, subject: str, name: str, *verbs: str) -> None:
    """Let a user or group do something with config maps in a member."""
    client = world.members[member].client
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": list(verbs)}]
    await client.create(f"{RBAC}/clusterroles", {"metadata": {"name": f"{name}-maps"}, "rules": rules})
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": f"{name}-maps"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": f"{name}-maps"},
        "subjects": [{"apiGroup": group, "kind": subject, "name": name}],
    }
    await client.create(f"{RBAC}/clusterrolebindings", binding)


async def test_rights_of_groups_in_every_member_are_enough(world: ViewWorld) -> None:
    await world.create("member2", config_map("a"))
    refused = await world.get(f"{MAPS}/a", status=403, user="tom")
    assert (refused["kind"], refused["reason"]) == ("Status", "Forbidden")
    assert 'User "tom" cannot' in refused["message"]
    await grant(world, "member1", "Group", "readers", "list")
    assert "member2" in (await world.get(MAPS, status=403, user="tom"))["message"]
    await grant(world, "member2", "User", "tom", "list", "get")
    assert [item["metadata"]["name"] for item in (await world.get(MAPS, user="tom"))["items"]] == ["a"]
    assert (await world.get(f"{MAPS}/a", user="tom"))["metadata"]["name"] == "a"


async def test_rights_to_watch_are_asked_in_every_member(world: ViewWorld) -> None:
    await grant(world, "member1", "Group", "readers", "watch")
    assert "member2" in (await world.get(f"{MAPS}?watch=true", status=403, user="tom"))["message"]
    await grant(world, "member2", "User", "tom", "watch")
    query = f"{MAPS}?watch=true&timeoutSeconds=1"

    async def permitted() -> bool:
        url = f"{world.url}{PREFIX}{query}"
        async with world.session.get(url, headers={"Authorization": "Bearer tom"}) as answer:
            return answer.status == 200

    await eventually(permitted, "a refusal is not remembered for long")


async def test_what_is_at_hand_needs_no_rights_in_members(world: ViewWorld) -> None:
    await world.create("member2", config_map("a"))
    found = await world.get(f"{MAPS}?resourceVersion=0", user="tom")
    assert [item["metadata"]["name"] for item in found["items"]] == ["a"]


async def test_identities_in_headers_of_the_caller_count_nowhere(world: ViewWorld) -> None:
    await world.create("member2", config_map("a"))
    posing = {"Impersonate_User": "admin", "Impersonate_Group": "system:masters", "X_Remote_User": "admin"}
    await world.get(MAPS, status=403, user="tom", **posing)
    await world.ask("DELETE", f"{MAPS}/a", status=403, user="tom", **posing)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    found = await world.ask("POST", path, review, status=201, user="tom", **posing)
    caller = found["status"]["userInfo"]
    assert caller["username"] == "tom"
    assert "readers" in caller["groups"]
    assert "system:masters" not in caller["groups"]


async def test_a_caller_has_so_many_requests_under_way(world: ViewWorld) -> None:
    opened = []
    try:
        for _ in range(4):
            url = f"{world.url}/apis/search.karmada.io/v1alpha1/proxying/karmada/proxy{MAPS}?watch=true"
            answer = await world.session.get(url)
            assert answer.status == 200
            opened.append(answer)
        refused = await world.get(f"{MAPS}?watch=true", status=429)
        assert refused["reason"] == "TooManyRequests"
        await world.get(MAPS)
    finally:
        for answer in opened:
            answer.close()
