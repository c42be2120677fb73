"""Custom objects: what their schema prunes, defaults and refuses, and how versions convert."""

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.apiserver.crds.custom_kinds import CustomKind, custom_kinds
from services.apiserver.kinds.kind_model import DecodeError
from tests.support.case_files import Case, cases_of

STRING = {"type": "string"}
INTEGER = {"type": "integer"}


def crd(*versions: dict, generation: int = 1, **spec: Any) -> dict:
    names = {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"}
    return {
        "metadata": {"name": "gears.g.example.com", "generation": generation},
        "spec": {"group": "g.example.com", "scope": "Namespaced", "names": names, "versions": list(versions), **spec},
    }


def version(spec: dict, name: str = "v1", *, storage: bool = True, **more: Any) -> dict:
    schema = {"type": "object", "properties": {"spec": {"type": "object", **spec}}}
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}, **more}


def kind_of(properties: dict, **more: Any) -> CustomKind:
    return custom_kinds(crd(version({"properties": properties}, **more)))[0]


def gear(spec: Any, **more: Any) -> dict:
    return {"apiVersion": "g.example.com/v1", "kind": "Gear", "metadata": {"name": "a"}, "spec": spec, **more}


def causes(kind: CustomKind, spec: Any) -> list[tuple[str, str]]:
    obj = gear(spec)
    kind.prune(obj)
    kind.default(obj)
    return [(error.field, error.message()) for error in kind.check(obj)]


def body(field: str, shown: str, text: str) -> tuple[str, str]:
    return field, f"Invalid value: {shown}: {field} in body {text}"


@pytest.mark.parametrize("case", cases_of(Path(__file__).with_name("schema_errors.yaml"), "values"))
def test_value_is_checked_by_its_schema(case: Case) -> None:
    expected = {(case.get("field", "spec.f"), case["error"])} if "error" in case else set()
    kind = kind_of({"f": case["schema"]})
    assert set(causes(kind, {"f": case["value"]})) == expected | {("<nil>", text) for text in case.get("also", ())}


def test_enumeration_error_lists_allowed_values() -> None:
    assert causes(kind_of({"f": {**STRING, "enum": ["a", "b"]}}), {"f": "c"}) == [
        ("spec.f", 'Unsupported value: "c": supported values: "a", "b"')
    ]


def test_missing_required_fields_are_named() -> None:
    inner = {"type": "object", "properties": {"x": STRING}, "required": ["x"]}
    kind = kind_of({"m": {"type": "object", "additionalProperties": inner}, "l": {"type": "array", "items": inner}})
    assert causes(kind, {"m": {"k": {}}, "l": [{}]}) == [
        ("spec.m.k.x", "Required value"),
        ("spec.l[0].x", "Required value"),
    ]


def composed(**rules: Any) -> CustomKind:
    spec = {"properties": dict.fromkeys("abc", INTEGER), **rules}
    return custom_kinds(crd(version(spec)))[0]


def test_one_of_counts_the_alternatives_that_hold() -> None:
    kind = composed(oneOf=[{"required": ["a"]}, {"required": ["b"]}])
    assert causes(kind, {"a": 1}) == []
    text = 'Invalid value: "": "spec" must validate one and only one schema (oneOf). '
    assert causes(kind, {"a": 1, "b": 2}) == [("<nil>", text + "Found 2 valid alternatives")]
    assert causes(kind, {}) == [("<nil>", text + "Found none valid"), ("spec.a", "Required value")]


def test_not_any_of_and_all_of() -> None:
    assert causes(composed(**{"not": {"required": ["c"]}}), {"c": 1}) == [
        ("<nil>", 'Invalid value: "": "spec" must not validate the schema (not)')
    ]
    failing = causes(composed(anyOf=[{"required": ["a"]}, {"required": ["b"]}]), {"c": 1})
    assert failing[0] == ("<nil>", 'Invalid value: "": "spec" must validate at least one schema (anyOf)')
    failing = causes(composed(allOf=[{"required": ["a"]}, {"required": ["b"]}]), {"a": 1})
    assert ("<nil>", 'Invalid value: "": "spec" must validate all the schemas (allOf)') in failing


def test_set_and_map_lists_have_no_duplicates() -> None:
    items = {"type": "object", "properties": {"k": STRING, "v": STRING}, "required": ["k"]}
    kind = kind_of(
        {
            "s": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
            "m": {
                "type": "array",
                "items": items,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
            },
        }
    )
    assert causes(kind, {"s": ["a", "a"]}) == [("spec.s[1]", 'Duplicate value: "a"')]
    assert causes(kind, {"m": [{"k": "1"}, {"k": "1", "v": "x"}]}) == [
        ("spec.m[1]", 'Duplicate value: map[string]interface {}{"k":"1"}')
    ]
    bad = gear({"s": ["a", "a"]})
    assert kind.check_update(copy.deepcopy(bad), bad) == []


def test_pruning_keeps_specified_and_preserved_fields() -> None:
    tight = {"type": "object", "properties": {"a": STRING}}
    kind = kind_of(
        {
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"inner": tight}},
            "any": {"x-kubernetes-preserve-unknown-fields": True},
            "tight": tight,
            "m": {"type": "object", "additionalProperties": tight},
            "l": {"type": "array", "items": tight},
            "tpl": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": tight}},
        }
    )
    both = {"a": "1", "b": 2}
    obj = gear(
        {
            "free": {"x": {"y": [1, None]}, "inner": both},
            "any": [1, {"z": None}],
            "tight": both,
            "m": {"k": both},
            "l": [both],
            "tpl": {"apiVersion": "v1", "kind": "P", "metadata": {"name": "x", "odd": 1}, "spec": both, "gone": 1},
            "gone": 1,
        },
        gone=1,
    )
    kept = copy.deepcopy(obj["spec"])
    spec = obj["spec"]
    kind.prune(obj)
    only = {"a": "1"}
    assert obj == gear(
        {
            "free": {"x": {"y": [1, None]}, "inner": only},
            "any": [1, {"z": None}],
            "tight": only,
            "m": {"k": only},
            "l": [only],
            "tpl": {"apiVersion": "v1", "kind": "P", "metadata": {"name": "x"}, "spec": only},
        }
    )
    assert spec == kept


def test_defaults_fill_in_where_their_parent_is() -> None:
    inner = {"type": "object", "properties": {"x": {**STRING, "default": "dx"}}}
    kind = kind_of(
        {
            "n": {**INTEGER, "default": 5},
            "nullable": {**STRING, "nullable": True, "default": "d"},
            "o": inner,
            "od": {**inner, "default": {}},
            "l": {"type": "array", "items": inner},
            "m": {"type": "object", "additionalProperties": inner},
            "plain": STRING,
        }
    )
    obj = gear({"l": [{}, {"x": "set"}], "m": {"k": {}}, "n": None, "nullable": None, "plain": None})
    kind.default(obj)
    assert obj["spec"] == {
        "n": 5,
        "nullable": None,
        "od": {"x": "dx"},
        "l": [{"x": "dx"}, {"x": "set"}],
        "m": {"k": {"x": "dx"}},
    }
    bare = {"apiVersion": "g.example.com/v1", "kind": "Gear", "metadata": {"name": "a"}}
    kind.default(bare)
    assert "spec" not in bare


VALUES = st.recursive(
    st.none() | st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("afmlx"), inner, max_size=3),
    max_leaves=10,
)
RANDOM = kind_of(
    {
        "a": {**STRING, "default": "d"},
        "f": {
            "type": "object",
            "properties": {"a": {**INTEGER, "default": 1}, "l": {"type": "array", "items": STRING}},
        },
        "m": {
            "type": "object",
            "additionalProperties": {"type": "object", "properties": {"x": {**STRING, "default": "y"}}},
        },
        "l": {"type": "array", "items": {"type": "object", "properties": {"a": {**STRING, "default": "z"}}}},
    }
)  # fmt: skip


@given(VALUES)
def test_pruning_and_defaulting_are_idempotent(spec: Any) -> None:
    kept = copy.deepcopy(spec)
    obj = gear(spec)
    RANDOM.prune(obj)
    RANDOM.default(obj)
    once = copy.deepcopy(obj)
    RANDOM.prune(obj)
    RANDOM.default(obj)
    assert obj == once
    assert spec == kept
    if not RANDOM.check(obj):
        assert RANDOM.unknown_fields(obj) == []


def test_conversion_none_prunes_and_defaults_stored_objects() -> None:
    one = version({"properties": {"a": STRING, "only1": {**STRING, "default": "one"}}}, "v1", storage=False)
    two = version({"properties": {"a": STRING, "only2": {**STRING, "default": "two"}}}, "v2")
    hidden = {**version({"properties": {}}, "v0", storage=False), "served": False}
    v1, v2 = custom_kinds(crd(one, two, hidden))
    stored = v1.to_store(gear({"a": "x", "only1": "keep"}))
    assert stored["apiVersion"] == "g.example.com/v2"
    assert stored["spec"] == {"a": "x", "only2": "two"}
    assert v1.from_store(stored)["spec"] == {"a": "x"}
    assert v2.from_store(stored) is stored
    late = version({"properties": {"a": STRING, "only3": {**STRING, "default": "three"}}}, "v2")
    changed = custom_kinds(crd(one, late, generation=2))[1]
    assert changed.from_store(stored)["spec"] == {"a": "x", "only3": "three"}


def test_a_conversion_webhook_is_asked() -> None:
    asked: list[str] = []

    def convert(obj: dict, api_version: str) -> dict:
        asked.append(api_version)
        return {**obj, "apiVersion": api_version, "spec": {"b": obj["spec"]["a"]}}

    one = version({"properties": {"a": STRING}}, "v1", storage=False)
    two = version({"properties": {"b": STRING}}, "v2")
    v1, _ = custom_kinds(crd(one, two, conversion={"strategy": "Webhook"}), convert)
    assert v1.to_store(gear({"a": "x"}))["spec"] == {"b": "x"}
    assert asked == ["g.example.com/v2"]


def test_embedded_resources_need_a_type_and_good_metadata() -> None:
    kind = kind_of(
        {
            "tpl": {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            }
        }
    )
    assert causes(kind, {"tpl": {"spec": {}}}) == [
        ("spec.tpl.apiVersion", "Required value: must not be empty"),
        ("spec.tpl.kind", "Required value: must not be empty"),
    ]
    bad = gear({"tpl": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a b": 1}}}})
    with pytest.raises(DecodeError, match=r"spec\.tpl\.metadata: Invalid value: .*ReadString: expects"):
        kind.decode(bad)


def test_metadata_of_a_wrong_type_is_quoted_where_it_breaks() -> None:
    kind = kind_of({})
    obj = gear({})
    obj["metadata"] = {"name": "l", "labels": {"a": 1}}
    with pytest.raises(DecodeError) as caught:
        kind.decode(obj)
    assert str(caught.value) == (
        'v1.ObjectMeta.Name: Labels: ReadString: expects " or n, but found 1, error found in #10 byte of '
        '...|ls":{"a":1},"name":"|..., bigger context ...|{"labels":{"a":1},"name":"l"}|...'
    )


def test_decoding_drops_unknown_metadata() -> None:
    kind = kind_of({"i": INTEGER})
    obj = gear({"i": 2.0})
    obj["metadata"]["unknown"] = "x"
    kind.decode(obj, b'{"spec": {"i": 2.0}}')
    assert obj == gear({"i": 2})
    assert type(obj["spec"]["i"]) is int


def test_generation_and_status_follow_the_status_subresource() -> None:
    with_status, without = kind_of({"n": INTEGER}, subresources={"status": {}}), kind_of({"n": INTEGER})
    old = gear({"n": 1}, status={"x": 1})
    old["metadata"]["generation"] = 3
    for kind, expected in ((with_status, 3), (without, 4)):
        new = gear({"n": 1}, status={"x": 2})
        kind.prepare_update(new, old)
        assert new["metadata"]["generation"] == expected
    new = gear({"n": 9}, status={"x": 2}, other=1)
    new["metadata"] = {"name": "a", "labels": {"l": "1"}, "managedFields": [], "resourceVersion": "7"}
    with_status.prepare_status(new, old)
    meta = {"name": "a", "generation": 3, "managedFields": [], "resourceVersion": "7"}
    assert new == {**gear({"n": 1}, status={"x": 2}), "metadata": meta}


def test_scale_limits_replicas() -> None:
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    kind = kind_of({"replicas": {**INTEGER, "minimum": 0}}, subresources={"scale": paths})
    assert kind.scale == paths
    assert causes(kind, {"replicas": -1}) == [
        body("spec.replicas", "-1", "should be greater than or equal to 0"),
        (".spec.replicas", "Invalid value: -1: should be a non-negative integer"),
    ]
    assert [item.name for item in kind.resource.subresources] == ["scale"]


def test_a_deprecated_version_warns() -> None:
    kind = kind_of({}, deprecated=True)
    assert kind.warnings(gear({})) == ["g.example.com/v1 Gear is deprecated"]
    assert kind_of({}).warnings(gear({})) == []


def test_objects_in_what_should_be_no_list_have_unknown_fields() -> None:
    kept = {"x-kubernetes-preserve-unknown-fields": True}
    kind = kind_of({"i": INTEGER, "l": {"type": "array", "items": {"type": "object", "properties": {}}}, "k": kept})
    obj = gear({"i": [{"a": 1}, 5], "l": [{"b": 1}], "k": [{"c": 1}]})
    assert kind.unknown_fields(obj) == ["spec.i[0].a", "spec.l[0].b"]


def test_item_of_a_map_list_that_is_no_object_is_refused_once() -> None:
    items = {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]}
    keyed = {"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    found = [str(error) for error in kind_of({"l": keyed}).validate_create(gear({"l": ["a", "a"]}))]
    text = 'spec.l[0]: Invalid value: "a": must be an object for an array of list-type map'
    assert [error for error in found if "list-type map" in error] == [text]
    assert len(found) == 3
