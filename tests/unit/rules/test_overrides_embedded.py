"""Documents inside text fields: what a change keeps, and how JSON and YAML are written back."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services._rules.kubernetes.patch.json_patch import json_patch
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
def test_json_keeps_untouched_values(text: str, path: str, value: Any, expected: str) -> None:
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
        ("x: &x {b: 1}\na: {b: 2, <<: *x}", {"b": 1}),
        ("x: &x {b: 1}\nz: &z {b: 2, c: 3}\na: {<<: [*x, *z]}", {"b": 1, "c": 3}),
        ("a: 1e-7", 1e-7),
        ("a: 1e309", "1e309"),
        ("a: 1.2345678901234567e19", 12345678901234567000),
        ("a: -9223372036854775809", -(2.0**63)),
        ("a: 123456789012345678901234567890", 1.2345678901234568e29),
        ("a: .1_0", 0.1),
        ("a: ._1", "._1"),
        ("a: 0b-1", -1),
        ("a: <<", "<<"),
        ("a: !!int '7'", 7),
        ("a: !!float 3", 3),
        ("a: !!str 3", "3"),
        ("a: !!binary aGk=", "hi"),
        ("a: !!set {x, z}", {"x": None, "z": None}),
        ("a: !!omap [x: 1]", [{"x": 1}]),
        ("a: !!python/name:os.system [x]", ["x"]),
    ],
)
def test_scalars_read_as_kubernetes_tools_read_them(text: str, value: Any) -> None:
    assert embedded_yaml.load(text)["a"] == value


@pytest.mark.parametrize(
    "text",
    [
        "a: [", "a: .inf", "? [a]\n: b", "a: *b", "~: a", "18446744073709551615: a", "a: {<<: 3}", "a: {<<: [1]}",
        "a: !!int x", "a: !!int 1.5", "a: !!null x", "a: !!float yes", "a: !!timestamp 1", "a: !!binary =",
    ],
)  # fmt: skip
def test_yaml_without_a_json_form_is_refused(text: str) -> None:
    with pytest.raises(EmbeddedTextError):
        embedded_yaml.load(text)


def bomb(levels: int) -> str:
    """A text of some hundred bytes that stands for nine times as many values with every level."""
    above = (f"k{level}: &k{level} [{', '.join([f'*k{level - 1}'] * 9)}]" for level in range(1, levels))
    return "\n".join(["k0: &k0 [1, 1, 1, 1, 1, 1, 1, 1, 1]", *above])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: " + "[" * 100_000 + "]" * 100_000, "nested deeper than 100"),
        ("".join(" " * depth + "a:\n" for depth in range(2_000)), "nested deeper than 100"),
        ("- " * 5_000 + "a", "nested deeper than 100"),
        (bomb(30), "aliases stand for more than"),
        ("a: &a [*a]", "*a stands inside of itself"),
        ("a: &a {b: {c: *a}}", "*a stands inside of itself"),
    ],
)
def test_yaml_bomb_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(EmbeddedTextError) as refused:
        embedded_yaml.load(text)
    assert said in str(refused.value)


def test_aliases_within_bounds_are_written_out() -> None:
    assert embedded_yaml.load(bomb(3))["k2"] == [[[1] * 9] * 9] * 9


def test_alias_refers_to_the_last_anchor_of_its_name() -> None:
    assert embedded_yaml.load("a: &x 1\nb: *x\nc: &x [2]\nd: *x\ne: &k f\n*k : g\n") == {
        "a": 1, "b": 1, "c": [2], "d": [2], "e": "f", "f": "g",
    }  # fmt: skip


def test_a_change_behind_an_alias_changes_one_place_only() -> None:
    def change(document: Any) -> Any:
        return json_patch(document, [{"op": "add", "path": "/b/k/-", "value": 9}])

    assert embedded_yaml.changed("a: &x {k: [1]}\nb: *x\n", change) == "a:\n  k:\n  - 1\nb:\n  k:\n  - 1\n  - 9\n"


@pytest.mark.parametrize("text", ["a: *x", "{[a]: b}", "{{}: b}", "a: &x [1]\n*x : b\n", "&a [1, *a]"])
def test_ambiguous_yaml_is_refused(text: str) -> None:
    with pytest.raises(EmbeddedTextError):
        embedded_yaml.load(text)


def test_a_flat_document_may_be_long() -> None:
    document = {f"key{number}": [{"name": "n", "value": "*"}] for number in range(1_000)}
    assert embedded_yaml.load(embedded_yaml.dump(document)) == document


def test_deeply_nested_document_is_not_written_as_yaml() -> None:
    document: Any = []
    for _ in range(5_000):
        document = [document]
    with pytest.raises(EmbeddedTextError, match="nested too deeply"):
        embedded_yaml.dump(document)


def test_deeply_nested_json_is_refused() -> None:
    with pytest.raises(EmbeddedTextError, match="nested too deeply"):
        embedded_json.changed('{"a":' * 100_000 + "1" + "}" * 100_000, lambda document: document)


def test_deeply_nested_document_is_not_written_as_json() -> None:
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(EmbeddedTextError, match="nested too deeply"):
        embedded_json.changed("{}", lambda document: {**document, "a": deep})


@pytest.mark.parametrize("text", ["", "just a text", "1"])
def test_only_a_mapping_or_list_can_be_changed(text: str) -> None:
    with pytest.raises(EmbeddedTextError):
        embedded_yaml.changed(text, lambda document: document)


def test_keys_of_other_types_become_texts() -> None:
    assert embedded_yaml.load("1: a\ntrue: b\n1.5: c") == {"1": "a", "true": "b", "1.5": "c"}
    assert list(embedded_yaml.load("1e16: a\n1234567.5: b\n1e300: c\n0.1: d\n1.0: e")) == [
        "1e+16", "1.2345675e+06", ".inf", "0.1", "1",
    ]  # fmt: skip


_NUMBERS = "a: 1e-07\nb: 1e+23\nc: 1e+20\nd: 1e+20\ne: 18446744073709551615\n"


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
        ({"a": 1e-7, "b": 1e23, "c": 1e20, "d": 10**20, "e": 2**64 - 1}, _NUMBERS),
        ({"a": "b\n\n"}, "a: |+\n  b\n\n"),
        ({"0b-1": "1e309"}, '"0b-1": 1e309\n'),
        ({"a": "2024-01-02T1:2:3Z", "b": "2024-01-02T1:2:3"}, 'a: "2024-01-02T1:2:3Z"\nb: 2024-01-02T1:2:3\n'),
        ({"a1b": 1, "a01b": 2, "a-b": 3, "ab": 4, "a": 5}, "a: 5\na-b: 3\na1b: 1\na01b: 2\nab: 4\n"),
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
def test_written_yaml_reads_back_the_same(document: Any) -> None:
    assert embedded_yaml.load(embedded_yaml.dump(document)) == document


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_read_back_the_same(number: float) -> None:
    (found,) = embedded_yaml.load(embedded_yaml.dump([number]))
    assert float(found) == number


@given(st.text(alphabet="0123456789.:-+eEynoxb_~TZ", max_size=12))
def test_texts_that_look_like_other_values_stay_texts(text: str) -> None:
    assert embedded_yaml.load(embedded_yaml.dump([text])) == [text]
