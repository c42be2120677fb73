"""What every namespace has of the server: a default ServiceAccount and the certificate authority, and pods a token."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from schemas.manifest import Manifest
from services._rules.policies.skip_rules import ROOT_CA, STANDING_LABEL
from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    made = ApiServer(MemoryStore(), builtin_registry(), Settings(data_dir=tmp_path, service_accounts=True))
    await made.start()
    yield made
    await made.stop()


async def until(server: ApiServer, plural: str, namespace: str, name: str, uid: str = "") -> Manifest:
    """The object once it exists with another uid."""
    async with asyncio.timeout(60):
        async for word, obj in server.local.watch("v1", plural, namespace, name=name):
            if word != "DELETED" and obj["metadata"]["uid"] != uid:
                return dict(obj)
    raise AssertionError("the watch ended")


async def namespace(server: ApiServer, name: str) -> None:
    await server.local.create("v1", "namespaces", {"metadata": {"name": name}})
    await until(server, "serviceaccounts", name, "default")


async def test_namespaces_get_an_account_and_the_authority(server: ApiServer) -> None:
    assert server.authority is not None
    await namespace(server, "team")
    for place in ("team", "default", "kube-system"):
        found = await until(server, "configmaps", place, ROOT_CA)
        assert found["data"] == {"ca.crt": server.authority.ca_pem.decode()}


async def test_both_come_back_as_they_were(server: ApiServer) -> None:
    await namespace(server, "team")
    for plural, name in (("serviceaccounts", "default"), ("configmaps", ROOT_CA)):
        before = await until(server, plural, "team", name)
        await server.local.delete("v1", plural, "team", name)
        await until(server, plural, "team", name, before["metadata"]["uid"])
    revision = server.local.revision
    await server.local.patch("v1", "configmaps", "team", ROOT_CA, {"data": {"ca.crt": "x"}})
    changes = server.local.watch("v1", "configmaps", "team", revision=revision)
    assert [(await anext(changes))[1]["data"]["ca.crt"] == "x" for _ in range(2)] == [True, False]


async def test_an_account_with_content_is_no_longer_standing(server: ApiServer) -> None:
    await namespace(server, "team")
    revision = server.local.revision
    await server.local.patch("v1", "serviceaccounts", "team", "default", {"imagePullSecrets": [{"name": "r"}]})
    changes = server.local.watch("v1", "serviceaccounts", "team", revision=revision)
    labels = [(await anext(changes))[1]["metadata"].get("labels") for _ in range(2)]
    assert labels == [{STANDING_LABEL: "true"}, None]


async def test_a_deleted_namespace_gets_nothing_again(server: ApiServer) -> None:
    await namespace(server, "team")
    revision = server.local.revision
    await server.local.delete("v1", "namespaces", "", "team")
    async for word, obj in server.local.watch("v1", "namespaces", revision=revision):
        if word == "DELETED" and obj["metadata"]["name"] == "team":
            break
    assert server.local.list("v1", "serviceaccounts", "team") == []


def pod(name: str, **spec: Any) -> Manifest:
    containers = [{"name": "c", "image": "i"}]
    return {"metadata": {"name": name, "namespace": "team"}, "spec": {"containers": containers, **spec}}


async def test_pods_get_the_account_and_its_token(server: ApiServer) -> None:
    await namespace(server, "team")
    spec = (await server.local.create("v1", "pods", pod("a", initContainers=[{"name": "i", "image": "i"}])))["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    sources = volume["projected"]["sources"]
    assert [next(iter(one)) for one in sources] == ["serviceAccountToken", "configMap", "downwardAPI"]
    assert sources[1]["configMap"]["name"] == ROOT_CA
    path = "/var/run/secrets/kubernetes.io/serviceaccount"
    wanted = [{"name": volume["name"], "readOnly": True, "mountPath": path}]
    assert [one["volumeMounts"] for one in (*spec["containers"], *spec["initContainers"])] == [wanted, wanted]


async def test_pods_without_a_token_are_left_as_they_are(server: ApiServer) -> None:
    await namespace(server, "team")
    meta = {"name": "quiet", "namespace": "team"}
    quiet = {"metadata": meta, "automountServiceAccountToken": False, "imagePullSecrets": [{"name": "r"}]}
    await server.local.create("v1", "serviceaccounts", quiet)
    by_account = (await server.local.create("v1", "pods", pod("a", serviceAccountName="quiet")))["spec"]
    assert ("volumes" in by_account, by_account["imagePullSecrets"]) == (False, [{"name": "r"}])
    by_pod = (await server.local.create("v1", "pods", pod("b", automountServiceAccountToken=False)))["spec"]
    assert "volumes" not in by_pod
    told = pod("c", serviceAccountName="quiet", automountServiceAccountToken=True)
    assert (await server.local.create("v1", "pods", told))["spec"]["volumes"]


async def test_a_pod_with_an_absent_account_is_refused(server: ApiServer) -> None:
    await namespace(server, "team")
    with pytest.raises(ApiError) as refused:
        await server.local.create("v1", "pods", pod("a", serviceAccountName="x"))
    text = 'pods "a" is forbidden: error looking up service account team/x: serviceaccount "x" not found'
    assert (refused.value.code, refused.value.message) == (403, text)
