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


async def test_the_pods_of_a_collected_job_go_as_well(client: Any) -> None:
    _, owner = await client("POST", CM, config("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    meta = {"name": "job", "ownerReferences": [reference]}
    code, job = await client("POST", jobs, {"metadata": meta, "spec": {"template": {"spec": pod}}})
    assert code == 201, job
    child = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": job["metadata"]["uid"]}
    await client("POST", CM, config("child") | {"metadata": {"name": "child", "ownerReferences": [child]}})
    await client("DELETE", f"{CM}/owner")
    await until_gone(client, f"{jobs}/job")
    await until_gone(client, f"{CM}/child")


async def test_owners_that_own_each_other_do_not_wait_for_ever(client: Any) -> None:
    _, first = await client("POST", CM, config("first"))
    _, second = await client("POST", CM, config("second"))
    for name, owner in (("first", second), ("second", first)):
        meta = owner["metadata"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": meta["name"], "uid": meta["uid"]}
        body = {"metadata": {"ownerReferences": [reference | {"blockOwnerDeletion": True}]}}
        assert (await client("PATCH", f"{CM}/{name}", body, media=MERGE))[0] == 200
    await client("DELETE", f"{CM}/first", {"propagationPolicy": "Foreground"})
    await until_gone(client, f"{CM}/first")
    await until_gone(client, f"{CM}/second")


async def test_an_owner_in_some_namespace_keeps_what_is_in_none(client: Any) -> None:
    _, owner = await client("POST", CM, config("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    meta = {"name": "pv", "ownerReferences": [reference]}
    code, made = await client("POST", "/api/v1/persistentvolumes", {"metadata": meta, "spec": volume})
    assert code == 201, made
    await client("POST", CM, config("child") | {"metadata": {"name": "child", "ownerReferences": [reference]}})
    await client("DELETE", f"{CM}/owner")
    await until_gone(client, f"{CM}/child")
    assert (await client("GET", "/api/v1/persistentvolumes/pv"))[0] == 200


async def test_a_namespace_is_deleted_under_its_own_preconditions(client: Any) -> None:
    await client("POST", "/api/v1/namespaces", {"metadata": {"name": "kept"}})
    code, answer = await client("DELETE", "/api/v1/namespaces/kept", {"preconditions": {"uid": "x"}})
    assert (code, answer["details"]["kind"]) == (409, "namespaces")
    assert "Precondition failed: UID in precondition: x, UID in object meta: " in answer["message"]
    code, answer = await client("DELETE", "/api/v1/namespaces/kept", {"preconditions": {"resourceVersion": "1"}})
    assert (code, "ResourceVersion in precondition: 1" in answer["message"]) == (409, True)


async def test_delete_options_come_in_a_known_media_type(client: Any) -> None:
    await client("POST", CM, config("a"))
    code, answer = await client("DELETE", f"{CM}/a", {"kind": "DeleteOptions"}, media=MERGE)
    assert (code, answer["reason"]) == (415, "UnsupportedMediaType")
    assert (await client("DELETE", f"{CM}/a", "null"))[0] == 200


async def test_seconds_beyond_all_times_end_no_request_badly(client: Any) -> None:
    pods = "/api/v1/namespaces/default/pods"
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}}
    await client("POST", pods, {"apiVersion": "v1", "kind": "Pod", **pod})
    code, left = await client("DELETE", f"{pods}/p", {"gracePeriodSeconds": (1 << 63) - 1})
    assert (code, left["metadata"]["deletionTimestamp"]) == (200, "9999-12-31T23:59:59Z")
    assert (await client("DELETE", f"{pods}/p?gracePeriodSeconds={1 << 63}"))[0] == 400
    code, left = await client("DELETE", f"{pods}/p", {"gracePeriodSeconds": 1 << 62})
    assert (code, left["metadata"]["deletionGracePeriodSeconds"]) == (200, 1 << 62)
    assert (await client("DELETE", f"{pods}/p?gracePeriodSeconds=0"))[0] == 200


async def test_endpoints_go_with_their_service(client: Any) -> None:
    base = "/api/v1/namespaces/default"
    await client("POST", f"{base}/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    await client("POST", f"{base}/endpoints", {"metadata": {"name": "s"}})
    code, answer = await client("DELETE", f"{base}/services/s?dryRun=All&propagationPolicy=Foreground")
    assert (code, answer["kind"], "deletionTimestamp" in answer["metadata"]) == (200, "Service", True)
    assert (await client("GET", f"{base}/endpoints/s"))[0] == 200
    assert (await client("DELETE", f"{base}/services/s"))[0] == 200
    assert (await client("GET", f"{base}/endpoints/s"))[0] == 404


async def test_a_namespace_in_an_object_that_has_none_is_dropped(client: Any) -> None:
    nodes = "/api/v1/nodes"
    code, node = await client("POST", nodes, {"metadata": {"name": "n", "namespace": "x"}})
    assert (code, "namespace" in node["metadata"]) == (201, False)
    code, node = await client("PUT", f"{nodes}/n", {"metadata": {"name": "n", "namespace": "x", "labels": {"a": "b"}}})
    assert (code, "namespace" in node["metadata"], node["metadata"]["labels"]) == (200, False, {"a": "b"})


@pytest.mark.parametrize("meta", [{"deletionTimestamp": "2020-01-01T00:00:00Z"}, {"deletionGracePeriodSeconds": 5}])
async def test_no_update_begins_a_deletion(client: Any, meta: dict[str, Any]) -> None:
    await client("POST", CM, config("a"))
    code, answer = await client("PATCH", f"{CM}/a", {"metadata": meta}, media=MERGE)
    assert (code, answer["details"]["causes"][0]["field"]) == (422, f"metadata.{next(iter(meta))}")
    assert "may only be changed via deletion" in answer["message"]
