"""Tables, documents and names as kubectl prints them."""

from __future__ import annotations

import yaml

from services.cli.common.printing import as_json, as_yaml, ending_of, table


def test_columns_are_three_spaces_apart_and_lines_have_no_tail() -> None:
    text = table(("name", "ready"), [("nginx-686cc8b5fd", "1/1"), ("web", "")])
    assert text == "NAME               READY\nnginx-686cc8b5fd   1/1\nweb                <none>\n"


def test_without_headers_only_rows_remain() -> None:
    assert table(("name",), [("a",)], no_headers=True) == "a\n"
    assert table(("name",), [], no_headers=True) == ""


def test_a_line_break_in_a_cell_does_not_break_the_row() -> None:
    assert table(("m",), [("a\nb",)]).count("\n") == 2


def test_yaml_reads_back_as_the_same_value() -> None:
    value = {"a": "1", "b": "true", "text": "x\ny\n", "list": [{"z": None}], "number": 1, "date": "2024-01-01", "": "~"}
    text = as_yaml(value)
    assert yaml.safe_load(text) == value
    assert 'a: "1"' in text
    assert "text: |\n" in text


def test_yaml_has_no_aliases() -> None:
    shared = {"x": 1}
    assert "&" not in as_yaml({"a": shared, "b": shared})


def test_json_is_indented_by_four() -> None:
    assert as_json({"a": [1]}) == '{\n    "a": [\n        1\n    ]\n}\n'


def test_names_carry_the_group_of_the_kind() -> None:
    assert ending_of({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "n"}}) == "deployment.apps/n"
    assert ending_of({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n"}}) == "pod/n"
