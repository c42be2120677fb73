"""The cache of objects of members: what it shows, how it is asked, and what it does when members change."""

from __future__ import annotations

from typing import Any

import pytest

from services._kit.kube.client import resource_path
from tests.integration.search.conftest import CACHE, REGISTRIES, Ground, origin, registry
from tests.support.waiting import eventually

CONFIG_MAPS = resource_path("", "v1", "configmaps", "default")
MAPS = "api/v1/namespaces/default/configmaps"


def config_map(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "data": {"of": name}}


@pytest.fixture
async def two(ground: Ground) -> Ground:
    """Two members with ConfigMaps, which a registry selects."""
    await ground.begin()
    for name in ("m1", "m2"):
        await ground.join(name, labels={"tier": name})
        await ground.clients[name].create(CONFIG_MAPS, config_map("shared", app="web"))
    await ground.clients["m1"].create(CONFIG_MAPS, config_map("only", app="db"))
    await ground.control.create(REGISTRIES, registry("all", ("v1", "ConfigMap")))
    await ground.shows(MAPS, EXPECTED)
    return ground


EXPECTED = [("m1", "only"), ("m1", "shared"), ("m2", "shared")]


async def test_list_names_the_member_of_every_item(two: Ground) -> None:
    body = await two.get(f"{CACHE}/{MAPS}")
    assert {name: body[name] for name in ("apiVersion", "kind", "metadata")} == {
        "apiVersion": "v1",
        "kind": "ConfigMapList",
        "metadata": {},
    }
    item = body["items"][0]
    assert (item["kind"], item["apiVersion"], item["data"]) == ("ConfigMap", "v1", {"of": "only"})
    assert "managedFields" not in item["metadata"]


async def test_name_lookup_answers_a_list(two: Ground) -> None:
    body = await two.get(f"{CACHE}/{MAPS}/shared")
    assert (body["kind"], [origin(item) for item in body["items"]]) == ("ConfigMapList", ["m1", "m2"])
    assert await two.places(f"{MAPS}/none") == []
    assert await two.places("api/v1/namespaces/elsewhere/configmaps") == []


async def test_label_selector_counts_and_limit_does_not(two: Ground) -> None:
    assert await two.places(MAPS, labelSelector="app=db") == [("m1", "only")]
    assert await two.places(MAPS, labelSelector="app in (db,web)") == EXPECTED
    assert await two.places(MAPS, labelSelector="app", limit="1", fieldSelector="a=b") == EXPECTED


async def test_kinds_that_no_registry_selects_are_empty(two: Ground) -> None:
    body = await two.get(f"{CACHE}/apis/apps/v1/deployments")
    assert (body["apiVersion"], body["items"]) == ("apps/v1", [])


@pytest.mark.parametrize("path", ["", "/api", "/apis/apps/v1", "/nonsense/v1/pods", "/api/v1/namespaces/a/pods/b/log"])
async def test_bad_paths_are_refused_with_an_error(two: Ground, path: str) -> None:
    assert "error" in await two.get(f"{CACHE}{path}", status=400)


async def test_bad_and_huge_selectors_are_refused(two: Ground) -> None:
    assert "labelSelector" in (await two.get(f"{CACHE}/{MAPS}", 400, labelSelector="a in ("))["error"]
    assert "characters" in (await two.get(f"{CACHE}/{MAPS}", 400, labelSelector="a" * 10_000))["error"]
    assert "characters" in (await two.get(f"{CACHE}/{MAPS}", 400, labelSelector="a" * 100_000))["error"]


async def test_changes_and_deletions_are_followed(two: Ground) -> None:
    await two.clients["m2"].create(CONFIG_MAPS, config_map("later"))
    await two.clients["m1"].delete(f"{CONFIG_MAPS}/only")
    await two.clients["m1"].patch(f"{CONFIG_MAPS}/shared", {"metadata": {"labels": {"app": "other"}}})
    await two.shows(MAPS, [("m1", "shared"), ("m2", "later"), ("m2", "shared")])
    await two.shows(MAPS, [("m1", "shared")], labelSelector="app=other")


async def test_restarted_member_never_empties_the_answer(two: Ground) -> None:
    member = two.members["m1"]
    await member.stop()
    await two.tell("m1", ready=False, labels={"tier": "m1"})
    await eventually(lambda: "m1" not in two.search._followers, "m1 is left")
    assert await two.places(MAPS) == EXPECTED
    await member.start()
    await two.clients["m1"].create(CONFIG_MAPS, config_map("after"))
    seen = []

    async def look() -> bool:
        seen.append(await two.places(MAPS))
        return ("m1", "after") in seen[-1]

    await two.tell("m1", labels={"tier": "m1"})
    await eventually(look, "what came after the restart is shown")
    assert all(set(EXPECTED) <= set(places) for places in seen)


async def test_member_that_stays_away_is_not_shown_for_ever(ground: Ground) -> None:
    await ground.begin(kept_seconds=0.05)
    await ground.join("m1")
    await ground.clients["m1"].create(CONFIG_MAPS, config_map("one"))
    await ground.control.create(REGISTRIES, registry("all", ("v1", "ConfigMap")))
    await ground.shows(MAPS, [("m1", "one")])
    await ground.tell("m1", ready=False)
    await ground.shows(MAPS, [])


async def test_registries_and_labels_decide_what_is_read(two: Ground) -> None:
    selected = registry("all", ("v1", "ConfigMap"))["spec"]
    selected["targetCluster"] = {"labelSelector": {"matchLabels": {"tier": "m2"}}}
    await two.control.patch(f"{REGISTRIES}/all", {"spec": selected})
    await two.shows(MAPS, [("m2", "shared")])
    await two.tell("m1", labels={"tier": "m2"})
    await two.shows(MAPS, EXPECTED)
    await two.control.delete(f"{REGISTRIES}/all")
    await two.shows(MAPS, [])


async def test_requests_without_credentials_are_refused(two: Ground) -> None:
    assert two.search.api is not None
    async with two.http.get(f"{two.search.api.url}{CACHE}/{MAPS}") as answer:
        assert (answer.status, (await answer.json())["reason"]) == (401, "Unauthorized")
