"""The end of objects: what keeps them, and what goes with them."""

from __future__ import annotations

from typing import Any

import pytest

from services.apiserver.server import ApiServer
from services.apiserver.store.store_port import StoreUnavailable
from tests.integration.apiserver.core_objects import CM, MERGE, config, until_gone


async def test_finalizers_keep_an_object_until_they_are_gone(client: Any) -> None:
    body = config("a") | {"metadata": {"name": "a", "finalizers": ["x.example.com/f"]}}
    await client("POST", CM, body)
    code, left = await client("DELETE", f"{CM}/a")
    assert (code, left["kind"], bool(left["metadata"]["deletionTimestamp"])) == (200, "ConfigMap", True)
    revision = left["metadata"]["resourceVersion"]
    assert (await client("DELETE", f"{CM}/a"))[1]["metadata"]["resourceVersion"] == revision
    assert (await client("PATCH", f"{CM}/a", {"metadata": {"finalizers": None}}, media=MERGE))[0] == 200
    assert (await client("GET", f"{CM}/a"))[0] == 404


async def test_interrupted_deletion_is_finished_by_the_next_one(
    client: Any, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = "/api/v1/namespaces/default/pods"
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}}
    code, made = await client("POST", pods, {"apiVersion": "v1", "kind": "Pod", **pod})
    assert code == 201, made

    async def unavailable(*_: object) -> None:
        raise StoreUnavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(server.store, "delete", unavailable)
        code, _ = await client("DELETE", f"{pods}/p?gracePeriodSeconds=0")
        assert code == 503
    code, left = await client("GET", f"{pods}/p")
    assert (code, left["metadata"]["deletionGracePeriodSeconds"]) == (200, 0)
    await client("DELETE", f"{pods}/p?gracePeriodSeconds=0")
    assert (await client("GET", f"{pods}/p"))[0] == 404


async def test_a_deleted_namespace_takes_its_content_along(client: Any) -> None:
    await client("POST", "/api/v1/namespaces", {"metadata": {"name": "gone"}})
    held = config("held") | {"metadata": {"name": "held", "finalizers": ["x.example.com/f"]}}
    await client("POST", "/api/v1/namespaces/gone/configmaps", held)
    await client("POST", "/api/v1/namespaces/gone/configmaps", config("free"))
    assert (await client("DELETE", "/api/v1/namespaces/gone"))[1]["status"]["phase"] == "Terminating"
    await until_gone(client, "/api/v1/namespaces/gone/configmaps/free")
    code, status = await client("POST", "/api/v1/namespaces/gone/configmaps", config("new"))
    assert (code, status["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    assert (await client("GET", "/api/v1/namespaces/gone"))[0] == 200
    path = "/api/v1/namespaces/gone/configmaps/held"
    await client("PATCH", path, {"metadata": {"finalizers": None}}, media=MERGE)
    await until_gone(client, "/api/v1/namespaces/gone")


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_dependents_go_with_their_owner(client: Any, policy: str) -> None:
    _, owner = await client("POST", CM, config("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    meta = {"name": "child", "ownerReferences": [reference | {"blockOwnerDeletion": True}]}
    await client("POST", CM, config("child") | {"metadata": meta})
    await client("DELETE", f"{CM}/owner", {"propagationPolicy": policy})
    await until_gone(client, f"{CM}/child")
    await until_gone(client, f"{CM}/owner")


async def test_orphaned_dependents_stay_without_the_reference(client: Any) -> None:
    _, owner = await client("POST", CM, config("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    await client("POST", CM, config("child") | {"metadata": {"name": "child", "ownerReferences": [reference]}})
    await client("DELETE", f"{CM}/owner", {"propagationPolicy": "Orphan"})
    await until_gone(client, f"{CM}/owner")
    code, child = await client("GET", f"{CM}/child")
    assert (code, "ownerReferences" in child["metadata"]) == (200, False)


async def test_a_dependent_of_an_owner_that_never_was_is_collected(client: Any) -> None:
    uid = "11111111-1111-1111-1111-111111111111"
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    await client("POST", CM, config("child") | {"metadata": {"name": "child", "ownerReferences": [reference]}})
    await until_gone(client, f"{CM}/child")
