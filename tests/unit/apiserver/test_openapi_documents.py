"""OpenAPI documents: content, both encodings, caching by registry state."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.kinds.kind_model import Kind, Resource
from services.apiserver.openapi import documents, proto
from services.apiserver.openapi.definitions import custom_name
from services.apiserver.openapi.serve import OpenApi

PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
GEAR = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "port": {"x-kubernetes-int-or-string": True},
                "note": {"type": "string", "nullable": True},
            },
        }
    },
}


def gear() -> Kind:
    resource = Resource(group="example.com", version="v1", kind="Gear", plural="gears", list_kind="GearList")
    return Kind(resource, schema=GEAR)


@pytest.fixture(scope="module")
def builtin() -> dict[str, Any]:
    return documents.v2(builtin_registry(), "v1.30.0")


def test_definitions_hold_fields_types_and_merge_marks(builtin: dict[str, Any]) -> None:
    spec = builtin["definitions"]["io.k8s.api.core.v1.PodSpec"]
    assert spec["required"] == ["containers"]
    containers = spec["properties"]["containers"]
    assert containers["items"] == {"$ref": "#/definitions/io.k8s.api.core.v1.Container"}
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert spec["properties"]["volumes"]["x-kubernetes-patch-strategy"] == "merge,retainKeys"
    deployment = builtin["definitions"]["io.k8s.api.apps.v1.Deployment"]
    assert deployment["x-kubernetes-group-version-kind"] == [{"group": "apps", "kind": "Deployment", "version": "v1"}]


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_all_references_lead_somewhere(builtin: dict[str, Any]) -> None:
    for reference in set(references(builtin)):
        assert reference.removeprefix("#/definitions/") in builtin["definitions"], reference


@pytest.mark.parametrize(
    ("path", "method", "operation_id"),
    [
        ("/api/v1/pods", "get", "listCoreV1PodForAllNamespaces"),
        ("/api/v1/namespaces/{namespace}/pods", "delete", "deleteCoreV1CollectionNamespacedPod"),
        ("/api/v1/namespaces/{namespace}/pods/{name}/binding", "post", "createCoreV1NamespacedPodBinding"),
        ("/api/v1/namespaces/{name}/finalize", "put", "replaceCoreV1NamespaceFinalize"),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "get", "listRbacAuthorizationV1ClusterRole"),
        (
            "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale",
            "patch",
            "patchAppsV1NamespacedDeploymentScale",
        ),
    ],
)
def test_operations_have_their_names(builtin: dict[str, Any], path: str, method: str, operation_id: str) -> None:
    assert builtin["paths"][path][method]["operationId"] == operation_id


def test_operation_names_are_unique(builtin: dict[str, Any]) -> None:
    names = [
        operation["operationId"]
        for item in builtin["paths"].values()
        for method, operation in item.items()
        if method != "parameters"
    ]
    assert len(names) == len(set(names))


def test_patches_say_that_dry_run_and_validation_work(builtin: dict[str, Any]) -> None:
    operation = builtin["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert {"dryRun", "fieldValidation"} <= {item["name"] for item in operation["parameters"]}
    assert operation["x-kubernetes-group-version-kind"]["kind"] == "Deployment"


def test_custom_kinds_are_described_for_old_clients() -> None:
    registry = builtin_registry()
    registry.add_kind(gear())
    document = documents.v2(registry, "v1.30.0")
    assert custom_name(gear().resource) == "com.example.v1.Gear"
    schema = document["definitions"]["com.example.v1.Gear"]
    spec = schema["properties"]["spec"]["properties"]
    assert spec["size"] == {"type": "integer", "minimum": 1}
    assert spec["free"] == {"x-kubernetes-preserve-unknown-fields": True}
    assert spec["port"] == {"x-kubernetes-int-or-string": True}
    assert spec["note"] == {}
    assert schema["properties"]["metadata"]["$ref"].endswith("meta.v1.ObjectMeta")
    items = document["definitions"]["com.example.v1.GearList"]["properties"]["items"]
    assert items["items"] == {"$ref": "#/definitions/com.example.v1.Gear"}


def test_v3_has_one_document_per_group_and_version() -> None:
    registry = builtin_registry()
    registry.add_kind(gear())
    api = OpenApi(registry)
    index_document = api.find("/openapi/v3")
    assert index_document is not None
    index = msgspec.json.decode(index_document.body)["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/example.com/v1"} <= index.keys()
    for name, entry in index.items():
        path, _, fingerprint = entry["serverRelativeURL"].partition("?hash=")
        found = api.find(path)
        assert found is not None, name
        assert documents.fingerprint(found.body) == fingerprint
        document = msgspec.json.decode(found.body)
        known = document["components"]["schemas"]
        for reference in set(references(document)):
            assert reference.removeprefix("#/components/schemas/") in known, (name, reference)
    custom = msgspec.json.decode(api.find("/openapi/v3/apis/example.com/v1").body)  # type: ignore[union-attr]
    schema = custom["components"]["schemas"]["com.example.v1.Gear"]
    assert schema["properties"]["spec"]["properties"]["note"] == {"type": "string", "nullable": True}


@pytest.mark.parametrize("path", ["/openapi/v3/apis/nothing/v1", "/openapi/v3/apis", "/openapi/v4", "/openapi"])
def test_other_paths_have_no_document(path: str) -> None:
    assert OpenApi(builtin_registry()).find(path) is None


def test_documents_follow_the_registry() -> None:
    registry = builtin_registry()
    api = OpenApi(registry)
    first = api.find("/openapi/v2")
    apps = api.find("/openapi/v3/apis/apps/v1")
    assert api.find("/openapi/v2") is first
    registry.add_kind(gear())
    second = api.find("/openapi/v2")
    assert first is not None
    assert second is not None
    assert second.body != first.body
    assert b"com.example.v1.Gear" in second.body
    assert apps == api.find("/openapi/v3/apis/apps/v1")
    registry.remove_kind("example.com", "v1", "gears")
    assert api.find("/openapi/v3/apis/example.com/v1") is None
    again = api.find("/openapi/v2")
    assert again is not None
    assert again.body == first.body


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Read one protobuf message without its description."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 1:
            yield key >> 3, data[at : at + 8]
            at += 8
        else:
            size = varint()
            yield key >> 3, data[at : at + size]
            at += size


def only(data: bytes, number: int) -> list[Any]:
    return [value for key, value in fields(data) if key == number]


def test_the_protobuf_form_holds_the_same_definitions_and_paths(builtin: dict[str, Any]) -> None:
    message = proto.encode(builtin)
    assert only(message, 1) == [b"2.0"]
    [definitions] = only(message, 9)
    named = {only(item, 1)[0].decode(): only(item, 2)[0] for item in only(definitions, 1)}
    assert named.keys() == builtin["definitions"].keys()
    spec = named["io.k8s.api.core.v1.PodSpec"]
    assert only(spec, 19) == [b"containers"]
    [properties] = only(spec, 25)
    containers = next(only(item, 2)[0] for item in only(properties, 1) if only(item, 1) == [b"containers"])
    extensions = {only(item, 1)[0]: only(only(item, 2)[0], 2)[0] for item in only(containers, 31)}
    assert extensions[b"x-kubernetes-patch-merge-key"] == b'"name"\n'
    [paths] = only(message, 8)
    assert len(only(paths, 2)) == len(builtin["paths"])


def test_clients_get_the_form_they_ask_for() -> None:
    api = OpenApi(builtin_registry())
    found = api.find("/openapi/v2", PROTOBUF)
    assert found is not None
    assert found.media == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    plain = api.find("/openapi/v2", "application/json")
    assert plain is not None
    assert plain.media == "text/plain; charset=utf-8"
    assert msgspec.json.decode(plain.body)["swagger"] == "2.0"
    assert api.find("/openapi/v9") is None
