"""The registry of served kinds: look-up, group order, discovery documents, changes."""

import msgspec
import pytest

from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.kinds.kind_model import Kind, Resource, Subresource
from services.apiserver.kinds.registry import Registry, version_order


@pytest.fixture(scope="module")
def builtin() -> Registry:
    return builtin_registry()


def gear(version: str = "v1", plural: str = "gears", kind: str = "Gear") -> Kind:
    return Kind(Resource(group="example.com", version=version, kind=kind, plural=plural, singular=kind.lower()))


def test_kinds_are_found_by_path_and_by_kind(builtin: Registry) -> None:
    by_path = builtin.find("apps", "v1", "deployments")
    assert by_path is not None
    assert by_path is builtin.by_kind("apps", "v1", "Deployment") is builtin.by_api_version("apps/v1", "Deployment")
    pod = builtin.by_api_version("v1", "Pod")
    assert pod is not None
    assert pod.resource.group_resource == "pods"
    assert builtin.find("apps", "v2", "deployments") is None


def test_every_builtin_kind_has_fields(builtin: Registry) -> None:
    for kind in builtin.all():
        assert kind.schema is not None
        assert kind.schema["properties"]["kind"] == {"type": "string"}, kind.schema_name


def test_groups_come_in_order_of_importance(builtin: Registry) -> None:
    groups = builtin.groups()
    assert groups.index("apps") < groups.index("batch") < groups.index("policy") < groups.index("discovery.k8s.io")
    assert "" not in groups


@pytest.mark.parametrize(
    ("group", "versions"),
    [
        ("policy", ["v1"]),
        ("autoscaling", ["v2", "v1"]),
        ("nothing", []),
    ],
)
def test_versions_start_with_the_preferred(builtin: Registry, group: str, versions: list[str]) -> None:
    assert builtin.versions(group) == versions


def test_no_beta_is_served(builtin: Registry) -> None:
    assert [kind.resource for kind in builtin.all() if "beta" in kind.resource.version] == []


def test_versions_of_one_kind_share_their_stored_objects(builtin: Registry) -> None:
    event = builtin.find("events.k8s.io", "v1", "events")
    assert event is not None
    served = {kind.resource.api_version for kind in builtin.versions_of(event)}
    assert served == {"v1", "events.k8s.io/v1"}


@pytest.mark.parametrize(
    "ordered", [["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]]
)
def test_version_order_is_that_of_kubernetes(ordered: list[str]) -> None:
    assert sorted(set(ordered), key=version_order) == ordered


def test_a_resource_list_names_subresources_after_their_resource(builtin: Registry) -> None:
    document = builtin.api_resource_list("apps", "v1")
    assert document is not None
    names = [item["name"] for item in document["resources"]]
    assert names[names.index("deployments") :][:3] == ["deployments", "deployments/scale", "deployments/status"]
    scale = next(item for item in document["resources"] if item["name"] == "deployments/scale")
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")
    assert document["apiVersion"] == "v1"
    core = builtin.api_resource_list("", "v1")
    assert core is not None
    assert "apiVersion" not in core


def test_documents_of_unserved_groups_are_none(builtin: Registry) -> None:
    assert builtin.api_group("example.com") is None
    assert builtin.api_resource_list("apps", "v9") is None


def test_aggregated_discovery_lists_versions_preferred_first(builtin: Registry) -> None:
    document = builtin.aggregated(core=False)
    named = {item["metadata"]["name"]: item for item in document["items"]}
    scaling, batch = named["autoscaling"], named["batch"]
    assert [version["version"] for version in scaling["versions"]] == ["v2", "v1"]
    job = next(item for item in batch["versions"][0]["resources"] if item["resource"] == "jobs")
    assert job["scope"] == "Namespaced"
    assert job["singularResource"] == "job"
    assert job["subresources"][0]["subresource"] == "status"
    assert document["apiVersion"] == "apidiscovery.k8s.io/v2"
    msgspec.json.encode(document)


def test_adding_and_removing_a_kind_shows_in_discovery() -> None:
    registry = builtin_registry()
    before = registry.generation
    assert registry.api_group("example.com") is None
    registry.add_kind(gear())
    registry.add_kind(gear("v2"))
    assert registry.generation > before
    group = registry.api_group("example.com")
    assert group is not None
    assert group["preferredVersion"]["version"] == "v2"
    removed = registry.remove_kind("example.com", "v2", "gears")
    assert removed is not None
    assert registry.versions("example.com") == ["v1"]
    assert registry.by_kind("example.com", "v2", "Gear") is None
    registry.remove_kind("example.com", "v1", "gears")
    assert registry.api_group("example.com") is None
    assert registry.remove_kind("example.com", "v1", "gears") is None


def test_replacing_a_kind_keeps_one_of_it() -> None:
    registry = Registry()
    registry.add_kind(gear())
    second = gear()
    registry.add_kind(second)
    assert list(registry.all()) == [second]
    assert registry.by_kind("example.com", "v1", "Gear") is second


def test_kind_with_two_plurals_survives_removal_of_one() -> None:
    registry = Registry()
    other = gear(plural="cogs")
    registry.add_kind(gear())
    registry.add_kind(other)
    registry.remove_kind("example.com", "v1", "gears")
    assert registry.by_kind("example.com", "v1", "Gear") is other


def test_subresources_are_found_by_name() -> None:
    resource = Resource(group="", version="v1", kind="X", plural="xs", subresources=(Subresource("status"),))
    found = resource.subresource("status")
    assert found is not None
    assert found.verbs == ("get", "patch", "update")
    assert resource.subresource("scale") is None
