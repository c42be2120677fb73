"""What discovery makes of the documents of endpoints that aggregate them, and of those that do not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from services._kit.base.answer_limits import Limits
from services._kit.kube.answers.bodies import TooLarge
from services._kit.kube.answers.discovery_answers import discover, discover_preferred_first
from services._kit.kube.api import ApiError, ApiResource, BadAnswer

AGGREGATED = "as=APIGroupDiscoveryList"


def kind(plural: str, name: str, scope: str = "Namespaced") -> dict[str, Any]:
    return {
        "resource": plural,
        "responseKind": {"group": "", "version": "", "kind": name},
        "scope": scope,
        "verbs": ["get", "list"],
        "shortNames": [plural[:2]],
        "subresources": [{"subresource": "status", "verbs": ["get"]}],
    }


def version(name: str, *kinds: dict[str, Any], freshness: str = "Current") -> dict[str, Any]:
    return {"version": name, "resources": list(kinds), "freshness": freshness}


def aggregated(**groups: list[dict[str, Any]]) -> dict[str, Any]:
    items = [{"metadata": {"name": name}, "versions": versions} for name, versions in groups.items()]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items}


def listed(*kinds: tuple[str, str]) -> dict[str, Any]:
    resources = [{"name": name, "kind": kind, "namespaced": True, "verbs": ["get"]} for name, kind in kinds]
    return {"kind": "APIResourceList", "resources": resources}


CORE = aggregated(**{"": [version("v1", kind("pods", "Pod"), kind("nodes", "Node", "Cluster"))]})
APPS = aggregated(
    apps=[version("v1", kind("deployments", "Deployment"))],
    shop=[version("v2", kind("carts", "Cart")), version("v1", kind("carts", "Cart"), kind("bags", "Bag"))],
)
PLAIN = {
    "kind": "APIGroupList",
    "groups": [
        {
            "name": "shop",
            "versions": [{"groupVersion": f"shop/{name}", "version": name} for name in ("v2", "v1")],
            "preferredVersion": {"groupVersion": "shop/v1", "version": "v1"},
        }
    ],
}


class Endpoint:
    """Answers from documents by path; an aggregated one is under its path with a star."""

    limits = Limits()

    def __init__(self, documents: dict[str, Any]) -> None:
        self.documents = documents
        self.asked: list[str] = []

    async def request(self, method: str, path: str, *, accept: str = "application/json") -> bytes:
        assert method == "GET"
        self.asked.append(path)
        found = self.documents.get(f"{path}*") if AGGREGATED in accept else None
        found = self.documents.get(path) if found is None else found
        if isinstance(found, Exception):
            raise found
        if found is None:
            raise ApiError(404, "NotFound", f"{path} not found")
        return msgspec.json.encode(found)

    async def discover(self, *, preferred: bool = False, left_out: set[str] | None = None) -> list[ApiResource]:
        return await discover(self.request, self.limits, preferred=preferred, left_out=left_out)


def names(found: list[ApiResource]) -> list[str]:
    return [f"{resource.api_version} {resource.name}" for resource in found]


async def test_two_documents_tell_all_where_they_are_aggregated():
    endpoint = Endpoint({"/api*": CORE, "/apis*": APPS})
    found = await endpoint.discover()
    assert names(found) == [
        "v1 pods", "v1 nodes", "apps/v1 deployments", "shop/v2 carts", "shop/v1 carts", "shop/v1 bags",
    ]  # fmt: skip
    assert found[0] == ApiResource("pods", "Pod", True, ("get", "list"), ("po",), (), "", "v1")
    assert not found[1].namespaced
    assert endpoint.asked == ["/apis", "/api"]


async def test_preferred_version_is_the_first_of_an_aggregated_group():
    endpoint = Endpoint({"/api*": CORE, "/apis*": APPS})
    assert names(await endpoint.discover(preferred=True))[2:] == ["apps/v1 deployments", "shop/v2 carts"]
    first = names(await discover_preferred_first(endpoint.request, Limits()))
    assert first[2:] == ["apps/v1 deployments", "shop/v2 carts", "shop/v1 carts", "shop/v1 bags"]


async def test_each_version_is_asked_where_nothing_is_aggregated():
    documents = {
        "/apis": PLAIN,
        "/api/v1": listed(("pods", "Pod"), ("pods/status", "Pod")),
        "/apis/shop/v1": listed(("carts", "Cart")),
        "/apis/shop/v2": listed(("carts", "Cart"), ("bags", "Bag")),
    }
    endpoint = Endpoint(documents)
    assert names(await endpoint.discover()) == ["v1 pods", "shop/v2 carts", "shop/v2 bags", "shop/v1 carts"]
    assert names(await endpoint.discover(preferred=True)) == ["v1 pods", "shop/v1 carts"]
    first = names(await discover_preferred_first(endpoint.request, Limits()))
    assert first == ["v1 pods", "shop/v1 carts", "shop/v2 carts", "shop/v2 bags"]


@pytest.mark.parametrize("refusal", [ApiError(403, "Forbidden", "no"), BadAnswer("no JSON"), None])
async def test_core_group_is_asked_for_where_it_is_not_told(refusal: Exception | None):
    endpoint = Endpoint({"/api*": refusal, "/apis*": APPS, "/api/v1": listed(("pods", "Pod"))})
    assert names(await endpoint.discover())[:2] == ["v1 pods", "apps/v1 deployments"]


async def test_stale_version_without_an_answer_is_left_out():
    stale = aggregated(
        shop=[version("v1", kind("old", "Old"), freshness="Stale")], apps=[version("v1", kind("deployments", "D"))]
    )
    documents = {"/api*": CORE, "/apis*": stale, "/apis/shop/v1": ApiError(503, "ServiceUnavailable", "away")}
    left_out: set[str] = set()
    assert names(await Endpoint(documents).discover(left_out=left_out))[2:] == ["apps/v1 deployments"]
    assert left_out == {"shop/v1"}
    again = Endpoint({**documents, "/apis/shop/v1": listed(("carts", "Cart"))})
    assert "shop/v1 carts" in names(await again.discover())


async def test_document_that_is_too_large_is_read_version_by_version():
    documents = {
        "/apis*": TooLarge("more than 4194304 bytes"),
        "/apis": PLAIN,
        "/api/v1": listed(("pods", "Pod")),
        "/apis/shop/v1": listed(("carts", "Cart")),
        "/apis/shop/v2": listed(("carts", "Cart")),
    }
    assert names(await Endpoint(documents).discover()) == ["v1 pods", "shop/v2 carts", "shop/v1 carts"]


@pytest.mark.parametrize(
    "document",
    [{"kind": "APIResourceList"}, {}, {"kind": "APIGroupDiscoveryList", "items": [{"versions": [{"resources": 3}]}]}],
)
async def test_document_of_another_kind_is_no_discovery(document: dict[str, Any]):
    with pytest.raises(BadAnswer):
        await Endpoint({"/apis": document, "/api/v1": listed()}).discover()


async def test_number_of_versions_and_kinds_is_bounded():
    many = aggregated(**{f"g{number}": [version("v1", kind("as", "A"))] for number in range(30)})
    endpoint = Endpoint({"/api*": CORE, "/apis*": many})
    endpoint.limits = Limits(group_versions=20)
    with pytest.raises(BadAnswer, match="31 group versions, more than 20"):
        await endpoint.discover()
    endpoint.limits = Limits(list_objects=20)
    with pytest.raises(BadAnswer, match="more than 20 kinds"):
        await endpoint.discover()
