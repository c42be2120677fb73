"""Queries over the index: pages, bounds and errors, and what the command prints of them."""

from __future__ import annotations

from typing import Any

import pytest

from services._kit.kube.client import resource_path
from tests.integration.search.conftest import REGISTRIES, Ground, origin, registry

OBJECTS = "/apis/search.fleetlog.io/v1alpha1/objects"


@pytest.fixture
async def fleet(ground: Ground) -> Ground:
    """Two members with five ConfigMaps each, and their namespaces."""
    await ground.begin()
    for name in ("m1", "m2"):
        await ground.join(name)
        for number in range(5):
            labels = {"app": "web" if number % 2 else "db"}
            manifest: dict[str, Any] = {"metadata": {"name": f"c{number}", "labels": labels}, "data": {"of": name}}
            await ground.clients[name].create(resource_path("", "v1", "configmaps", "default"), manifest)
    await ground.control.create(REGISTRIES, registry("all", ("v1", "ConfigMap"), ("v1", "Namespace")))
    await ground.shows("api/v1/namespaces/default/configmaps", [(m, f"c{n}") for m in ("m1", "m2") for n in range(5)])
    await ground.shows("api/v1/namespaces/default", [("m1", "default"), ("m2", "default")])
    return ground


async def asked(ground: Ground, query: str, **params: str) -> list[str]:
    body = await ground.get(OBJECTS, query=query, **params)
    return [f"{origin(item)}/{item['metadata']['name']}" for item in body["items"]]


async def test_queries_go_over_kinds_and_members(fleet: Ground) -> None:
    assert await asked(fleet, "kind=ConfigMap label.app=web namespace=default cluster=m2") == ["m2/c1", "m2/c3"]
    assert await asked(fleet, "name=default") == ["m1/default", "m2/default"]
    assert await asked(fleet, "kind=configmaps .data.of=m1 name=c0,c4") == ["m1/c0", "m1/c4"]


async def test_pages_hold_every_object_once(fleet: Ground) -> None:
    every = await asked(fleet, "namespace=default")
    assert len(every) == 10
    pages: list[list[str]] = []
    token = ""
    while True:
        body = await fleet.get(OBJECTS, query="namespace=default", limit="3", **{"continue": token} if token else {})
        pages.append([f"{origin(item)}/{item['metadata']['name']}" for item in body["items"]])
        token = body["metadata"].get("continue", "")
        if not token:
            break
    assert [name for page in pages for name in page] == every
    assert all(len(page) <= 3 for page in pages)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"query": "imag=x"}, "no field"),
        ({"query": "a" * 5000}, "characters"),
        ({"query": "kind=Pod", "limit": "0"}, "limit"),
        ({"query": "kind=Pod", "limit": "9999999999999"}, "limit"),
        ({"query": "kind=Pod", "continue": "%%%"}, "continue"),
        ({"query": "kind=Pod", "continue": "WzEsMl0"}, "continue"),
    ],
)
async def test_bad_queries_are_refused(fleet: Ground, params: dict[str, str], message: str) -> None:
    body = await fleet.get(OBJECTS, 400, **params)
    assert (body["kind"], body["reason"]) == ("Status", "BadRequest")
    assert message in body["message"]


async def test_discovery_lists_the_own_group(fleet: Ground) -> None:
    body = await fleet.get("/apis/search.fleetlog.io/v1alpha1")
    assert [item["name"] for item in body["resources"]] == ["objects"]
