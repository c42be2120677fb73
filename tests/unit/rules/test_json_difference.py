"""The difference of two objects, applied to the first, gives the second."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services._rules.kubernetes.patch.json_difference import json_difference
from services._rules.kubernetes.patch.json_patch import json_patch, same_json

KEYS = st.sampled_from(["a", "b", "a/b", "a~b", "~1", "", "0"])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["", "x", "1"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


@given(OBJECTS, OBJECTS)
def test_the_difference_leads_from_one_to_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    kept = msgspec.json.encode(before)
    assert same_json(json_patch(before, json_difference(before, after)), after)
    assert msgspec.json.encode(before) == kept


@given(OBJECTS)
def test_equal_objects_have_no_difference(obj: dict[str, Any]) -> None:
    assert json_difference(obj, msgspec.json.decode(msgspec.json.encode(obj))) == []


@pytest.mark.parametrize(
    ("before", "after", "operations"),
    [
        ({}, {"a": 1}, [{"op": "add", "path": "/a", "value": 1}]),
        ({"a": 1}, {}, [{"op": "remove", "path": "/a"}]),
        ({"a": True}, {"a": 1}, [{"op": "replace", "path": "/a", "value": 1}]),
        ({"a": [1, 2]}, {"a": [1, 3]}, [{"op": "replace", "path": "/a/1", "value": 3}]),
        ({"a": [1, 2]}, {"a": [2]}, [{"op": "replace", "path": "/a", "value": [2]}]),
        ({"a": {"k/~": 1}}, {"a": {"k/~": 2}}, [{"op": "replace", "path": "/a/k~1~0", "value": 2}]),
    ],
)
def test_operations_are_as_small_as_they_can_be(before: Any, after: Any, operations: list[Any]) -> None:
    assert json_difference(before, after) == operations
