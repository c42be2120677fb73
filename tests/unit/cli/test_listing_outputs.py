"""What `get` prints beside tables: templates, columns, orders, KYAML; and tables that grow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from services._rules.kubernetes.jsonpath import JSONPathError
from services.cli.common.running import Failed
from services.cli.listing.jsonpath_template import Template
from services.cli.listing.kyaml import as_kyaml
from services.cli.listing.listing_options import Query
from services.cli.listing.merged_tables import GrowingTable, Look, Part
from services.cli.listing.printers import printer_of
from services.cli.listing.sort_order import ordered

PODS = [
    {"metadata": {"name": "web-10", "labels": {"app": "web"}}, "spec": {"cpu": "500m", "ports": [80, 443]}},
    {"metadata": {"name": "web-9"}, "spec": {"cpu": "2", "tier": None}},
]
DOCUMENT: dict[str, Any] = {"kind": "List", "items": PODS}


def printed(output: str, **given: Any) -> str:
    return printer_of(Query(words=("pods",), output=output, **given))([DOCUMENT])


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.items[*].metadata.name}", "web-10 web-9"),
        ("{.items[0].spec.ports}", "[80,443]"),
        ("{.items[0].metadata.labels}", '{"app":"web"}'),
        ("{.items[-1:].metadata.name}!", "web-9!"),
        ('{range .items[*]}{.metadata.name}{"\\t"}{.spec.cpu}{"\\n"}{end}', "web-10\t500m\nweb-9\t2\n"),
        ('{range .items[*]}{range .spec.ports[*]}<{@}>{end}{"}"}{end}', "<80><443>}}"),
        ('{.items[?(@.spec.cpu=="2")].metadata.name}', "web-9"),
        ("{.kind} {.items[0].metadata.name}", "List web-10"),
        ("{.none}", ""),
        ("{$.kind}", "List"),
        ("{..name}", "web-10 web-9"),
    ],
)
def test_jsonpath_templates_are_filled(template: str, text: str) -> None:
    assert printed(f"jsonpath={template}") == text


@pytest.mark.parametrize("text", ["{.a", "{range .a}", "{end}", "{.a[}"])
def test_templates_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(JSONPathError):
        Template(text)


def test_texts_come_from_files_and_from_the_other_flag(tmp_path: Path) -> None:
    (tmp_path / "path").write_text("{.kind}\n")
    (tmp_path / "columns").write_text("NAME CPU\nmetadata.name .spec.cpu\n")
    assert printed(f"jsonpath-file={tmp_path / 'path'}") == "List"
    assert printed("jsonpath", template="{.kind}") == "List"
    assert printed("jsonpath-as-json={.items[*].spec.cpu}").split() == ["[", '"500m",', '"2"', "]"]
    expected = "NAME     CPU\nweb-10   500m\nweb-9    2\n"
    assert printed(f"custom-columns-file={tmp_path / 'columns'}") == expected
    assert printed("custom-columns=NAME:.metadata.name,CPU:{.spec.cpu}") == expected


def test_columns_join_values_and_show_what_is_missing() -> None:
    text = "custom-columns=P:.spec.ports[*],L:.metadata.labels.app,F:.spec.ports[?(@>80)]"
    assert printed(text, no_headers=True).split() == ["80,443", "web", "443", "<none>", "<none>", "<none>"]


def test_names_json_and_kyaml() -> None:
    document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "annotations": {"no": "1"}}}
    print_names = printer_of(Query(words=("deploy",), output="name"))
    assert print_names([document, {"items": [document]}]) == "deployment.apps/a\n" * 2
    values = {**document, "x": [1, "two", True, None, {}, []], "y": [{"a": "no"}, {"b": "\n"}], "e": ""}
    assert yaml.safe_load(as_kyaml(values)) == values
    assert '  apiVersion: "apps/v1",\n' in as_kyaml(values)
    assert '"no": "1"' in as_kyaml(values)


@pytest.mark.parametrize(
    ("path", "order"),
    [
        (".metadata.name", ["web-9", "web-10"]),
        ("spec.cpu", ["web-10", "web-9"]),
        ("{.spec.ports[0]}", ["web-9", "web-10"]),
        ("", ["web-10", "web-9"]),
    ],
)
def test_objects_are_sorted_as_kubectl_sorts(path: str, order: list[str]) -> None:
    found = ordered(PODS, path, lambda item: item)
    assert [item["metadata"]["name"] for item in found] == order  # type: ignore[index]


def test_an_order_that_no_object_has_is_refused() -> None:
    with pytest.raises(Failed, match=r"couldn't find any field with path '\.spec\.nope'"):
        ordered(PODS, ".spec.nope", lambda item: item)


def test_rows_of_a_watch_stay_aligned_and_name_their_change() -> None:
    def part(name: str, event: str) -> Part:
        columns = [{"name": "Name"}, {"name": "Ready"}]
        row = {"cells": [name, "1/1"], "object": {"metadata": {"labels": {"karmada.io/managed": "true"}}}}
        return Part("m1", {"kind": "Table", "columnDefinitions": columns, "rows": [row]}, event=event)

    growing = GrowingTable(Look(events=True))
    assert growing.text([part("longest-name", "ADDED")]).splitlines() == [
        "EVENT      NAME           CLUSTER   READY   ADOPTION",
        "ADDED      longest-name   m1        1/1     Y",
    ]
    assert growing.text([part("a", "ADDED")]) == "ADDED      a              m1        1/1     Y\n"
    assert growing.text([]) == ""
