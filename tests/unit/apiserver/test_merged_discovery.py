"""Discovery and OpenAPI documents with the versions of aggregated servers, the preferred one first."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from services.apiserver.controllers.aggregation.aggregated_proxy import Backend
from services.apiserver.http import aggregated_discovery as merging


def backend(version: str, priority: int, group: str = "work.example.com") -> Backend:
    spec = {"group": group, "version": version, "versionPriority": priority, "groupPriorityMinimum": 1000}
    made = Backend(f"{version}.{group}", spec)
    made.resources = [{"name": "things", "kind": "Thing", "namespaced": True, "verbs": ["get"]}]
    return made


BACKENDS = [backend("v1alpha1", 10), backend("v1alpha2", 20), backend("v1beta1", 20)]
ORDER = ["v1alpha2", "v1beta1", "v1alpha1"]


@pytest.mark.parametrize("extra", list(permutations(BACKENDS)))
def test_versions_of_other_servers_are_ordered_by_priority(extra: tuple[Backend, ...]) -> None:
    document = merging.aggregated({"items": []}, list(extra), {})
    assert [version["version"] for version in document["items"][0]["versions"]] == ORDER
    group: dict[str, Any] = merging.group("work.example.com", None, list(extra)) or {}
    assert [version["version"] for version in group["versions"]] == ORDER
    assert group["preferredVersion"]["version"] == ORDER[0]


def test_versions_of_the_servers_own_stay_before_those_of_others() -> None:
    own = {"items": [{"metadata": {"name": "work.example.com"}, "versions": [{"version": "v1"}]}]}
    document = merging.aggregated(own, BACKENDS, {})
    assert [version["version"] for version in document["items"][0]["versions"]] == ["v1", *ORDER]


def test_openapi_index_names_documents_of_other_servers() -> None:
    own = {"paths": {"apis/work.example.com/v1beta1": {"serverRelativeURL": "own"}}}
    paths = merging.openapi_index(own, BACKENDS)["paths"]
    assert sorted(paths) == [f"apis/work.example.com/{version}" for version in ("v1alpha1", "v1alpha2", "v1beta1")]
    assert paths["apis/work.example.com/v1alpha1"]["serverRelativeURL"] == (
        "/openapi/v3/apis/work.example.com/v1alpha1"
    )
    assert paths["apis/work.example.com/v1beta1"]["serverRelativeURL"] == "own"


@pytest.mark.parametrize(("priority", "place"), [(20000, 0), (17000, 1), (1000, 2), (10, 2)])
def test_groups_of_other_servers_come_by_their_priority(priority: int, place: int) -> None:
    spec = {"group": "x.example.com", "version": "v1", "groupPriorityMinimum": priority}
    priorities = {"apps": 17800, "own.example.com": 1000}
    groups = {"groups": [{"name": name, "versions": []} for name in priorities]}
    items = {"items": [{"metadata": {"name": name}, "versions": []} for name in priorities]}
    extra = [Backend("v1.x.example.com", spec)]
    names = [one["name"] for one in merging.group_list(groups, extra, priorities)["groups"]]
    assert names.index("x.example.com") == place
    found = merging.aggregated(items, extra, priorities)["items"]
    assert [one["metadata"]["name"] for one in found] == names
