"""Reads of the global proxy over two embedded members: get, list in every form, pages, and what the cache shows."""

from __future__ import annotations

import json

import pytest

from services._rules.delivery.member_address import Access
from services.search.registries.member_facts import MemberFacts
from services.search.registries.wanted_kinds import Wanted
from services.search.union.page_token import read_page_token
from services.search.union.provenance_marks import CACHED_FROM
from services.search.union.version_map import read_version
from tests.support.view_world import CONFIG_MAPS, PODS, ViewWorld, config_map, pod

PODS_PATH = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


def origins(found: dict) -> list[tuple[str, str]]:
    """Cluster and name of every item."""
    return [(item["metadata"]["annotations"][CACHED_FROM], item["metadata"]["name"]) for item in found["items"]]


async def test_list_holds_the_objects_of_all_clusters(world: ViewWorld) -> None:
    made = await world.create("member2", pod("a"))
    await world.create("member1", pod("b"))
    found = await world.get("/api/v1/pods")
    assert (found["kind"], found["apiVersion"]) == ("PodList", "v1")
    assert origins(found) == [("member1", "b"), ("member2", "a")]
    assert found["items"][1]["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert sorted(read_version(found["metadata"]["resourceVersion"]).clusters) == ["member1", "member2"]
    assert "continue" not in found["metadata"]


async def test_get_reads_from_the_cluster_that_has_the_object(world: ViewWorld) -> None:
    made = await world.create("member2", pod("a"))
    for version in ("", "?resourceVersion=0"):
        found = await world.get(f"{PODS_PATH}/a{version}")
        assert found["metadata"]["annotations"][CACHED_FROM] == "member2"
        versions = read_version(found["metadata"]["resourceVersion"])
        assert versions.clusters == {"member2": made["metadata"]["resourceVersion"]}
        assert found["spec"] == made["spec"]


@pytest.mark.parametrize("version", ["", "0"])
async def test_selectors_count(world: ViewWorld, version: str) -> None:
    await world.create("member1", pod("a", tier="web"))
    await world.create("member1", pod("b", tier="db"))
    await world.create("member2", pod("c", tier="web"))
    await world.create("member2", pod("d", "kube-system", tier="web"))
    options = f"&resourceVersion={version}"
    assert origins(await world.get(f"/api/v1/pods?labelSelector=tier%3Dweb{options}")) == [
        ("member1", "a"),
        ("member2", "c"),
        ("member2", "d"),
    ]
    assert origins(await world.get(f"{PODS_PATH}?labelSelector=tier%3Dweb{options}")) == [
        ("member1", "a"),
        ("member2", "c"),
    ]
    assert origins(await world.get(f"/api/v1/pods?fieldSelector=metadata.name%3Dd{options}")) == [("member2", "d")]
    assert origins(await world.get(f"/api/v1/pods?fieldSelector=spec.nodeName%3Dn1{options}")) == []


async def test_version_zero_is_answered_from_what_is_at_hand(world: ViewWorld) -> None:
    await world.create("member1", pod("a"))
    await world.members["member1"].server.stop()
    found = await world.get("/api/v1/pods?resourceVersion=0")
    assert origins(found) == [("member1", "a")]
    assert found["kind"] == "PodList"
    assert (await world.get("/api/v1/pods", status=503))["reason"] == "ServiceUnavailable"


async def test_a_page_that_ends_a_cluster_leads_to_the_next(world: ViewWorld) -> None:
    await world.create("member1", pod("a"))
    await world.create("member2", pod("b"))
    page = await world.get("/api/v1/pods?limit=1")
    token = read_page_token(page["metadata"]["continue"])
    assert (token.cluster, token.member_token) == ("member2", "")
    await world.create("member2", pod("c"))
    rest = await world.get(f"/api/v1/pods?limit=5&continue={page['metadata']['continue']}")
    assert origins(rest) == [("member2", "b")], "later pages are read at the version of the first"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/pods?continue=abc", 400),
        ("/api/v1/pods?limit=x", 400),
        ("/api/v1/pods?labelSelector=%3D%3D", 400),
        (f"/api/v1/pods?labelSelector={'a' * 100_000}", 400),
        ("/api/v1/pods?resourceVersionMatch=Exact", 422),
        ("/apis/search.karmada.io/v1alpha1/proxying/a/proxy/api/v1/pods", 400),
        ("/api/v1/%2e%2e/secrets", 400),
    ],
    ids=["continue", "limit", "selector", "long selector", "match", "proxy in the proxy", "climbing"],
)
async def test_what_cannot_be_answered_is_refused(world: ViewWorld, path: str, status: int) -> None:
    refused = await world.get(path, status=status)
    assert (refused["kind"], refused["code"]) == ("Status", status)
    assert len(refused["message"]) < 3000


async def test_objects_are_read_in_json_only(world: ViewWorld) -> None:
    assert (await world.get("/api/v1/pods", status=406, Accept="application/yaml"))["reason"] == "NotAcceptable"
    await world.ask("HEAD", "/api/v1/pods", status=405)


async def test_equal_names_and_creation_are_refused(world: ViewWorld) -> None:
    for member in ("member1", "member2"):
        await world.create(member, pod("twin"))
    for method, path in (("GET", "twin"), ("GET", "twin/log"), ("DELETE", "twin")):
        refused = await world.ask(method, f"{PODS_PATH}/{path}", status=409)
        assert "ambiguous objects in clusters [member1, member2]" in refused["message"]
    assert "create is not supported" in (await world.ask("POST", PODS_PATH, pod("x"), status=405))["message"]


async def test_tables_have_the_columns_of_their_kind(world: ViewWorld) -> None:
    await world.create("member1", pod("a"))
    for path in ("/api/v1/pods", f"{PODS_PATH}/a", "/api/v1/pods?resourceVersion=0"):
        found = await world.get(path, Accept=TABLE)
        assert found["kind"] == "Table"
        assert [column["name"] for column in found["columnDefinitions"]][:5] == [
            *("Name", "Ready", "Status", "Restarts", "Age"),
        ]
        (row,) = found["rows"]
        assert row["cells"][:3] == ["a", "0/1", "Pending"]
        assert row["object"]["metadata"]["annotations"][CACHED_FROM] == "member1"
    await world.create("member1", config_map("other", x="1"))
    found = await world.get("/api/v1/configmaps", Accept=TABLE)
    assert [column["name"] for column in found["columnDefinitions"]] == ["Name", "Age"]
    assert found["rows"][0]["cells"][0] == "other"


async def test_metadata_alone_is_served(world: ViewWorld) -> None:
    await world.create("member1", pod("a"))
    found = await world.get("/api/v1/pods", Accept=METADATA)
    assert found["kind"] == "PartialObjectMetadataList"
    assert [sorted(item) for item in found["items"]] == [["apiVersion", "kind", "metadata"]]


async def test_without_clusters_the_list_is_of_anything(world: ViewWorld) -> None:
    assert (await world.get("/api/v1/pods"))["kind"] == "PodList", "typed by the members"
    for name in list(world.members):
        world.coverage.become(name, {CONFIG_MAPS: Wanted(CONFIG_MAPS, "ConfigMap")})
    # Nothing of the kind is selected any more: the control plane answers.
    assert (await world.get("/api/v1/pods"))["items"] == []
    world.coverage.become("member1", {PODS: Wanted(PODS, "Pod", frozenset(("shop",)))})
    found = await world.get(PODS_PATH)
    assert (found["kind"], found["apiVersion"], found["items"]) == ("List", "v1", [])


async def test_registries_with_a_namespace_show_that_one(world: ViewWorld) -> None:
    await world.create("member1", pod("a", "shop"))
    await world.create("member1", pod("b"))
    await world.create("member1", pod("c", "bank"))
    for namespaces, names in ((("shop",), ["a"]), (("bank", "shop"), ["c", "a"]), ((), ["c", "b", "a"])):
        world.coverage.become("member1", {PODS: Wanted(PODS, "Pod", frozenset(namespaces))})
        for version in ("", "?resourceVersion=0"):
            found = await world.get(f"/api/v1/pods{version}")
            assert [name for _, name in origins(found)] == names
    world.coverage.become("member1", {PODS: Wanted(PODS, "Pod", frozenset(("shop",)))})
    assert (await world.get(f"{PODS_PATH}/b", status=404))["reason"] == "NotFound"


async def test_what_no_registry_selects_comes_from_the_control_plane(world: ViewWorld) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "here", "namespace": "default"}}
    await world.control.create("/api/v1/namespaces/default/secrets", secret)
    found = await world.get("/api/v1/namespaces/default/secrets/here")
    assert CACHED_FROM not in json.dumps(found)
    made = await world.ask(
        "POST", "/api/v1/namespaces/default/secrets", {**secret, "metadata": {"name": "x"}}, status=201
    )
    assert made["metadata"]["name"] == "x"
    for path in ("/api", "/apis", "/api/v1", "/version", "/openapi/v3"):
        await world.get(path)


async def test_pull_members_count_while_they_take_requests(world: ViewWorld) -> None:
    await world.create("member1", pod("a"))
    await world.create("member2", pod("b"))
    world.facts["member2"] = MemberFacts(name="member2", access=Access(uid="", mode="Pull"))
    assert origins(await world.get("/api/v1/pods")) == [("member1", "a")]
    assert (await world.get(f"{PODS_PATH}/b", status=404))["reason"] == "NotFound"
    world.taking.add("member2")
    assert origins(await world.get("/api/v1/pods")) == [("member1", "a"), ("member2", "b")]
