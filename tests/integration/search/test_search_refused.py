"""What members forbid search to read stands in the status of the registries that select it, until it is permitted."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.manifest import Manifest
from services._kit.base.pacing import Backoff
from services._kit.kube import list_watch
from services._kit.kube.client import resource_path
from services._rules.kubernetes.rbac.role_index import GROUP
from services.apiserver.core.request_context import Identity
from services.search.followers import kind_follower
from services.search.registries.refused_reads import CONDITION
from tests.integration.search.conftest import REGISTRIES, Ground, Member, registry
from tests.support.waiting import eventually

CONFIG_MAP = ("v1", "ConfigMap")
DEPLOYMENT = ("apps/v1", "Deployment")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind_follower, "_FORBIDDEN", Backoff(0.01, 0.01, (1.0, 1.0)))
    monkeypatch.setattr(list_watch, "_BACKOFF", Backoff(0.01, 0.01, (1.0, 1.0)))


async def permit(member: Member, verbs: list[str], *resources: str) -> None:
    """Let search use these verbs; a role for each call."""
    assert member.server is not None
    local = member.server.local
    metadata = {"name": f"search-{'-'.join([*verbs, *resources])}"}
    rules = [{"apiGroups": ["", "apps"], "resources": list(resources), "verbs": verbs}]
    await local.create(f"{GROUP}/v1", "clusterroles", {"metadata": metadata, "rules": rules})
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": metadata["name"]}
    subjects = [{"apiGroup": GROUP, "kind": "User", "name": "search"}]
    binding = {"metadata": metadata, "roleRef": reference, "subjects": subjects}
    await local.create(f"{GROUP}/v1", "clusterrolebindings", binding)


async def condition(ground: Ground, name: str) -> Manifest | None:
    found = await ground.control.get(f"{REGISTRIES}/{name}")
    conditions = (found.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == CONDITION), None)


async def comes(ground: Ground, name: str, status: str) -> Manifest:
    """Wait for the condition of a registry."""

    async def look() -> Any:
        found = await condition(ground, name)
        return found if found is not None and found["status"] == status else None

    await eventually(look, f"{CONDITION} of {name} is {status}")
    found = await condition(ground, name)
    assert found is not None
    return found


async def versions(ground: Ground) -> dict[str, str]:
    items = (await ground.control.get(REGISTRIES))["items"]
    return {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in items}


async def test_a_forbidden_kind_is_told_until_it_is_permitted(ground: Ground) -> None:
    await ground.join("m1")
    member = await ground.join("m2", user=Identity("search"))
    await ground.control.create(REGISTRIES, registry("maps", CONFIG_MAP))
    await ground.control.create(REGISTRIES, registry("first", CONFIG_MAP, clusters=("m1",)))
    await permit(member, ["list"], "deployments")
    await permit(member, ["watch"], "deployments")
    await ground.control.create(REGISTRIES, registry("apps", DEPLOYMENT))
    await ground.begin()
    said = await comes(ground, "maps", "False")
    assert said["reason"] == "ForbiddenByMembers"
    assert said["message"].startswith(
        'search may not read in m2: v1/configmaps (configmaps is forbidden: User "search"'
    )

    # It is asked again and again, which changes nothing.
    before, follower = await versions(ground), ground.search._followers["m2"][1]
    (kind,) = [one for gvr, one in follower._kinds.items() if gvr.resource == "configmaps"]
    refusals = kind._refusals
    await eventually(lambda: kind._refusals > refusals + 5, "it is asked again")
    # What may be listed and not watched is forbidden as well.
    await permit(member, ["list"], "configmaps")
    await eventually(lambda: kind.synced and "watch" in kind.forbidden, "the watch is refused")
    await eventually(lambda: _has(ground, "cannot watch"), "that is told")
    after = await versions(ground)
    assert {name for name in after if after[name] != before[name]} == {"maps"}

    await permit(member, ["watch"], "configmaps")
    said = await comes(ground, "maps", "True")
    assert said["message"] == "members let search read what this registry selects"
    for name in ("first", "apps"):
        assert await condition(ground, name) is None

    async def events() -> set[tuple[str, str, str]]:
        found = (await ground.control.get(resource_path("", "v1", "events", "default")))["items"]
        return {(one["type"], one["reason"], one["involvedObject"]["name"]) for one in found}

    told = {("Warning", "ForbiddenByMembers", "maps"), ("Normal", "Readable", "maps")}

    async def all_told() -> bool:
        return await events() == told

    await eventually(all_told, "Events about both")


async def _has(ground: Ground, text: str) -> bool:
    found = await condition(ground, "maps")
    return found is not None and text in found["message"]
