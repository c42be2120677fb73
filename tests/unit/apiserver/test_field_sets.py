"""Sets of fields: written, read, joined, subtracted and shown."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from services._rules.kubernetes.managed_fields.field_sets import minus, path_text, read_fields, union, write_fields

PATHS = st.sets(st.lists(st.sampled_from(["f:a", "f:b", 'k:{"n":"x"}', 'v:"s"']), min_size=1, max_size=4).map(tuple))


@given(PATHS)
def test_field_sets_survive_writing_and_reading(paths: set) -> None:
    assert read_fields(write_fields(paths)) == paths


def test_paths_are_shown_as_people_write_them() -> None:
    path = ("f:spec", 'k:{"port":80,"protocol":"TCP"}', "f:x", 'v:"s"', "i:3")
    assert path_text(path) == '.spec[port=80,protocol="TCP"].x[="s"][3]'


@given(PATHS, PATHS)
def test_the_union_has_the_fields_of_both(one: set, other: set) -> None:
    left, right = write_fields(one), write_fields(other)
    kept = copy.deepcopy((left, right))
    assert union(left, right) == write_fields(one | other)
    assert (left, right) == kept


@given(PATHS, PATHS)
def test_subtracting_leaves_the_fields_that_only_the_first_has(one: set, other: set) -> None:
    left, right = write_fields(one), write_fields(other)
    kept = copy.deepcopy((left, right))
    assert minus(left, right) == write_fields(one - other)
    assert (left, right) == kept


def test_unchanged_field_set_is_the_same_object() -> None:
    fields = write_fields({("f:a", "f:b"), ("f:c",)})
    assert minus(fields, write_fields({("f:a",), ("f:d", "f:e")})) is fields
    assert union(fields, write_fields({("f:a", "f:b")})) is fields


def test_malformed_field_sets_are_ignored() -> None:
    assert minus({"f:a": 3, "f:b": {}}, {"f:a": {}, "f:b": {}}) == {"f:a": 3}
    assert union({"f:a": 3}, {"f:a": {"f:b": {}}}) == {"f:a": {"f:b": {}}}
    assert read_fields({"f:a": 3, "f:b": {}}) == {("f:b",)}
