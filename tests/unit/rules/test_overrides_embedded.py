"""Documents inside text fields: what a change keeps, and how JSON and YAML are written back."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services._rules.overrides import embedded_json, embedded_yaml
from services._rules.overrides.embedded_json import EmbeddedTextError


def setting(path: str, value: Any) -> Callable[[Any], Any]:
    def change(document: Any) -> Any:
        document = embedded_json.expanded(document, path)
        node = document
        *steps, last = path.split("/")[1:]
        for step in steps:
            node = node[int(step) if isinstance(node, list) else step]
        node[last] = value
        return document

    return change


@pytest.mark.parametrize(
    ("text", "path", "value", "expected"),
    [
        ('{"b":1,"a":{"x":1}}', "/a/y", 2, '{"b":1,"a":{"x":1,"y":2}}'),
        ('{ "n" : 1.50, "e": 1e3,\n "o": [ 1 , 2 ] }', "/z", True, '{"n":1.50,"e":1e3,"o":[1,2],"z":true}'),
        ('{"t":"<a & b>"}', "/z", "\u2028", '{"t":"\\u003ca \\u0026 b\\u003e","z":"\\u2028"}'),
        ('[{"a":1},{"a":12345678901234567890123}]', "/0/a", 2, '[{"a":2},{"a":12345678901234567890123}]'),
    ],
)
def test_json_keeps_what_it_does_not_touch(text: str, path: str, value: Any, expected: str) -> None:
    assert embedded_json.changed(text, setting(path, value)) == expected


@pytest.mark.parametrize("text", ["{", '"text"', "1", "null", ' [{"a":1}]', "{} {}"])
def test_a_text_without_a_json_document_is_refused(text: str) -> None:
    with pytest.raises(EmbeddedTextError):
        embedded_json.changed(text, lambda document: document)


def test_an_empty_text_stays_empty() -> None:
    assert embedded_json.changed("", setting("/a", 1)) == ""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: yes", True),
        ("a: y", True),
        ("a: off", False),
        ("a: 'yes'", "yes"),
        ("a: ~", None),
        ("a: 010", 8),
        ("a: 0o17", 15),
        ("a: 0x1F", 31),
        ("a: 1_000", 1000),
        ("a: 1.0", 1),
        ("a: 1e3", 1000),
        ("a: -1.5", -1.5),
        ("a: 12:30", "12:30"),
        ("a: 2024-01-02", "2024-01-02"),
        ("a: 08", 8),
        ("a: 1.2.3", "1.2.3"),
        ("a: !Ref b", "b"),
        ("x: &x {b: 1}\na:\n  <<: *x\n  c: 2", {"b": 1, "c": 2}),
    ],
)
def test_scalars_read_as_kubernetes_tools_read_them(text: str, value: Any) -> None:
    assert embedded_yaml.load(text)["a"] == value


@pytest.mark.parametrize("text", ["a: [", "a: .inf", "? [a]\n: b", "a: *b"])
def test_yaml_without_a_json_form_is_refused(text: str) -> None:
    with pytest.raises(EmbeddedTextError):
        embedded_yaml.load(text)


@pytest.mark.parametrize("text", ["", "just a text", "1"])
def test_only_a_mapping_or_list_can_be_changed(text: str) -> None:
    with pytest.raises(EmbeddedTextError):
        embedded_yaml.changed(text, lambda document: document)


def test_keys_of_other_types_become_texts() -> None:
    assert embedded_yaml.load("1: a\ntrue: b\n1.5: c") == {"1": "a", "true": "b", "1.5": "c"}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"port": 2, "host": "h"}, "host: h\nport: 2\n"),
        ({"b": [1, {"c": None}], "a": {}}, "a: {}\nb:\n- 1\n- c: null\n"),
        ({"k10": 1, "k9": 2, "_": 3}, "_: 3\nk9: 2\nk10: 1\n"),
        ({"a": "yes", "b": "y", "c": "1", "d": ""}, 'a: "yes"\nb: "y"\nc: "1"\nd: ""\n'),
        ({"a": "12:30", "b": "2024-01-02", "c": "2024-13-02"}, 'a: "12:30"\nb: "2024-01-02"\nc: 2024-13-02\n'),
        ({"a": "x: y", "b": "- x"}, "a: 'x: y'\nb: '- x'\n"),
        ({"a": "one\ntwo\n"}, "a: |\n  one\n  two\n"),
        ({"a": 1.5, "b": 12345678.5, "c": 0.00001, "d": 3.0}, "a: 1.5\nb: 1.23456785e+07\nc: 1e-05\nd: 3\n"),
        ({"a": True, "b": "größe"}, "a: true\nb: größe\n"),
        ([], "[]\n"),
    ],
)
def test_yaml_is_written_in_block_style(document: Any, expected: str) -> None:
    assert embedded_yaml.dump(document) == expected


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.text(alphabet=st.characters(exclude_categories=("Cs", "Cc")), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab1._-/ :#'", max_size=6), inner, max_size=3),
    max_leaves=12,
)


@given(JSON_VALUES)
def test_what_is_written_reads_back_the_same(document: Any) -> None:
    assert embedded_yaml.load(embedded_yaml.dump(document)) == document


@given(st.text(alphabet="0123456789.:-+eEynoxb_~TZ", max_size=12))
def test_texts_that_look_like_other_values_stay_texts(text: str) -> None:
    assert embedded_yaml.load(embedded_yaml.dump([text])) == [text]
