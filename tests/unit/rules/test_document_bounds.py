"""How deep documents are and how many values they hold is found without recursion, in time linear in their length."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services._rules.kubernetes.document_bounds import OutOfBounds, check_values, is_deeper, may_be_deep

VALUES = st.recursive(
    st.none() | st.integers() | st.text('[]{},:"\\a', max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("[{,a", max_size=3), inner, max_size=4),
    max_leaves=20,
)


def depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


def count(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(count, value.values()))
    return 1 + sum(map(count, value)) if isinstance(value, list) else 1


@given(VALUES, st.integers(0, 5))
def test_depth_is_that_of_a_recursive_count(value: Any, deepest: int) -> None:
    assert is_deeper(value, deepest) == (depth(value) > deepest)
    if depth(value) > deepest:
        assert may_be_deep(json.dumps(value).encode(), deepest)


@given(VALUES, st.integers(1, 30))
def test_documents_with_too_many_values_are_refused(value: Any, most: int) -> None:
    raw = json.dumps(value).encode()
    try:
        check_values(raw, most)
    except OutOfBounds:
        # An empty map or list counts as two.
        assert 2 * count(value) > most
    else:
        assert count(value) <= most


def test_brackets_in_strings_do_not_count() -> None:
    check_values(b'["' + b"[,{" * 1000 + b'\\"' + b",,," * 1000 + b'"]', 10)


@pytest.mark.parametrize("raw", [b"[" * 1_000_000, b'"' + b"\\" * 1_000_001, b'{"a":"' * 200_000, b"," * 3_000_000])
def test_texts_that_are_no_json_end_as_well(raw: bytes) -> None:
    with pytest.raises(OutOfBounds):
        check_values(raw + b"[" * 1_000_000, 1000)
