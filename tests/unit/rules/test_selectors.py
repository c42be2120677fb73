"""Label selectors in their three spellings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services._rules.kubernetes.selectors import (
    LabelSelectorError,
    Selector,
    compile_expressions,
    compile_selector,
    parse_selector,
)
from services._rules.kubernetes.validation.name_formats import is_label_key, is_label_value


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("", {}, True),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("! a", {"a": "x"}, False),
        ("a=b", {"a": "b"}, True),
        ("a == b , c!=d", {"a": "b"}, True),
        ("a!=b", {"a": "b"}, False),
        ("a=", {"a": ""}, True),
        ("a in (b, c)", {"a": "c"}, True),
        ("a in ()", {"a": ""}, True),
        ("a notin (b,,c)", {"a": ""}, False),
        ("a notin (b)", {}, True),
        ("x in (in,notin)", {"x": "notin"}, True),
        ("in", {"in": "1"}, True),
        ("a>5", {"a": "6"}, True),
        ("a<5", {"a": "6"}, False),
        ("a>5", {"a": "many"}, False),
        ("a=b,c in (d,e),!f", {"a": "b", "c": "e"}, True),
        ("a=b,c in (d,e),!f", {"a": "b", "c": "e", "f": ""}, False),
        ("a==b", {"a": "c"}, False),
        ("!a", {"a": ""}, False),
        ("a notin (b)", {"a": "b"}, False),
        (" example.com/role = db ", {"example.com/role": "db"}, True),
    ],
)
def test_text_selectors(text: str, labels: dict[str, str], matches: bool) -> None:
    assert parse_selector(text).matches(labels) is matches


@pytest.mark.parametrize(
    "text",
    [
        *("a,", ",a", "a,,b", "a b", "a=b c", "a=b=c", "a in b", "a in (b", "a in (b))", "!a in (b)"),
        *("=b", "a>x", "-a", "a=b/c", "a=b!", "UPPER.com/a=b", "()"),
    ],
)
def test_malformed_text_selector_is_refused(text: str) -> None:
    with pytest.raises(LabelSelectorError):
        parse_selector(text)


def test_null_selects_nothing_and_empty_selects_everything() -> None:
    assert not compile_selector(None).matches({})
    assert compile_selector({}).matches({"a": "b"})


def test_all_parts_of_a_structured_selector_must_hold() -> None:
    selector = compile_selector(
        {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["x"]}]}
    )
    assert selector.matches({"a": "1"})
    assert not selector.matches({"a": "1", "b": "x"})
    assert not selector.matches({"b": "y"})


@pytest.mark.parametrize(
    "expression",
    [
        {"key": "a", "operator": "In"},
        {"key": "a", "operator": "Exists", "values": ["x"]},
        {"key": "a", "operator": "Gt", "values": ["1"]},
        {"key": "a b", "operator": "Exists"},
        {"key": "a", "operator": "In", "values": ["not a value"]},
        {"operator": "Exists"},
        "text",
    ],
)
def test_expressions_that_kubernetes_refuses_are_refused(expression: object) -> None:
    with pytest.raises(LabelSelectorError):
        compile_selector({"matchExpressions": [expression]})


def test_node_expressions_compare_numbers() -> None:
    found = compile_expressions([{"key": "cores", "operator": "Gt", "values": ["4"]}], node=True)
    assert Selector(found).matches({"cores": "8"})
    assert not Selector(found).matches({"cores": "4"})
    with pytest.raises(LabelSelectorError):
        compile_expressions([{"key": "cores", "operator": "Gt", "values": ["4", "5"]}], node=True)


def test_keys_and_values_follow_the_length_rules() -> None:
    assert is_label_key("a" * 63)
    assert not is_label_key("a" * 64)
    assert is_label_key("example.com/a")
    assert not is_label_key("Example.com/a")
    assert not is_label_key("/a")
    assert is_label_value("")
    assert not is_label_value("a-")


_names = st.sampled_from(["a", "b", "c"])
_expressions = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        _names,
        st.sampled_from(["In", "NotIn"]),
        st.lists(_names, min_size=1, max_size=3),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator}, _names, st.sampled_from(["Exists", "DoesNotExist"])
    ),
)


@given(st.lists(_expressions, max_size=4), st.dictionaries(_names, _names))
def test_printed_selectors_read_back_to_the_same_meaning(expressions: list[object], labels: dict[str, str]) -> None:
    selector = compile_selector({"matchExpressions": expressions})
    assert parse_selector(str(selector)).matches(labels) is selector.matches(labels)
