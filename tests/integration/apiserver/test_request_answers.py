"""What is answered to requests that are odd and no fault of the server's, and what is given out in a dry run."""

from __future__ import annotations

from typing import Any

import pytest

from services.apiserver.controllers.service_allocator import ServiceAllocator
from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.store.memory_store import MemoryStore
from tests.integration.apiserver.core_objects import CM, MERGE, config

SERVICES = "/api/v1/namespaces/default/services"


@pytest.mark.parametrize("header", ["Impersonate_Group", "Impersonate_Uid", "Impersonate_Extra_a"])
async def test_impersonation_without_a_user_is_a_bad_request(client: Any, header: str) -> None:
    for path in ("/version", CM):
        code, answer = await client("GET", path, **{header: "x"})
        assert (code, answer["reason"]) == (400, "BadRequest")


async def test_a_page_may_be_of_any_size(client: Any) -> None:
    await client("POST", CM, config("a"))
    code, page = await client("GET", f"{CM}?limit={(1 << 63) - 1}")
    assert (code, [item["metadata"]["name"] for item in page["items"]]) == (200, ["a"])


async def test_a_merge_patch_that_is_a_list_is_a_bad_request(client: Any) -> None:
    await client("POST", CM, config("a"))
    code, answer = await client("PATCH", f"{CM}/a", [{"op": "add"}], media=MERGE)
    assert (code, answer["reason"]) == (400, "BadRequest")


async def test_a_null_that_is_applied_removes_what_others_set(client: Any) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await client("POST", accounts, {"metadata": {"name": "a"}, "imagePullSecrets": [{"name": "s"}]})
    applied = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}, "imagePullSecrets": None}
    path = f"{accounts}/a?fieldManager=m&force=true"
    code, after = await client("PATCH", path, applied, media="application/apply-patch+yaml")
    assert (code, "imagePullSecrets" in after) == (200, False)


async def test_an_item_without_its_key_is_refused_for_what_it_lacks(client: Any) -> None:
    pods = "/apis/apps/v1/namespaces/default/deployments/d?fieldManager=m&force=true"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    applied = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    code, answer = await client("PATCH", pods, applied, media="application/apply-patch+yaml")
    fields = [cause["field"] for cause in answer["details"]["causes"]]
    assert (code, fields) == (422, [f"spec.template.spec.containers[0].{name}" for name in ("name", "image")])


async def test_deletion_answers_with_the_last_revision(client: Any) -> None:
    _, made = await client("POST", SERVICES, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    code, gone = await client("DELETE", f"{SERVICES}/s")
    assert (code, gone["kind"], gone["metadata"]["uid"]) == (200, "Service", made["metadata"]["uid"])
    assert int(gone["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


async def test_who_deletes_a_job_is_told_of_its_pods_once(client: Any) -> None:
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    for name in ("a", "b"):
        code, answer = await client("POST", jobs, {"metadata": {"name": name}, "spec": {"template": pod}})
        assert code == 201, answer
    told = {}
    for query in ("propagationPolicy=Background&dryRun=All", "dryRun=All"):
        async with client.session.delete(f"{client.server.url}{jobs}?{query}") as response:
            told[query] = response.headers.getall("Warning", [])
    assert [len(texts) for texts in told.values()] == [0, 1]


async def test_unknown_fields_of_a_scale_are_refused_if_strict(client: Any) -> None:
    controllers = "/api/v1/namespaces/default/replicationcontrollers"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await client("POST", controllers, {"metadata": {"name": "r"}, "spec": {"template": template}})
    scale = {"metadata": {"name": "r"}, "spec": {"replicas": 1, "odd": 1}}
    for query, code in (("", 200), ("?fieldValidation=Strict", 400)):
        assert (await client("PUT", f"{controllers}/r/scale{query}", scale))[0] == code


@pytest.mark.parametrize(
    ("attributes", "field"),
    [
        ({"fieldSelector": {}}, "fieldSelector.requirements"),
        ({"labelSelector": {"requirements": [{"key": "a", "operator": "In"}]}}, "labelSelector.requirements[0].values"),
        ({"fieldSelector": {"requirements": [{"operator": "Exists"}]}}, "fieldSelector.requirements[0].key"),
        (
            {"labelSelector": {"rawSelector": "a=b", "requirements": [{"key": "a", "operator": "Newer"}]}},
            "labelSelector.rawSelector",
        ),
    ],
)
async def test_selectors_of_access_reviews_are_checked(client: Any, attributes: dict[str, Any], field: str) -> None:
    reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    spec = {"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods", **attributes}}
    code, answer = await client("POST", reviews, {"spec": spec})
    assert code == 422
    assert [cause["field"] for cause in answer["details"]["causes"]] == [f"spec.resourceAttributes.{field}"]


def test_a_dry_run_gives_out_what_it_does_not_hold() -> None:
    kind = builtin_registry().by_kind("", "v1", "Service")
    assert kind is not None
    # The only address that can be given out.
    allocator = ServiceAllocator(MemoryStore(), "10.0.0.0/30")
    for dry_run in (True, True, False):
        made: dict[str, Any] = {
            "metadata": {"name": "s", "namespace": "n"},
            "spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]},
        }
        allocator(kind, made, None, dry_run=dry_run)
        assert (made["spec"]["clusterIPs"], made["spec"]["ipFamilies"]) == (["10.0.0.1"], ["IPv4"])
    again = {"metadata": {"name": "t", "namespace": "n"}, "spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}}
    with pytest.raises(ApiError, match="already allocated"):
        allocator(kind, again, None, dry_run=True)
    odd = {"metadata": {"name": "t", "namespace": "n"}, "spec": {"ipFamilies": ["IPv6"]}}
    with pytest.raises(ApiError, match="not configured on this cluster"):
        allocator(kind, odd, None, dry_run=True)
