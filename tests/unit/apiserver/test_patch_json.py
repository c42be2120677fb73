"""JSON Patch and JSON merge patch: results, refusals, and that originals stay as they are."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services._rules.kubernetes.patch.json_patch import PatchError, json_patch, merge_patch

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3),
    max_leaves=12,
)
OBJECT = st.dictionaries(st.text("abc", max_size=2), JSON, max_size=4)


def op(kind: str, path: str, **more: object) -> dict[str, object]:
    return {"op": kind, "path": path, **more}


@pytest.mark.parametrize(
    ("before", "operations", "after"),
    [
        ({"l": [1, 2]}, [op("add", "/l/0", value=0)], {"l": [0, 1, 2]}),
        ({"l": [1, 2]}, [op("add", "/l/-", value=3)], {"l": [1, 2, 3]}),
        ({"l": [1, 2]}, [op("remove", "/l/-1")], {"l": [1]}),
        ({"l": [1, 2]}, [op("replace", "/l/1", value=9)], {"l": [1, 9]}),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
        ({"a": {"x": 1}}, [{"op": "copy", "from": "/a", "path": "/b"}, op("add", "/b/x", value=2)],
         {"a": {"x": 1}, "b": {"x": 2}}),
        ({"a": {"x/y": 1, "~": 2}}, [op("remove", "/a/x~1y"), op("remove", "/a/~0")], {"a": {}}),
        ({"a": 1}, [op("test", "/missing", value=None)], {"a": 1}),
        ({"d": {}}, [op("add", "/d/a")], {"d": {"a": None}}),
        ({"d": {}}, [op("add", "d/a", value="1")], {"d": {}, "a": "1"}),
        ({"a": 1}, [], {"a": 1}),
    ],
)  # fmt: skip
def test_json_patch_operations(before: dict, operations: list, after: dict) -> None:
    kept = copy.deepcopy(before)
    assert json_patch(before, operations) == after
    assert before == kept


@pytest.mark.parametrize(
    "operations",
    [
        [op("merge", "/a", value=1)],
        [None],
        [{"path": "/a", "value": 1}],
        [op("test", "/a", value=2)],
        [op("test", "/a", value=True)],
        [op("remove", "/missing")],
        [op("replace", "/missing", value=1)],
        [op("add", "/missing/deep", value=1)],
        [op("add", "/a/deep", value=1)],
        [op("add", "/l/5", value=1)],
        [op("add", "/l/x", value=1)],
        [op("remove", "/l/2")],
        [op("add", "", value=1)],
        [op("replace", "", value="x")],
        [op("test", "", value={})],
        [{"op": "copy", "from": "/missing", "path": "/b"}],
        [{"op": "move", "path": "/b"}],
        [{"op": "add", "value": 1}],
        [op("add", 5, value=1)],
    ],
)
def test_operation_that_does_not_apply_is_refused(operations: list) -> None:
    with pytest.raises(PatchError) as caught:
        json_patch({"a": 1, "l": [1, 2]}, operations)
    error = caught.value
    assert (error.status, error.reason, error.details) == (422, "Invalid", {})
    assert error.message == "the server rejected our request due to an error in our request"


@pytest.mark.parametrize(
    ("before", "operations", "after"),
    [
        ({"a": 1}, [op("replace", "/b", value=2)], {"a": 1, "b": 2}),
        ({"a": {}}, [op("replace", "/a/b", value={"c": 1})], {"a": {"b": {"c": 1}}}),
        ({}, [op("replace", "/b")], {"b": None}),
        ({"a": 1}, [{"op": "copy", "from": "/b", "path": "/a"}], {"a": None}),
        ({"a": 1}, [op("replace", "", value={"b": 1})], {"b": 1}),
        ({"a": 1}, [op("test", "", value={"a": 1})], {"a": 1}),
    ],
)
def test_absent_member_is_null_for_an_api_server(before: dict, operations: list, after: dict) -> None:
    assert json_patch(before, operations, absent_is_null=True) == after


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "move", "from": "/missing", "path": "/b"}],
        [op("remove", "/missing")],
        [op("replace", "/missing/deep", value=1)],
        [op("replace", "/l/2", value=1)],
        [{"op": "copy", "from": "/l/2", "path": "/b"}],
        [op("add", "", value={})],
        [op("test", "", value={"a": 1})],
    ],
)
def test_what_an_api_server_refuses_of_absent_members(operations: list) -> None:
    with pytest.raises(PatchError):
        json_patch({"a": 1, "l": [1, 2]}, operations, absent_is_null=True)


@pytest.mark.parametrize("kind", ["add", "replace"])
def test_empty_path_puts_another_document_in_place(kind: str) -> None:
    assert json_patch({"a": 1}, [op(kind, "", value={"b": 2}), op("add", "/c", value=3)]) == {"b": 2, "c": 3}


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"op": "add"}, "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
        (["x"], "json: cannot unmarshal string into Go value of type jsonpatch.Operation"),
        ([True], "json: cannot unmarshal bool into Go value of type jsonpatch.Operation"),
    ],
)
def test_a_document_of_another_form_is_a_bad_request(document: object, text: str) -> None:
    with pytest.raises(PatchError, match=text) as caught:
        json_patch({}, document)
    assert caught.value.status == 400


def test_ten_thousand_operations_are_the_limit() -> None:
    with pytest.raises(PatchError) as caught:
        json_patch({}, [op("add", "/a", value=1)] * 10_001)
    assert caught.value.status == 413


def test_untouched_parts_are_shared() -> None:
    before = {"a": {"x": 1}, "b": {"y": 2}}
    after = json_patch(before, [op("replace", "/a/x", value=2)])
    assert after["b"] is before["b"]
    assert after["a"] is not before["a"]


@given(OBJECT, OBJECT)
def test_a_failing_or_passing_patch_never_changes_the_original(original: dict, value: dict) -> None:
    kept = copy.deepcopy(original)
    for key in list(original):
        try:
            json_patch(original, [op("add", f"/{key}/0", value=value), op("remove", f"/{key}/0/a"), op("remove", "/q")])
        except PatchError:
            continue
    assert original == kept


@given(OBJECT, OBJECT)
def test_merge_patch_sets_every_value_and_removes_every_null(original: dict, patch: dict) -> None:
    kept = copy.deepcopy(original), copy.deepcopy(patch)
    merged = merge_patch(original, patch)
    assert (original, patch) == kept
    for key, value in patch.items():
        if value is None:
            assert key not in merged
        elif not isinstance(value, dict | list):
            assert merged[key] == value
    for key in original.keys() - patch.keys():
        assert merged[key] is original[key]


def test_merge_patch_goes_into_maps_and_replaces_lists() -> None:
    before = {"m": {"a": 1, "b": {"c": 1}}, "l": [1, 2], "s": "x"}
    patch = {"m": {"a": None, "b": {"d": 2}}, "l": [3, None], "s": {"t": 1, "n": None}}
    assert merge_patch(before, patch) == {"m": {"b": {"c": 1, "d": 2}}, "l": [3, None], "s": {"t": 1}}


@pytest.mark.parametrize("patch", ["x", None, 5, True])
def test_merge_patch_wants_an_object_or_a_list(patch: object) -> None:
    with pytest.raises(PatchError):
        merge_patch({}, patch)
    assert merge_patch({"a": 1}, [1, None, {"b": None}]) == [1, None, {}]


def test_null_is_a_json_patch_of_no_operations() -> None:
    assert json_patch({"a": 1}, None, absent_is_null=True) == {"a": 1}
    with pytest.raises(PatchError):
        json_patch({"a": 1}, None)


@pytest.mark.parametrize("value", ["x", 5, None, True])
def test_no_scalar_takes_the_place_of_the_document(value: object) -> None:
    operation = {"op": "replace", "path": "", "value": value}
    assert json_patch({"a": 1}, [operation], absent_is_null=True) == {"a": 1}
    with pytest.raises(PatchError):
        json_patch({"a": 1}, [operation])


def test_copies_that_double_the_object_are_bounded() -> None:
    original = {"spec": {"data": "x" * 100}}
    doubling = [{"op": "copy", "from": "/spec", "path": f"/spec/{number}"} for number in range(100)]
    with pytest.raises(PatchError) as refused:
        json_patch(original, doubling)
    assert (refused.value.status, refused.value.details) == (422, {})
    assert len(json_patch(original, doubling[:10])["spec"]) == 11
