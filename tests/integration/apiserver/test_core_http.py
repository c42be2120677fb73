"""The verbs over HTTP: creating, reading, changing and deleting objects as kubectl and clients do."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from services.apiserver.server import ApiServer
from tests.integration.apiserver.core_objects import CM, DEPLOY, MERGE, config, deployment


async def test_create_get_replace_delete(client: Any) -> None:
    code, made = await client("POST", CM, config("a", x="1"))
    assert code == 201
    assert made["metadata"]["uid"]
    assert made["metadata"]["namespace"] == "default"
    made["data"]["x"] = "2"
    code, replaced = await client("PUT", f"{CM}/a", made)
    assert (code, replaced["data"]) == (200, {"x": "2"})
    assert int(replaced["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    code, status = await client("PUT", f"{CM}/a", made)
    assert (code, status["reason"]) == (409, "Conflict")
    code, answer = await client("DELETE", f"{CM}/a")
    assert (code, answer["status"], answer["details"]["uid"]) == (200, "Success", made["metadata"]["uid"])
    code, status = await client("GET", f"{CM}/a")
    assert (code, status["reason"], status["details"]) == (404, "NotFound", {"name": "a", "kind": "configmaps"})


async def test_a_write_that_changes_nothing_is_not_a_write(client: Any, server: ApiServer) -> None:
    _, made = await client("POST", DEPLOY, deployment("d"))
    revision, writes = server.store.revision, server.audit.writes
    for _ in range(2):
        assert (await client("PUT", f"{DEPLOY}/d", made))[1]["metadata"] == made["metadata"]
    code, same = await client("PATCH", f"{DEPLOY}/d", {"spec": {"replicas": 1}}, media=MERGE)
    assert (code, same["metadata"]["resourceVersion"]) == (200, made["metadata"]["resourceVersion"])
    await client("PATCH", f"{DEPLOY}/d/status", {"status": {}}, media=MERGE)
    assert (server.store.revision, server.audit.writes) == (revision, writes)


async def test_the_audit_log_names_writer_object_and_change(client: Any, server: ApiServer) -> None:
    await client("POST", CM, config("a", x="1"), User_Agent="tester/1")
    await client("PATCH", f"{CM}/a", {"data": {"x": "2"}}, media=MERGE)
    await client("DELETE", f"{CM}/a")
    assert server.settings.audit_log is not None
    lines = [json.loads(line) for line in server.settings.audit_log.read_text().splitlines()]
    found = [r for r in lines if r["resource"] == "configmaps" and r["name"] == "a"]
    assert [(r["verb"], r["user"], r["changed"]) for r in found] == [
        ("create", "admin", True),
        ("patch", "admin", True),
        ("delete", "admin", True),
    ]
    assert found[0]["manager"] == "tester"


async def test_concurrent_patches_without_a_revision_all_succeed(client: Any) -> None:
    await client("POST", CM, config("a"))
    results = await asyncio.gather(
        *(client("PATCH", f"{CM}/a", {"data": {f"k{i}": "v"}}, media=MERGE) for i in range(40))
    )
    assert {code for code, _ in results} == {200}
    assert len((await client("GET", f"{CM}/a"))[1]["data"]) == 40


@pytest.mark.parametrize(
    ("media", "patch", "expected"),
    [
        ("application/json-patch+json", [{"op": "add", "path": "/data/y", "value": "2"}], {"x": "1", "y": "2"}),
        ("application/merge-patch+json", {"data": {"x": None, "y": "2"}}, {"y": "2"}),
        ("application/strategic-merge-patch+json", {"data": {"y": "2"}}, {"x": "1", "y": "2"}),
    ],
)
async def test_patch_formats(client: Any, media: str, patch: Any, expected: dict[str, str]) -> None:
    await client("POST", CM, config("a", x="1"))
    code, new = await client("PATCH", f"{CM}/a", patch, media=media)
    assert (code, new["data"]) == (200, expected)


async def test_status_and_spec_are_written_apart(client: Any) -> None:
    await client("POST", DEPLOY, deployment("d"))
    body = {"spec": {"replicas": 7}, "status": {"replicas": 3, "observedGeneration": 1}}
    _, by_status = await client("PATCH", f"{DEPLOY}/d/status", body, media=MERGE)
    assert (by_status["spec"]["replicas"], by_status["status"]["replicas"]) == (1, 3)
    assert by_status["metadata"]["generation"] == 1
    body["status"]["replicas"] = 5
    _, by_main = await client("PATCH", f"{DEPLOY}/d", body, media=MERGE)
    assert (by_main["spec"]["replicas"], by_main["status"]["replicas"]) == (7, 3)
    assert by_main["metadata"]["generation"] == 2


async def test_scale(client: Any) -> None:
    await client("POST", DEPLOY, deployment("d", 2))
    _, scale = await client("GET", f"{DEPLOY}/d/scale")
    assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == ("Scale", {"replicas": 2}, "a=b")
    scale["spec"]["replicas"] = 5
    assert (await client("PUT", f"{DEPLOY}/d/scale", scale))[1]["spec"] == {"replicas": 5}
    code, status = await client("PUT", f"{DEPLOY}/d/scale", scale)
    assert (code, status["reason"]) == (409, "Conflict")
    assert (await client("GET", f"{DEPLOY}/d"))[1]["spec"]["replicas"] == 5


async def test_dry_run_writes_nothing(client: Any, server: ApiServer) -> None:
    before = server.store.revision
    code, made = await client("POST", f"{CM}?dryRun=All", config("a"))
    assert (code, "resourceVersion" in made["metadata"]) == (201, False)
    assert (await client("GET", f"{CM}/a"))[0] == 404
    assert server.store.revision == before
    code, status = await client("POST", f"{CM}?dryRun=Some", config("a"))
    assert (code, status["reason"]) == (422, "Invalid")


async def test_generate_name_gives_distinct_names(client: Any) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-"}}
    names = {(await client("POST", CM, body))[1]["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(n.startswith("x-") and len(n) == 7 for n in names)


async def test_pages_show_one_snapshot(client: Any) -> None:
    for name in "abcde":
        await client("POST", f"{CM}", config(name) | {"metadata": {"name": name, "labels": {"t": "1"}}})
    query = "?labelSelector=t%3D1&limit=2"
    _, first = await client("GET", CM + query)
    await client("DELETE", f"{CM}/d")
    await client("POST", CM, config("cc") | {"metadata": {"name": "cc", "labels": {"t": "1"}}})
    _, second = await client("GET", f"{CM}{query}&continue={first['metadata']['continue']}")
    _, third = await client("GET", f"{CM}{query}&continue={second['metadata']['continue']}")
    names = [i["metadata"]["name"] for page in (first, second, third) for i in page["items"]]
    assert names == ["a", "b", "c", "d", "e"]
    assert len({p["metadata"]["resourceVersion"] for p in (first, second, third)}) == 1
    assert "continue" not in third["metadata"]


async def test_a_protobuf_body_is_read_and_answered_in_json(client: Any) -> None:
    # A Namespace named "pb", as client-go encodes it.
    head = b'k8s\x00\n\x0f\n\x02v1\x12\tNamespace\x12\x1a\n\x12\n\x02pb\x12\x00\x1a\x00"\x00*\x002\x008\x00B\x00'
    raw = head + b'\x12\x00\x1a\x02\n\x00\x1a\x00"\x00'
    code, made = await client("POST", "/api/v1/namespaces", raw, media="application/vnd.kubernetes.protobuf")
    assert (code, made["metadata"]["name"], made["status"]) == (201, "pb", {"phase": "Active"})
    code, status = await client("POST", "/api/v1/namespaces", b"nonsense", media="application/vnd.kubernetes.protobuf")
    assert (code, status["reason"]) == (400, "BadRequest")
