"""Change sets over HTTP: several objects in one request, admitted and stored all or none."""

from __future__ import annotations

from typing import Any

import pytest

from services.apiserver.core.request_context import Call, Identity
from services.apiserver.core.status_errors import ApiError
from services.apiserver.server import ApiServer
from services.apiserver.store.store_port import MOST_SET_OBJECTS
from services.apiserver.writes.object_sets import ChangeSets
from tests.integration.apiserver.conftest import Client

PATH = "/apis/fleetlog.io/v1alpha1/changesets"
MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name: str, value: str = "x", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "data": {"key": value},
    }


def change_set(*items: Any) -> dict[str, Any]:
    return {"apiVersion": "fleetlog.io/v1alpha1", "kind": "ChangeSet", "items": list(items)}


async def names(client: Client) -> set[str]:
    _, found = await client("GET", MAPS)
    return {item["metadata"]["name"] for item in found["items"]} - {"kube-root-ca.crt"}


async def test_set_creates_and_replaces_as_one(client: Client, server: ApiServer) -> None:
    _, old = await client("POST", MAPS, config_map("old"))
    revision = server.store.revision
    changed = config_map("old", "y", resourceVersion=old["metadata"]["resourceVersion"])
    code, answer = await client("POST", PATH, change_set(config_map("a"), changed, config_map("b")))
    assert code == 200, answer
    assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "old", "b"]
    assert [int(item["metadata"]["resourceVersion"]) for item in answer["items"]] == [
        revision + 1,
        revision + 2,
        revision + 3,
    ]
    assert (await client("GET", f"{MAPS}/old"))[1]["data"] == {"key": "y"}
    assert (await client("GET", f"{MAPS}/old"))[1]["metadata"]["uid"] == old["metadata"]["uid"]


async def test_one_refused_object_leaves_everything(client: Client, server: ApiServer) -> None:
    await client("POST", MAPS, config_map("taken"))
    revision = server.store.revision
    bad = config_map("b")
    bad["metadata"]["labels"] = {"-": "no label"}
    stale = config_map("taken", resourceVersion="1")
    elsewhere = config_map("b", namespace="missing")
    for member, code in ((bad, 422), (config_map("taken"), 409), (stale, 409), (elsewhere, 404)):
        got, answer = await client("POST", PATH, change_set(config_map("a"), member))
        assert got == code, answer
        assert answer["message"].startswith("items[1] (ConfigMap ")
        assert answer["message"].endswith("nothing of the change set was stored")
    assert server.store.revision == revision
    assert await names(client) == {"taken"}


async def test_dry_run_stores_nothing(client: Client, server: ApiServer) -> None:
    revision = server.store.revision
    code, answer = await client("POST", f"{PATH}?dryRun=All", change_set(config_map("a")))
    assert (code, answer["items"][0]["metadata"]["name"]) == (200, "a")
    assert server.store.revision == revision


async def test_malformed_sets_are_refused(client: Client, server: ApiServer) -> None:
    nameless = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default"}}
    unknown = {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "w"}}
    for body in ("{", "[]", {"items": 5}, change_set(nameless), change_set(unknown), change_set("text")):
        code, answer = await client("POST", PATH, body)
        assert code == 400, answer
    twice = change_set(config_map("a"), config_map("a"))
    assert (await client("POST", PATH, twice))[0] == 409
    many = change_set(*(config_map(f"m{number}") for number in range(MOST_SET_OBJECTS + 1)))
    code, answer = await client("POST", PATH, many)
    assert (code, "at most 500 are allowed" in answer["message"]) == (413, True)
    large = [config_map(f"m{number}", "x" * 900_000) for number in range(5)]
    with pytest.raises(ApiError, match="bytes in one change set, at most"):
        await ChangeSets(server.objects).write(large, Call(Identity("jane", "u1", ())))
    assert (await client("GET", PATH))[0] == 405
    assert await names(client) == set()
