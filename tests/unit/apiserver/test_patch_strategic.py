"""Strategic merge patch: lists by key, directives, order, and the texts of refusals."""

import copy

import pytest

from services._rules.kubernetes.patch.conversion import check_conversion
from services._rules.kubernetes.patch.json_patch import PatchError
from services._rules.kubernetes.patch.strategic_merge import strategic_merge

KEYED = {"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}
ENV = {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "string"}}}
CONTAINER = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "image": {"type": "string"},
        "command": {"type": "array", "items": {"type": "string"}},
        "env": {"type": "array", "items": {"$ref": "env"}, **KEYED},
    },
}
SCHEMA = {
    "type": "object",
    "properties": {
        "containers": {"type": "array", "items": {"allOf": [{"$ref": "container"}]}, **KEYED},
        "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
        "strategy": {
            "type": "object",
            "x-kubernetes-patch-strategy": "retainKeys",
            "properties": {"type": {"type": "string"}, "rollingUpdate": {"type": "object", "properties": {}}},
        },
        "whole": {"type": "object", "x-kubernetes-patch-strategy": "replace", "properties": {}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "replicas": {"type": "integer", "format": "int32"},
    },
}


def resolve(schema: dict) -> dict:
    return {"env": ENV, "container": CONTAINER}[schema["$ref"]]


def apply(original: dict, patch: object) -> dict:
    kept = copy.deepcopy((original, patch))
    result = strategic_merge(original, patch, SCHEMA, resolve)
    assert (original, patch) == kept
    return result


def names(*items: str) -> list[dict[str, str]]:
    return [{"name": item} for item in items]


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        (names("x", "y"), [{"name": "x", "image": "n"}], [{"name": "x", "image": "n"}, {"name": "y"}]),
        (names("x", "y"), names("z"), names("z", "x", "y")),
        (names("a", "b"), [{"name": "b", "image": "n"}, {"name": "c"}],
         [{"name": "a"}, {"name": "b", "image": "n"}, {"name": "c"}]),
        (names("x", "y"), [{"name": "x", "$patch": "delete"}], names("y")),
        (names("x", "y"), [{"name": "q", "$patch": "delete"}], names("x", "y")),
        (names("x", "y"), [{"name": "n"}, {"$patch": "replace"}], names("n")),
        ([{"name": "x", "env": names("A", "B")}], [{"name": "x", "env": [{"name": "A", "$patch": "delete"}]}],
         [{"name": "x", "env": names("B")}]),
        ([{"name": "x", "command": ["a", "b"]}], [{"name": "x", "command": ["z"]}],
         [{"name": "x", "command": ["z"]}]),
        ([{"name": "x", "image": "i"}], [{"name": "x", "image": None}], names("x")),
    ],
)  # fmt: skip
def test_lists_merge_by_their_key(before: list, patch: list, after: list) -> None:
    assert apply({"containers": before}, {"containers": patch}) == {"containers": after}


@pytest.mark.parametrize(
    ("order", "patch", "after"),
    [
        (names("z", "x", "y"), None, names("z", "x", "y")),
        (names("new", "y", "z", "x"), names("new"), names("new", "y", "z", "x")),
        (names("y", "x"), [{"name": "z", "$patch": "delete"}], names("y", "x")),
        (names("y"), None, names("x", "y", "z")),
    ],
)
def test_set_element_order_decides_the_order(order: list, patch: list | None, after: list) -> None:
    change = {"$setElementOrder/containers": order} | ({"containers": patch} if patch else {})
    assert apply({"containers": names("x", "y", "z")}, change) == {"containers": after}


def test_set_element_order_must_name_patched_items() -> None:
    patch = {"$setElementOrder/containers": names("y"), "containers": [{"name": "x", "image": "q"}]}
    with pytest.raises(PatchError) as caught:
        apply({"containers": names("x", "y")}, patch)
    assert caught.value.message == (
        "The order in patch list:\n[map[image:q name:x]]\n doesn't match $setElementOrder list:\n[map[name:y]]\n"
    )
    with pytest.raises(PatchError, match=r"expected a \[\]interface {}, but received a string"):
        apply({"containers": names("x")}, {"$setElementOrder/containers": "x"})


def test_scalars_with_merge_strategy_are_a_set() -> None:
    assert apply({"finalizers": ["a", "b"]}, {"finalizers": ["c"]}) == {"finalizers": ["c", "a", "b"]}
    removed = apply({"finalizers": ["c", "a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]})
    assert removed == {"finalizers": ["c", "b"]}
    ordered = {"$setElementOrder/finalizers": ["c", "b"], "finalizers": ["c"]}
    assert apply({"finalizers": ["b", "c"]}, ordered) == {"finalizers": ["c", "b"]}


def test_retain_keys_drops_the_other_keys() -> None:
    before = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2}}}
    assert apply(before, {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}) == {
        "strategy": {"type": "Recreate"}
    }
    with pytest.raises(PatchError, match="invalid patch format of retainKeys") as caught:
        apply(before, {"strategy": {"$retainKeys": ["x"], "type": "Recreate"}})
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("patch", "after"),
    [
        ({"labels": {"$patch": "delete"}}, {"labels": {}}),
        ({"labels": {"$patch": "replace", "n": "1"}}, {"labels": {"n": "1"}}),
        ({"labels": {"l": None, "n": "1"}}, {"labels": {"n": "1"}}),
        ({"labels": None}, {}),
        ({"whole": {"b": 1}}, {"labels": {"l": "1"}, "whole": {"b": 1}}),
        ({"new": {"$retainKeys": ["a"], "a": 1, "n": None}}, {"labels": {"l": "1"}, "new": {"a": 1}}),
    ],
)
def test_maps_merge_and_obey_directives(patch: dict, after: dict) -> None:
    assert apply({"labels": {"l": "1"}}, patch) == after


def test_a_replaced_map_keeps_nothing() -> None:
    assert apply({"whole": {"a": 1}}, {"whole": {"b": 1}}) == {"whole": {"b": 1}}


@pytest.mark.parametrize(
    ("patch", "status", "text"),
    [
        ({"containers": [{"image": "nokey"}]}, 500, "map: map[image:nokey] does not contain declared merge key: name"),
        ({"containers": [{"$patch": "frob", "name": "x"}]}, 500,
         "unknown patch type: frob in map: map[$patch:frob name:x]"),
        ([1], 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (5, 400, "json: cannot unmarshal number into Go value of type map[string]interface {}"),
        ({"$deleteFromPrimitiveList": ["x"]}, 400, "invalid patch format of primitive list"),
        ({"$deleteFromPrimitiveListx/finalizers": ["x"]}, 400, "invalid patch format of primitive list"),
        ({"$setElementOrder": ["x"]}, 400, "invalid patch format of setElementOrder list"),
        ({"$deleteFromPrimitiveList/finalizers": [5]}, 500, "list element types are not identical: [[a] [5]]"),
        ({"finalizers": ["b", 5]}, 500, "list element types are not identical: [[a] [b 5]]"),
        ({"finalizers": [["b"]]}, 422, "the server rejected our request due to an error in our request"),
        ({"$setElementOrder/finalizers": {}}, 500, "expected a []interface {}, but received a map[string]interface {}"),
        ({"$setElementOrder/finalizers": ["a"], "finalizers": None}, 500,
         "expected a []interface {}, but received a %!s(<nil>)"),
        ({"$setElementOrder/containers": ["x"], "containers": names("x")}, 500,
         "expected a map[string]interface {}, but received a string"),
        ({"containers": [{"$patch": 5, "name": "x"}]}, 500,
         "unknown patch type: %!s(int64=5) in map: map[$patch:5 name:x]"),
        ({"$patch": "frob"}, 500, "unknown patch type: frob in map: map[$patch:frob]"),
    ],
)  # fmt: skip
def test_malformed_patches_are_refused(patch: object, status: int, text: str) -> None:
    with pytest.raises(PatchError) as caught:
        apply({"containers": names("x"), "finalizers": ["a"]}, patch)
    assert (caught.value.status, caught.value.message) == (status, text)


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ({"containers": "x"}, "cannot restore slice from string"),
        ({"containers": {"name": "x"}}, "cannot restore slice from map"),
        ({"replicas": "many"}, "unrecognized type: int32"),
        ({"labels": "x"}, "cannot restore map from string"),
        ({"strategy": "x"}, "cannot restore struct from: string"),
        ({"labels": {"a": 1}}, "cannot convert int64 to string"),
    ],
)
def test_types_that_do_not_fit_are_named(patch: dict, text: str) -> None:
    merged = apply({"containers": names("x"), "replicas": 1}, patch)
    with pytest.raises(PatchError) as caught:
        check_conversion(merged, patch, SCHEMA, resolve)
    assert caught.value.status == 422
    assert caught.value.message.endswith(text)
    assert caught.value.details == {
        "causes": [
            {
                "reason": "FieldValueInvalid",
                "message": caught.value.message.removeprefix(' "" is invalid: patch: '),
                "field": "patch",
            }
        ]
    }


def test_an_object_that_fits_passes_conversion() -> None:
    check_conversion({"containers": [{"name": "x", "env": names("A")}], "replicas": 2}, {}, SCHEMA, resolve)


def test_untouched_parts_are_shared() -> None:
    before = {"containers": [{"name": "x", "env": names("A")}, {"name": "y"}], "labels": {"l": "1"}}
    after = apply(before, {"containers": [{"name": "x", "image": "n"}]})
    assert after["labels"] is before["labels"]
    assert after["containers"][1] is before["containers"][1]
    assert after["containers"][0]["env"] is before["containers"][0]["env"]


def test_null_changes_nothing() -> None:
    assert apply({"replicas": 1}, None) == {"replicas": 1}


@pytest.mark.parametrize(
    ("patch", "after"),
    [
        ({"labels": {"a": None, "b": "1"}}, {"labels": {"b": "1"}}),
        ({"labels": {"$patch": "frob"}}, {}),
        ({"containers": [{"name": "x", "$patch": "delete"}]}, {"containers": []}),
        ({"$deleteFromPrimitiveList/finalizers": ["x"]}, {}),
    ],
)
def test_directives_on_what_is_not_there(patch: dict, after: dict) -> None:
    assert strategic_merge({}, patch, SCHEMA, resolve) == after


def test_true_is_no_key_of_one() -> None:
    before = [{"name": 1}, {"name": 1.0}]
    assert apply({"containers": before}, {"containers": [{"name": True}]}) == {"containers": [{"name": True}, *before]}


class Counted(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("ordered", [False, True])
def test_lists_are_not_searched_for_each_item(ordered: bool) -> None:
    many = 2_000
    before = [{"name": Counted(f"n{number}")} for number in range(many)]
    changes = [{"name": Counted(f"n{number}"), "image": "i"} for number in range(many // 2, many + many // 2)]
    patch: dict = {"containers": changes}
    if ordered:
        patch["$setElementOrder/containers"] = [{"name": Counted(item["name"])} for item in changes]
    Counted.compared = 0
    after = strategic_merge({"containers": before}, patch, SCHEMA, resolve)
    assert len(after["containers"]) == many + many // 2
    assert Counted.compared < 20 * many
