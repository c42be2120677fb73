"""A search backend is written, kept in step through outages, and cleared of what is gone.

The double is strict; with FLEETLOG_TEST_OPENSEARCH=URL the last test goes to a real server.
"""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest

from services._kit.kube.client import resource_path
from services.search.backends import backend_writer
from tests.integration.search.conftest import REGISTRIES, Ground, registry
from tests.support.search_store_double import SearchStoreDouble
from tests.support.waiting import comes_to, eventually

INDEX = "kubernetes-configmap"
CONFIG_MAPS = resource_path("", "v1", "configmaps", "default")


@pytest.fixture
async def store() -> AsyncIterator[SearchStoreDouble]:
    async with SearchStoreDouble().running() as double:
        yield double


def to(url: str, name: str = "") -> dict[str, Any]:
    return {"openSearch": {"addresses": [url], "secretRef": {"namespace": "default", "name": name}}}


@pytest.fixture
async def fleet(ground: Ground, store: SearchStoreDouble, monkeypatch: pytest.MonkeyPatch) -> Ground:
    """A member with ConfigMaps that a registry writes to the double."""
    monkeypatch.setattr(backend_writer, "_COMPARE_SECONDS", 0.05)
    await ground.begin()
    await ground.join("m1")
    for name in ("one", "two"):
        await create(ground, name)
    await ground.control.create(REGISTRIES, registry("all", ("v1", "ConfigMap"), backendStore=to(store.url)))
    await eventually(lambda: {"one", "two"} <= names(store), "documents are written")
    return ground


async def create(ground: Ground, name: str, **data: str) -> None:
    await ground.clients["m1"].create(CONFIG_MAPS, {"metadata": {"name": name}, "data": data})


def names(store: SearchStoreDouble) -> set[str]:
    found = store.documents(INDEX).values()
    return {item["metadata"]["name"] for item in found if item["metadata"]["namespace"] == "default"}


async def test_documents_have_the_shape_that_dashboards_know(fleet: Ground, store: SearchStoreDouble) -> None:
    (found,) = (item for item in store.documents(INDEX).values() if item["metadata"]["name"] == "one")
    assert found["metadata"]["annotations"]["resource.karmada.io/cached-from-cluster"] == "m1"
    assert (found["apiVersion"], found["kind"], msgspec.json.decode(found["spec"])) == ("v1", "ConfigMap", None)
    assert store.mappings[INDEX]["settings"]["index"] == {"number_of_shards": 1, "number_of_replicas": 0}
    assert store.mappings[INDEX]["mappings"]["properties"]["spec"]["enabled"] is False


async def test_changes_and_deletions_reach_the_backend(fleet: Ground, store: SearchStoreDouble) -> None:
    await create(fleet, "three")
    await fleet.clients["m1"].delete(f"{CONFIG_MAPS}/one")
    await eventually(lambda: names(store) == {"two", "three"}, "both changes")


@pytest.mark.parametrize("mode", ["down", "full", "half", "rejecting", "forbidden"])
async def test_outage_loses_and_repeats_nothing(fleet: Ground, store: SearchStoreDouble, mode: str) -> None:
    store.mode = mode
    for number in range(20):
        await create(fleet, f"n{number}")
    await fleet.clients["m1"].delete(f"{CONFIG_MAPS}/two")
    (writer,) = fleet.search._backends.writers
    await eventually(lambda: writer.trouble, "the outage is told")
    assert await fleet.places("api/v1/namespaces/default/configmaps/n19") == [("m1", "n19")]
    store.mode = ""
    expected = {"one", *(f"n{number}" for number in range(20))}
    await eventually(lambda: names(store) == expected, "everything is there")
    await eventually(lambda: not writer.due and not writer.trouble, "nothing is due")
    written = [uid for kind, uid in store.writes if kind == "index"]
    assert len(written) == len(set(written))


@pytest.mark.parametrize("status", [403, 429])
async def test_full_index_holds_up_no_other_index(
    fleet: Ground, store: SearchStoreDouble, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(backend_writer, "MOST_ACTIONS", 5)
    (writer,) = fleet.search._backends.writers
    writer._most = 5
    selected = registry("all", ("v1", "ConfigMap"), ("v1", "Namespace"), backendStore=to(store.url))
    store.blocked = {INDEX: status}
    for number in range(30):
        await create(fleet, f"n{number}")
    await eventually(lambda: "flood-stage" in writer.trouble, "the reason is in the metrics of people")
    await fleet.control.patch(f"{REGISTRIES}/all", {"spec": selected["spec"]})
    await eventually(lambda: store.documents("kubernetes-namespace"), "another index is written")
    await fleet.clients["m1"].delete(f"{CONFIG_MAPS}/two")
    await eventually(lambda: names(store) == {"one"}, "what is gone is deleted, which makes room")
    store.blocked = {}
    await eventually(lambda: names(store) == {"one", *(f"n{number}" for number in range(30))}, "all is written")
    await eventually(lambda: not writer.trouble and not writer.due, "nothing is due")
    written = [uid for kind, uid in store.writes if kind == "index"]
    assert len(written) == len(set(written))


async def test_requests_become_smaller_until_they_are_taken(fleet: Ground, store: SearchStoreDouble) -> None:
    (writer,) = fleet.search._backends.writers
    store.mode = "down"
    for number in range(20):
        await create(fleet, f"n{number}")
    await eventually(lambda: writer.due >= 20, "they wait")
    store.most_documents, store.mode = 3, ""
    await eventually(lambda: len(names(store)) == 22, "all are written")
    assert not writer.refused


async def test_document_that_no_request_can_carry_is_left_out(fleet: Ground, store: SearchStoreDouble) -> None:
    (writer,) = fleet.search._backends.writers
    store.most_documents = -1
    await create(fleet, "large")
    await eventually(lambda: writer.refused == 1, "it is counted")
    store.most_documents = 0
    await create(fleet, "after")
    await eventually(lambda: "after" in names(store), "the next one is written")


async def test_index_that_cannot_be_made_is_told_and_made_later(fleet: Ground, store: SearchStoreDouble) -> None:
    (writer,) = fleet.search._backends.writers
    store.refuses_indices = True
    selected = registry("all", ("v1", "ConfigMap"), ("v1", "Namespace"), backendStore=to(store.url))
    await fleet.control.patch(f"{REGISTRIES}/all", {"spec": selected["spec"]})
    await eventually(lambda: "kubernetes-namespace cannot be made: validation" in writer.trouble, "the reason")
    await create(fleet, "three")
    await eventually(lambda: "three" in names(store), "the other index is written")
    store.refuses_indices = False
    await eventually(lambda: store.documents("kubernetes-namespace"), "it is made")


async def test_index_that_was_deleted_is_made_again(fleet: Ground, store: SearchStoreDouble) -> None:
    store.creates = False
    store.lose(INDEX)
    await create(fleet, "three")
    await eventually(lambda: "three" in names(store), "it is written")
    assert store.mappings[INDEX]["mappings"]["properties"]["spec"]["enabled"] is False


async def test_lost_index_is_written_again_after_an_outage(fleet: Ground, store: SearchStoreDouble) -> None:
    (writer,) = fleet.search._backends.writers
    store.mode = "down"
    await create(fleet, "later")
    await eventually(lambda: writer.trouble, "the outage is told")
    store.lose(INDEX)
    store.mode = ""
    await eventually(lambda: names(store) == {"one", "two", "later"}, "all documents are there again")
    assert store.mappings[INDEX]["mappings"]["properties"]["spec"]["enabled"] is False


async def test_documents_of_objects_gone_while_search_was_away_go(
    ground: Ground, store: SearchStoreDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = {"resource.karmada.io/cached-from-cluster": "m1"}
    other = {"resource.karmada.io/cached-from-cluster": "elsewhere"}
    for uid, marks in (("gone", of), ("foreign", other)):
        metadata = {"name": uid, "namespace": "default", "annotations": marks}
        document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "spec": "null", "status": "null"}
        store.indices.setdefault(INDEX, {})[uid] = document
        store.versions[INDEX, uid] = 5
    await ground.begin()
    await ground.join("m1")
    await create(ground, "one")
    await ground.control.create(REGISTRIES, registry("all", ("v1", "ConfigMap"), backendStore=to(store.url)))
    await eventually(lambda: names(store) == {"one", "foreign"}, "what is gone is deleted, what is not ours stays")


async def test_refused_document_holds_up_no_other(fleet: Ground, store: SearchStoreDouble) -> None:
    (writer,) = fleet.search._backends.writers
    await create(fleet, "refuse-me")
    await create(fleet, "after")
    await eventually(lambda: "after" in names(store), "the next one is written")
    await eventually(lambda: writer.refused == 1, "it is counted")


async def test_credentials_come_from_the_secret(ground: Ground, store: SearchStoreDouble) -> None:
    store.user, store.password = "ann", "right"
    secrets = resource_path("", "v1", "secrets", "default")

    def data(password: str) -> dict[str, str]:
        texts = {"username": "ann", "password": password}
        return {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}

    await ground.control.create(secrets, {"metadata": {"name": "account"}, "data": data("wrong")})
    await ground.begin()
    await ground.join("m1")
    await create(ground, "one")
    spec = to(store.url, "account")
    await ground.control.create(REGISTRIES, registry("all", ("v1", "ConfigMap"), backendStore=spec))
    await eventually(lambda: any("401" in writer.trouble for writer in ground.search._backends.writers), "refused")
    assert not store.indices
    await ground.control.patch(f"{secrets}/account", {"data": data("right")})
    await eventually(lambda: "one" in names(store), "written with the new password")


async def test_documents_of_a_registry_that_goes_are_deleted(fleet: Ground, store: SearchStoreDouble) -> None:
    await fleet.control.delete(f"{REGISTRIES}/all")
    await eventually(lambda: not store.documents(INDEX), "the index is empty")


@pytest.mark.skipif(not os.environ.get("FLEETLOG_TEST_OPENSEARCH"), reason="FLEETLOG_TEST_OPENSEARCH names no server")
async def test_real_server_takes_the_documents(ground: Ground) -> None:
    url = os.environ["FLEETLOG_TEST_OPENSEARCH"].rstrip("/")
    await ground.begin()
    await ground.join("m1")
    await create(ground, "one")
    await ground.control.create(REGISTRIES, registry("all", ("v1", "ConfigMap"), backendStore=to(url)))
    async with aiohttp.ClientSession() as session:

        async def count() -> int:
            await session.post(f"{url}/{INDEX}/_refresh")
            query = {"query": {"match": {"metadata.name": "one"}}}
            async with session.post(f"{url}/{INDEX}/_search", json=query) as answer:
                found = await answer.json()
                return len((found.get("hits") or {}).get("hits") or ())

        await comes_to("the document", count, 1)
        await ground.clients["m1"].delete(f"{CONFIG_MAPS}/one")
        await comes_to("its deletion", count, 0)
