"""What clients of a Kubernetes API server rely on: what patches do and may not do, finalizers of any name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.apiserver.core_objects import CM, MERGE, config, until_answered, until_gone

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture
async def gears(client: Any) -> str:
    """The path of objects of a custom kind with a scale."""
    spec = {"type": "object", "properties": {"n": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "gears", "kind": "Gear"}
    body = {"group": "g.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    code, answer = await client("POST", CRDS, {"metadata": {"name": "gears.g.example.com"}, "spec": body})
    assert code == 201, answer
    path = "/apis/g.example.com/v1/namespaces/default/gears"
    await until_answered(client, path, 200)
    return path


async def test_replace_of_an_absent_field_sets_it(client: Any) -> None:
    await client("POST", CM, {"metadata": {"name": "a"}})
    patch = [{"op": "replace", "path": "/data", "value": {"k": "v"}}]
    code, new = await client("PATCH", f"{CM}/a", patch, media=JSON_PATCH)
    assert (code, new.get("data")) == (200, {"k": "v"})
    patch = [{"op": "replace", "path": "/absent/deep", "value": 1}]
    assert (await client("PATCH", f"{CM}/a", patch, media=JSON_PATCH))[0] == 422


@pytest.mark.parametrize(
    ("media", "patch"),
    [
        (JSON_PATCH, [{"op": "remove", "path": "/metadata/name"}]),
        (MERGE, {"metadata": {"name": None}}),
    ],
)
async def test_a_patch_cannot_take_the_name_away(client: Any, media: str, patch: Any) -> None:
    await client("POST", CM, config("a", k="v"))
    code, answer = await client("PATCH", f"{CM}/a", patch, media=media)
    assert (code, "name must be provided" in answer["message"]) == (400, True)


@pytest.mark.parametrize(
    ("media", "patch"),
    [
        (JSON_PATCH, [{"op": "replace", "path": "/data", "value": "text"}]),
        (JSON_PATCH, [{"op": "replace", "path": "/kind", "value": "Secret"}]),
        (MERGE, {"data": "text"}),
        (STRATEGIC, {"data": {"k": 5}}),
    ],
)
async def test_a_patch_to_something_else_is_invalid(client: Any, media: str, patch: Any) -> None:
    await client("POST", CM, config("a", k="v"))
    code, answer = await client("PATCH", f"{CM}/a", patch, media=media)
    assert (code, answer["details"]["causes"][0]["field"]) == (422, "patch")


async def test_a_strategic_merge_patch_does_not_change_the_kind(client: Any) -> None:
    await client("POST", CM, config("a", k="v"))
    code, new = await client("PATCH", f"{CM}/a", {"kind": "Secret", "data": {"k": "w"}}, media=STRATEGIC)
    assert (code, new.get("kind"), new.get("data")) == (200, "ConfigMap", {"k": "w"})


async def test_updates_of_stateful_sets_are_checked(client: Any) -> None:
    path = "/apis/apps/v1/namespaces/default/statefulsets"
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "serviceName": "s", "template": pod}
    assert (await client("POST", path, {"metadata": {"name": "a"}, "spec": spec}))[0] == 201
    patch = {"spec": {"template": {"metadata": {"labels": {"a": "other"}}}}}
    code, answer = await client("PATCH", f"{path}/a", patch, media=MERGE)
    assert (code, answer["details"]["causes"][0]["field"]) == (422, "spec.template.metadata.labels")


async def test_custom_objects_take_finalizers_without_a_slash(client: Any, gears: str) -> None:
    name = "finalizer.example.com"
    body = {"apiVersion": "g.example.com/v1", "kind": "Gear", "metadata": {"name": "a", "finalizers": [name]}}
    code, made = await client("POST", gears, body)
    assert (code, made["metadata"].get("finalizers")) == (201, [name])
    body["metadata"] = {"name": "b", "finalizers": ["a b"]}
    code, answer = await client("POST", gears, body)
    assert (code, "name part must consist of" in answer["message"]) == (422, True)
    made["metadata"]["finalizers"].append("a b")
    assert (await client("PUT", f"{gears}/a", made))[0] == 200, "names are looked at in new objects only"
    patch = [{"op": "replace", "path": "/metadata/finalizers/0", "value": "cluster.cluster.x-k8s.io"}]
    assert (await client("PATCH", f"{gears}/a", patch, media=JSON_PATCH))[0] == 200
    code, answer = await client("POST", CM, {**config("b"), "metadata": {"name": "b", "finalizers": [name]}})
    assert (code, "nor is it fully qualified" in answer["message"]) == (422, True)


async def test_a_definition_that_waits_can_be_changed(client: Any, gears: str) -> None:
    body = {"apiVersion": "g.example.com/v1", "kind": "Gear", "metadata": {"name": "a", "finalizers": ["x.io"]}}
    assert (await client("POST", gears, body))[0] == 201
    path = f"{CRDS}/gears.g.example.com"
    await client("DELETE", path)
    patch = [{"op": "add", "path": "/metadata/labels", "value": {"a": "c"}}]
    code, answer = await client("PATCH", path, patch, media=JSON_PATCH)
    assert (code, answer["metadata"].get("finalizers")) == (200, ["customresourcecleanup.apiextensions.k8s.io"])
    await client("PATCH", f"{gears}/a", [{"op": "remove", "path": "/metadata/finalizers"}], media=JSON_PATCH)
    await until_gone(client, path)
