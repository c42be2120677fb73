"""Requests of the global proxy go to the cache, to one cluster, or to the control plane."""

from __future__ import annotations

import pytest

from services.apiserver.core.status_errors import ApiError
from services.search.registries.member_facts import Gvr
from services.search.union.holders import refuse_unnamed, sole
from services.search.union.resource_names import Asked, Route, asked_for, refuse_nested, route_of

PODS = Gvr("", "v1", "pods")
DEPLOYMENTS = Gvr("apps", "v1", "deployments")
POD = "/api/v1/namespaces/default/pods/web"


@pytest.mark.parametrize(
    ("method", "path", "query", "verb"),
    [
        ("GET", POD, "", "get"),
        ("HEAD", POD, "", "get"),
        ("GET", POD, "watch=true", "get"),
        ("GET", "/api/v1/pods", "", "list"),
        ("GET", "/api/v1/namespaces/default/pods", "watch=1", "watch"),
        ("GET", "/api/v1/pods", "watch=false", "list"),
        ("GET", "/api/v1/watch/namespaces/default/pods/web", "", "watch"),
        ("POST", "/api/v1/namespaces/default/pods", "", "create"),
        ("PUT", POD, "", "update"),
        ("PATCH", POD, "", "patch"),
        ("DELETE", POD, "", "delete"),
        ("DELETE", "/api/v1/namespaces/default/pods", "", "deletecollection"),
    ],
)
def test_verb_follows_from_method_and_path(method: str, path: str, query: str, verb: str) -> None:
    asked = asked_for(method, path, query)
    assert (asked.verb, asked.gvr) == (verb, PODS)


def test_path_is_taken_apart() -> None:
    asked = asked_for("POST", "/apis/apps/v1/namespaces/shop%2D1/deployments/web/scale", "dryRun=All")
    assert asked.gvr == DEPLOYMENTS
    assert (asked.namespace, asked.name, asked.subresource) == ("shop-1", "web", "scale")
    assert asked.query == {"dryRun": "All"}


@pytest.mark.parametrize(
    ("method", "path", "query", "route"),
    [
        ("GET", POD, "", Route.CACHE),
        ("GET", "/api/v1/pods", "", Route.CACHE),
        ("GET", "/api/v1/pods", "watch=true", Route.CACHE),
        ("GET", f"{POD}/log", "follow=true", Route.CLUSTER),
        ("GET", f"{POD}/status", "", Route.CLUSTER),
        ("POST", f"{POD}/exec", "command=sh", Route.CLUSTER),
        ("POST", "/api/v1/namespaces/default/pods", "", Route.CLUSTER),
        ("PUT", POD, "", Route.CLUSTER),
        ("PATCH", POD, "", Route.CLUSTER),
        ("DELETE", POD, "", Route.CLUSTER),
        ("DELETE", "/api/v1/pods", "", Route.CLUSTER),
    ],
)
def test_selected_resources_go_to_cache_or_cluster(method: str, path: str, query: str, route: Route) -> None:
    asked = asked_for(method, path, query)
    assert route_of(asked, covered=True) is route
    assert route_of(asked, covered=False) is Route.CONTROL_PLANE


@pytest.mark.parametrize("path", ["/", "", "/api", "/api/v1", "/apis", "/apis/apps/v1", "/openapi/v3", "/version"])
def test_documents_come_from_the_control_plane(path: str) -> None:
    assert route_of(asked_for("GET", path, ""), covered=True) is Route.CONTROL_PLANE


def test_proxy_within_the_proxy_is_refused() -> None:
    inner = "/apis/search.karmada.io/v1alpha1/proxying/karmada/proxy/api/v1/pods"
    with pytest.raises(ApiError) as refused:
        refuse_nested(asked_for("GET", inner, ""))
    assert refused.value.code == 400


@pytest.mark.parametrize("path", [POD, "/apis/search.karmada.io/v1alpha1/resourceregistries/a", "/version"])
def test_other_paths_are_no_nesting(path: str) -> None:
    refuse_nested(asked_for("GET", path, ""))


@pytest.mark.parametrize(
    ("verb", "code", "reason"), [("create", 405, "MethodNotAllowed"), ("deletecollection", 404, "NotFound")]
)
def test_requests_without_a_name_lead_to_no_cluster(verb: str, code: int, reason: str) -> None:
    with pytest.raises(ApiError) as refused:
        refuse_unnamed(Asked(verb, "/api/v1/pods", {}, PODS), PODS)
    assert (refused.value.code, refused.value.reason) == (code, reason)


def test_a_request_to_a_named_subresource_has_a_name() -> None:
    refuse_unnamed(asked_for("POST", f"{POD}/exec", ""), PODS)


def test_one_holder_is_the_cluster() -> None:
    assert sole(PODS, "web", ["member1"]) == "member1"


def test_no_holder_is_not_found() -> None:
    with pytest.raises(ApiError) as refused:
        sole(DEPLOYMENTS, "web", [])
    assert refused.value.code == 404
    assert refused.value.details == {"name": "web", "group": "apps", "kind": "deployments"}


def test_several_holders_are_a_conflict_that_names_them() -> None:
    with pytest.raises(ApiError) as refused:
        sole(PODS, "web", ["member2", "member1"])
    assert (refused.value.code, refused.value.reason) == (409, "Conflict")
    assert "ambiguous objects in clusters [member1, member2]" in refused.value.message


def test_a_conflict_of_very_many_clusters_stays_readable() -> None:
    with pytest.raises(ApiError) as refused:
        sole(PODS, "web", [f"member{number}" for number in range(1000)])
    assert "and 980 more" in refused.value.message
    assert len(refused.value.message) < 1000
