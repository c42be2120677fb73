"""What definitions are refused for, rule by rule, and that the product's own are not."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from services.apiserver.crds.checks.demands import Demands
from services.apiserver.crds.checks.schema_formats import format_warnings
from services.apiserver.crds.definition import check_definition, check_definition_update
from services.apiserver.crds.schema_rules import check_schema
from services.apiserver.crds.structural import every_schema
from tests.support.case_files import Case, cases_of
from tests.unit.apiserver.test_crds_definitions import crd, kind

CRDS = Path(__file__).parents[3] / "k8s" / "crds"
X = "properties[spec].properties[x]"
TEXTS = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}


def spec_of(x: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": x}}}}


@pytest.mark.parametrize("case", cases_of(Path(__file__).with_name("schema_refusals.yaml")))
def test_schemas_are_refused_as_kubernetes_does(case: Case) -> None:
    begin = "" if case.get("whole") or "schema" in case else f"{X}."
    schema = case["schema"] if "schema" in case else spec_of(case["x"])
    errors = check_schema(schema, "s", Demands(), status=case.get("status", False))
    found = [
        [error.reason.removeprefix("FieldValue"), error.field.removeprefix("s").removeprefix(".")] for error in errors
    ]
    assert sorted(found) == sorted([reason, begin + field] for reason, field in case["causes"])


def documents() -> list[Any]:
    return [
        pytest.param(document, id=f"{path.relative_to(CRDS)}")
        for path in sorted(CRDS.glob("**/*.yaml"))
        for document in yaml.load_all(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        if document and document["kind"] == "CustomResourceDefinition"
    ]


def test_all_folders_of_definitions_are_read() -> None:
    folders = {path.parent for path in CRDS.glob("**/*.yaml") if "CustomResourceDefinition" in path.read_text()}
    assert {Path(str(case.id)).parent for case in documents()} == {path.relative_to(CRDS) for path in folders}


@pytest.mark.parametrize("document", documents())
def test_definitions_of_the_product_are_accepted(document: dict[str, Any]) -> None:
    own = kind()
    own.decode(document)
    own.default(document)
    own.prepare_create(document)
    assert [str(error) for error in own.check(document)] == []
    assert own.warnings(document) == []


def causes(obj: dict[str, Any]) -> list[tuple[str, str]]:
    return [(error.reason.removeprefix("FieldValue"), error.field) for error in check_definition(obj)]


BAD_NAMES = ("singular", "kind", "listKind", "shortNames[0]", "categories[0]")
SPEC_NAME = "spec.versions[0].name"


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (crd(version={"name": ""}), [("Invalid", SPEC_NAME)]),
        (crd(version={"name": "1"}), [("Invalid", SPEC_NAME), ("Invalid", "spec.version")]),
        (crd(version={"selectableFields": [{}]}), [("Required", "spec.selectableFields[0].jsonPath")]),
        (crd(TEXTS, version={"selectableFields": [{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.a"}]}),
         [("Duplicate", "spec.selectableFields[1].jsonPath")]),
        (crd(conversion={"strategy": "Odd"}), [("NotSupported", "spec.conversion.strategy")]),
        (crd(conversion={"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}),
         [("Forbidden", "spec.conversion.conversionReviewVersions")]),
        (crd(names={"plural": "gears", "kind": "A b", "shortNames": ["A"], "categories": ["b c"]}),
         [("Invalid", f"spec.names.{name}") for name in BAD_NAMES]),
    ],
)  # fmt: skip
def test_definitions_are_refused_as_kubernetes_does(obj: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    obj["status"]["storedVersions"] = [version["name"] for version in obj["spec"]["versions"]]
    assert causes(obj) == expected


def two(**second: Any) -> dict[str, Any]:
    obj = crd(TEXTS, version={"subresources": {}})
    first = obj["spec"]["versions"][0]
    obj["spec"]["versions"].append({**first, "name": "v2", "storage": False, **second})
    return obj


def test_what_versions_share_is_told_of_at_the_top() -> None:
    assert causes(two()) == []
    odd = {**TEXTS, "nullable": True}
    own = two(schema={"openAPIV3Schema": odd})
    assert causes(own) == [("Forbidden", "spec.versions[1].schema.openAPIV3Schema.nullable")]
    # A status of any version counts for the schema of all.
    shared = two(subresources={"status": {}})
    for version in shared["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": {**TEXTS, "maxProperties": 1}}
    assert causes(shared) == [("Invalid", "spec.validation.openAPIV3Schema")]
    apart = two(selectableFields=[{"jsonPath": ".spec.a"}])
    assert causes(apart) == [("Invalid", "spec.versions[1].selectableFields")]


def test_the_name_that_is_generated_has_to_be_that_of_the_kind() -> None:
    obj = crd()
    obj["metadata"] = {"generateName": "gears-"}
    assert causes(obj) == [("Invalid", "metadata.generateName")]
    obj["metadata"] = {}
    assert causes(obj) == []


@pytest.mark.parametrize(
    ("old", "worse"),
    [
        ({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}, {"type": "array"}),
        ({"type": "array", "items": {"type": "string", "nullable": True}, "x-kubernetes-list-type": "set"}, {}),
        ({"type": "object", "properties": {}, "default": {"a": 1}}, {"type": "integer", "default": "a"}),
    ],
)
def test_a_definition_keeps_what_it_was_accepted_with(old: dict[str, Any], worse: dict[str, Any]) -> None:
    before = crd(spec_of(old), version={"subresources": {}})
    assert check_definition(before)
    assert check_definition_update(before, before) == []
    after = crd(spec_of(worse), version={"subresources": {}})
    assert check_definition_update(after, before)


def test_established_definitions_need_readable_certificates() -> None:
    webhook = {"clientConfig": {"url": "https://a", "caBundle": "YQ=="}, "conversionReviewVersions": ["v1"]}
    new, old = crd(conversion={"strategy": "Webhook", "webhook": webhook}), crd()
    assert check_definition_update(new, old) == []
    old["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    (error,) = check_definition_update(new, old)
    assert error.field == "spec.conversion.webhookClientConfig.caBundle"
    assert check_definition_update(new, {**new, "status": old["status"]}) == []


def test_unknown_formats_are_warned_of_once() -> None:
    fields = {
        "a": {"type": "string", "format": "foo"},
        "b": {"type": "integer", "format": "foo"},
        "c": {"type": "boolean", "format": "date"},
        "d": {"type": "number", "format": "double"},
        "e": {"type": "string", "anyOf": [{"format": "date-time"}, {"format": "k8s-short-name"}]},
    }
    obj = crd({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}})
    assert causes(obj) == []
    assert format_warnings(obj) == ['unrecognized format "foo"', 'unrecognized format "date"']
    assert kind().change_warnings(obj, crd()) == format_warnings(obj)
    assert kind().change_warnings(obj, obj) == []


def test_what_is_no_schema_is_read_as_items_without_one() -> None:
    body = crd(spec_of({"type": "array", "items": "x"}), version={"subresources": {}})
    kind().decode(body)
    parts = list(every_schema(body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]))
    assert parts[-1] == {"type": "array", "items": None}
    assert causes(body) == [("Required", f"spec.validation.openAPIV3Schema.{X}.items")]


@pytest.mark.parametrize(
    ("given", "kept"), [(9223372036854775808, 9223372036854776000), (3, 3), (1.5, 1.5), (2**53 + 1, 2**53)]
)
def test_bounds_are_kept_as_floats(given: float, kept: float) -> None:
    body = crd(spec_of({"type": "integer", "minimum": given}))
    kind().decode(body)
    assert list(every_schema(body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]))[-1]["minimum"] == kept


def test_an_empty_reason_of_a_rule_is_read() -> None:
    body = crd(spec_of({"type": "string", "x-kubernetes-validations": [{"rule": "true", "reason": ""}]}))
    kind().decode(body)
    where = f"spec.validation.openAPIV3Schema.{X}.x-kubernetes-validations[0].reason"
    assert causes(body) == [("NotSupported", where)]
