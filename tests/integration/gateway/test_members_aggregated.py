"""Members behind an API server that keeps Clusters to itself, as a kube-apiserver does: by the group of bindings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from services._kit.kube.client import KubeClient, resource_path
from services.apiserver.core.delegated_resources import ANNOTATION
from services.cli.common.running import Failed
from services.cli.installation.gateway_setup import member_access
from services.cli.members.clusters import CLUSTERS, THROUGH, door_to_members, members
from tests.integration.gateway.member_plane import MemberPlane, grant, member_plane
from tests.support.waiting import eventually

SERVICES = resource_path("apiregistration.k8s.io", "v1", "apiservices")
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def plane(tmp_path: Path, start_gateway: Any) -> AsyncIterator[MemberPlane]:
    async with member_plane(tmp_path, start_gateway) as made:
        for version in ("v1alpha1", "v1alpha2"):
            await made.control.local.patch(
                "apiregistration.k8s.io/v1",
                "apiservices",
                "",
                f"{version}.work.karmada.io",
                {"metadata": {"annotations": {ANNOTATION: None}}},
            )
        for item in member_access():
            plural = "clusterroles" if item["kind"] == "ClusterRole" else "clusterrolebindings"
            await made.control.local.create(item["apiVersion"], plural, item)

        async def kept() -> bool:
            return (await made.ask("raw", "/version"))[0] == 404

        await eventually(kept, "the API server to keep Clusters to itself")
        made.clusters = THROUGH
        made.raw.heard.clear()
        yield made


@pytest.fixture
async def admin(plane: MemberPlane) -> AsyncIterator[KubeClient]:
    client = KubeClient(plane.control.url, ssl_context=None, headers={"Authorization": "Bearer root"})
    yield client
    await client.close()


async def test_commands_find_the_way(plane: MemberPlane, admin: KubeClient) -> None:
    (member,) = await members(admin, ["real"])
    assert (await member.client.get(MAPS))["kind"] == "ConfigMapList"
    assert await door_to_members(admin) == THROUGH


async def test_the_right_way_is_told_where_the_gateway_does_not_answer(plane: MemberPlane, admin: KubeClient) -> None:
    await admin.request("DELETE", f"{SERVICES}/v1alpha2.work.karmada.io")

    async def gone() -> bool:
        return (await plane.ask("raw", "/version"))[0] == 404

    await eventually(gone, "the API server to forget the gateway")
    with pytest.raises(Failed, match=r"kubectl get apiservice v1alpha2\.work\.karmada\.io"):
        await members(admin, ["real"])


async def test_the_right_to_the_cluster_decides(plane: MemberPlane) -> None:
    code, found = await plane.ask("raw", "/version", "jane")
    assert code == 403
    assert "does not allow jane to get clusters/proxy of raw" in found["message"]
    # What opens the path at the API server opens no member.
    await grant(plane.control.local, "jane", {"apiGroups": ["work.karmada.io"], "resources": ["*"], "verbs": ["*"]})
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
        assert (await plane.ask("raw", "/version", "jane", method))[0] == 403, method
    assert (await plane.ask("*", "/version", "jane"))[0] == 403
    assert not plane.raw.heard
    await plane.allow("jane", "raw", verbs=("get",))
    assert (await plane.ask("raw", "/version", "jane"))[0] == 200
    assert (await plane.ask("raw", "/version", "jane", "POST"))[0] == 403
    assert (await plane.ask("real", "/version", "jane"))[0] == 403
    (heard,) = plane.raw.heard
    assert heard.values("Impersonate-User") == ["jane"]


async def test_the_usual_way_stays_where_it_is_served(tmp_path: Path, start_gateway: Any) -> None:
    async with member_plane(tmp_path, start_gateway) as made:
        client = KubeClient(made.control.url, ssl_context=None, headers={"Authorization": "Bearer root"})
        try:
            assert await door_to_members(client) == CLUSTERS
        finally:
            await client.close()
