"""CustomResourceDefinition objects: what is refused, the status they get, their other API version, generated ones."""

from pathlib import Path
from typing import Any

import pytest

from services.apiserver.crds.conditions import deleting_instances, is_established, settled, terminating
from services.apiserver.crds.custom_kinds import custom_kinds
from services.apiserver.crds.definition import FINALIZER, check_definition, check_definition_update
from services.apiserver.crds.generate import definitions, rendered, schema_of
from services.apiserver.crds.kind import CustomResourceDefinition
from services.apiserver.kinds.kind_model import DecodeError, Resource
from tests.support.case_files import Case, cases_of

NOW = "2026-01-01T00:00:00Z"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
STRING = {"type": "string"}
SCHEMA = "spec.validation.openAPIV3Schema"


def kind() -> CustomResourceDefinition:
    resource = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
    name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
    return CustomResourceDefinition(resource, name)


def crd(schema: dict | None = None, plural: str = "gears", version: dict | None = None, **spec: Any) -> dict:
    first = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    first["schema"] = {"openAPIV3Schema": ANYTHING if schema is None else schema}
    obj = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.g.example.com"},
        "spec": {
            "group": "g.example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": "Gear"},
            "versions": [{**first, **(version or {})}],
            **spec,
        },
    }
    kind().default(obj)
    kind().prepare_create(obj)
    return obj


def found(obj: dict) -> list[tuple[str, str]]:
    return [(error.field, error.message()) for error in check_definition(obj)]


def fields(obj: dict) -> list[str]:
    return [field for field, _ in found(obj)]


NUMBERED = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}}}
WEBHOOK = "spec.conversion.webhookClientConfig"


def hook(reviews: tuple[str, ...] = ("v1",), **client: Any) -> dict:
    return crd(
        conversion={"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": [*reviews]}}
    )


def column(path: str) -> dict[str, Any]:
    return {"selectableFields": [{"jsonPath": path}]}


@pytest.mark.parametrize(
    ("obj", "field", "text"),
    [
        (crd(version={"deprecationWarning": "x"}), "spec.versions[0].deprecationWarning", "for deprecated"),
        (crd(version={"deprecated": True, "deprecationWarning": ""}), "spec.versions[0].deprecationWarning", "empty"),
        (crd(version={"deprecated": True, "deprecationWarning": "é" * 129}), "spec.versions[0].deprecationWarning",
         "must be <= 256 characters long"),
        (crd(version={"deprecated": True, "deprecationWarning": "aé\n"}), "spec.versions[0].deprecationWarning",
         "non-printable character found at index 3"),
        (hook(url="http://a/b"), f"{WEBHOOK}.url", "'https' is the only allowed URL scheme"),
        (hook(url="https:///b"), f"{WEBHOOK}.url", "host must be specified"),
        (hook(url="https://u:p@a/b"), f"{WEBHOOK}.url", "user information is not permitted"),
        (hook(url="https://a/b?c=d"), f"{WEBHOOK}.url", "query parameters are not permitted"),
        (hook(url="https://a/b#c"), f"{WEBHOOK}.url", "fragments are not permitted"),
        (hook(service={"name": "s"}), f"{WEBHOOK}.service.namespace", "service namespace is required"),
        (hook(service={"name": "s", "namespace": "n", "port": 0}), f"{WEBHOOK}.service.port", "port is not valid"),
        (hook(service={"name": "s", "namespace": "n", "path": "a"}), f"{WEBHOOK}.service.path", "must start with"),
        (hook(service={"name": "s", "namespace": "n", "path": "/a//b"}), f"{WEBHOOK}.service.path", "segment[1] may"),
        (hook(("v1", "v1"), url="https://a"), "spec.conversion.conversionReviewVersions[1]", "duplicate version"),
        (hook(("V!", "v1"), url="https://a"), "spec.conversion.conversionReviewVersions[0]", "DNS-1035 label"),
        (crd(NUMBERED, version=column("")), "spec.selectableFields[0].jsonPath", "Required value"),
        (crd(NUMBERED, version=column(".spec.x")), "spec.selectableFields[0].jsonPath", "not refer to a valid field"),
        (crd(NUMBERED, version=column(".spec['n']")), "spec.selectableFields[0].jsonPath", "array notation is not"),
        (crd(NUMBERED, version=column(".spec")), "spec.selectableFields[0].jsonPath", "must point to a field of type"),
    ],
)  # fmt: skip
def test_details_of_versions_and_webhooks(obj: dict, field: str, text: str) -> None:
    assert [message for where, message in found(obj) if where == field and text in message]


def test_a_definition_makes_fields_selectable() -> None:
    obj = crd(NUMBERED, version=column(".spec.n"))
    assert found(obj) == []
    made = custom_kinds(settled(obj, [], NOW))[0]
    assert "spec.n" in made.selectable_fields()
    assert made.field_selectors({"metadata": {"name": "a"}, "spec": {"n": 3}})["spec.n"] == "3"


def test_valid_definition_gets_defaults() -> None:
    obj = crd()
    assert found(obj) == []
    assert obj["spec"]["names"] == {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"}
    assert obj["spec"]["conversion"] == {"strategy": "None"}
    assert obj["status"]["storedVersions"] == ["v1"]


@pytest.mark.parametrize(
    ("obj", "where"),
    [
        (crd(group="nodots", plural="x"), ["metadata.name", "spec.group"]),
        (crd(scope="Everywhere"), ["spec.scope"]),
        (crd(versions=[]), ["spec.versions", "status.storedVersions"]),
        (crd(names={}), ["metadata.name", "spec.names.plural", "spec.names.singular", "spec.names.kind",
                         "spec.names.listKind"]),
        (crd(version={"name": "V1!"}), ["spec.versions[0].name", "spec.version"]),
        (crd(version={"schema": {}}), ["spec.versions[0].schema.openAPIV3Schema"]),
        (crd(preserveUnknownFields=True), ["spec.preserveUnknownFields"]),
        (crd(conversion={"strategy": "Webhook"}),
         ["spec.conversion.webhookClientConfig", "spec.conversion.conversionReviewVersions"]),
        (crd(names={"plural": "gears", "kind": "Gear", "listKind": "Gear"}), ["spec.names.listKind"]),
        (crd(version={"subresources": {"scale": {"specReplicasPath": "x", "statusReplicasPath": ""}}}),
         ["spec.subresources.scale.specReplicasPath", "spec.subresources.scale.statusReplicasPath"]),
        (crd(version={"additionalPrinterColumns": [{"name": "", "type": "frob", "jsonPath": "x"}]}),
         [f"spec.additionalPrinterColumns[0].{name}" for name in ("name", "type", "JSONPath")]),
    ],
)  # fmt: skip
def test_errors_of_a_definition_name_their_fields(obj: dict, where: list[str]) -> None:
    assert fields(obj) == where


@pytest.mark.parametrize("case", cases_of(Path(__file__).with_name("schema_errors.yaml"), "schemas"))
def test_schemas_have_to_be_structural(case: Case) -> None:
    found_errors = found(crd(case["schema"], version={"subresources": {}}))
    assert (f"{SCHEMA}.{case['name']}", case["error"]) in found_errors


def test_the_root_is_an_object() -> None:
    texts = dict(found(crd({"type": "string"}, version={"subresources": {}})))
    assert texts[f"{SCHEMA}.type"] == 'Invalid value: "string": must be object at the root'
    assert "only" in dict(found(crd({**ANYTHING, "anyOf": [{}]})))[SCHEMA]


def test_an_established_definition_keeps_scope_kind_and_group() -> None:
    old = settled(crd(), [], NOW)
    for change in ({"scope": "Cluster"}, {"group": "other.example.com"}):
        new = {**old, "spec": {**old["spec"], **change}}
        (error,) = check_definition_update(new, old)
        assert (error.field, error.detail) == (f"spec.{next(iter(change))}", "field is immutable")
    removed = {**old, "spec": {**old["spec"], "versions": [{**old["spec"]["versions"][0], "name": "v3"}]}}
    assert "status.storedVersions[0]" in [error.field for error in check_definition_update(removed, old)]


def test_groups_of_kubernetes_need_an_approval() -> None:
    obj = crd(group="x.k8s.io")
    obj["metadata"]["name"] = "gears.x.k8s.io"
    assert fields(obj) == ["metadata.annotations[api-approved.kubernetes.io]"]
    obj["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, experiment"}
    assert found(obj) == []
    condition = settled(obj, [], NOW)["status"]["conditions"][2]
    assert (condition["status"], condition["reason"]) == ("False", "UnapprovedAnnotation")


def test_names_are_accepted_and_the_definition_established_once() -> None:
    first = settled(crd(), [], NOW)
    assert is_established(first)
    assert [item["reason"] for item in first["status"]["conditions"]] == ["NoConflicts", "InitialNamesAccepted"]
    assert first["status"]["acceptedNames"] == first["spec"]["names"]
    assert settled(first, [first], "2030-01-01T00:00:00Z") is first


def test_a_taken_kind_keeps_a_definition_from_being_served() -> None:
    first = settled(crd(names={"plural": "gears", "kind": "Gear", "shortNames": ["gg"]}), [], NOW)
    other = crd(plural="wheels", names={"plural": "wheels", "kind": "Gear", "singular": "wheel", "shortNames": ["gg"]})
    refused = settled(other, [first], NOW)
    accepted, established = refused["status"]["conditions"]
    assert (accepted["status"], accepted["reason"]) == ("False", "ListKindConflict")
    assert accepted["message"] == '"GearList" is already in use'
    assert (established["status"], established["reason"]) == ("False", "NotAccepted")
    assert refused["status"]["acceptedNames"] == {"plural": "wheels", "singular": "wheel", "kind": ""}
    assert is_established(settled(refused, [refused], NOW))


def test_deletion_waits_for_the_instances() -> None:
    marked = terminating(settled(crd(), [], NOW), NOW)
    assert marked["metadata"]["finalizers"] == [FINALIZER]
    busy = deleting_instances(marked, 2, NOW)
    assert busy["metadata"]["finalizers"] == [FINALIZER]
    assert busy["status"]["conditions"][-1]["reason"] == "InstanceDeletionInProgress"
    done = deleting_instances(busy, 0, NOW)
    assert "finalizers" not in done["metadata"]
    assert done["status"]["conditions"][-1]["status"] == "False"


def test_a_new_storage_version_is_remembered() -> None:
    old = settled(crd(), [], NOW)
    first = {**old["spec"]["versions"][0], "storage": False}
    new = {
        **old,
        "metadata": dict(old["metadata"]),
        "spec": {**old["spec"], "versions": [first, {**first, "name": "v2", "storage": True}]},
    }
    kind().prepare_update(new, old)
    assert new["status"]["storedVersions"] == ["v1", "v2"]
    assert new["metadata"]["generation"] == 2
    assert old["status"]["storedVersions"] == ["v1"]


def test_committed_definitions_match_the_generator() -> None:
    folder = Path(__file__).parents[3] / "k8s" / "crds"
    texts = rendered()
    assert {str(path.relative_to(folder)) for path in folder.glob("**/*.yaml")} >= texts.keys()
    stale = [name for name, text in texts.items() if (folder / name).read_text() != text]
    assert stale == [], "run: python -m services.apiserver.crds.generate k8s/crds"


@pytest.mark.parametrize("optional", [False, True])
def test_generated_definitions_are_accepted(optional: bool) -> None:
    generated = definitions(optional=optional)
    assert len(generated) == (4 if optional else 17)
    for obj in generated:
        kind().default(obj)
        kind().prepare_create(obj)
        assert found(obj) == [], obj["metadata"]["name"]


def test_fields_become_a_schema() -> None:
    listed = [
        {"path": ".", "required": False, "type": "object"},
        {"path": ".spec", "required": True, "type": "object"},
        {"path": ".spec.l", "required": False, "type": "array"},
        {"path": ".spec.l[]", "required": False, "type": "object"},
        {"path": ".spec.l[].m", "required": True, "type": "object"},
        {"path": ".spec.l[].m{}", "required": False, "type": "string"},
        {"path": ".spec.open", "required": False, "type": "object"},
    ]
    schema = schema_of(listed)
    item = {
        "type": "object",
        "properties": {"m": {"type": "object", "additionalProperties": STRING}},
        "required": ["m"],
    }
    assert schema["required"] == ["spec"]
    assert schema["properties"]["spec"]["properties"] == {"l": {"type": "array", "items": item}, "open": ANYTHING}


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"items": {"properties": {"a": "x"}}, "type": "array"}, "a.items.properties.a"),
        ({"additionalProperties": 3, "type": "object"}, "a.additionalProperties: expected a schema"),
        ({"additionalProperties": {"items": {"type": 1}}, "type": "object"}, "a.additionalProperties.items.type"),
        ({"anyOf": [{"items": {"properties": []}}]}, "anyOf[0].items.properties"),
    ],
)
def test_schemas_below_items_have_their_shape(schema: Any, place: str) -> None:
    body = {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"a": schema}}}}]}}
    with pytest.raises(DecodeError) as refused:
        kind().decode(body)
    assert place.replace("a.", "properties[a].", 1) in str(refused.value) or place in str(refused.value)
