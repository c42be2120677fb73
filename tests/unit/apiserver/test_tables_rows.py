"""Table rows: what people see of pods, services, nodes, jobs and custom objects."""

import datetime as dt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.tables.build import printer_of
from services.apiserver.tables.human import duration
from services.apiserver.tables.printer import table
from tests.support.case_files import Case, cases_of

NOW = dt.datetime(2026, 1, 1, 12, 0, tzinfo=dt.UTC)
META = {"name": "x", "creationTimestamp": "2026-01-01T11:00:00Z"}


def kind(plural: str, group: str = "", columns: list | None = None) -> Any:
    more = {} if columns is None else {"columns": columns}
    return SimpleNamespace(resource=SimpleNamespace(group=group, plural=plural), **more)


def cells(plural: str, obj: dict, group: str = "", columns: list | None = None) -> list:
    whole = {"metadata": META, **obj}
    return table(printer_of(kind(plural, group, columns)), [whole], "", "v1", True, NOW)["rows"][0]["cells"]


def pod(phase: str) -> dict:
    return {"metadata": META, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": phase}}


@pytest.mark.parametrize("case", cases_of(Path(__file__).with_name("table_rows.yaml")))
def test_cells_of_a_row(case: Case) -> None:
    plural, _, group = case["kind"].partition(".")
    metadata = {**META, **case["object"].get("metadata", {})}
    assert cells(plural, {**case["object"], "metadata": metadata}, group) == case["cells"]


@pytest.mark.parametrize("given", [{}, {"spec": {}, "status": {}}, {"spec": None, "status": None, "data": None}])
def test_every_kind_has_a_cell_for_each_column(given: dict) -> None:
    registry = builtin_registry()
    served = [registry.in_group_version(group, version) for group, version, _, _ in registry.group_versions()]
    for one in (item for kinds in served for item in kinds if not item.virtual):
        found = table(printer_of(one), [{"metadata": {"name": "x"}, **given}], "None", "v1", True, NOW)
        assert len(found["rows"][0]["cells"]) == len(found["columnDefinitions"]), one.resource.group_resource


def test_a_table_without_rows_has_null_for_kinds_without_columns() -> None:
    assert [table(printer_of(kind(name)), [], "", "v1", True, NOW)["rows"] for name in ("limitranges", "pods")] == [
        None,
        [],
    ]


def test_row_of_a_finished_pod_has_a_condition() -> None:
    done, live = pod("Succeeded"), pod("Running")
    rows = table(printer_of(kind("pods")), [done, live], "", "v1", True, NOW)["rows"]
    assert rows[0]["conditions"][0]["reason"] == "Succeeded"
    assert "conditions" not in rows[1]


def test_custom_columns_follow_their_paths_and_types() -> None:
    columns = [
        {"name": "S", "type": "string", "jsonPath": ".spec.s"},
        {"name": "Map", "type": "string", "jsonPath": ".spec.m"},
        {"name": "Bool", "type": "string", "jsonPath": ".spec.b"},
        {"name": "I", "type": "integer", "jsonPath": ".spec.i", "priority": 1},
        {"name": "Wrong", "type": "integer", "jsonPath": ".spec.s"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Missing", "type": "string", "jsonPath": ".spec.q"},
        {"name": "Broken", "type": "string", "jsonPath": ".x["},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    obj = {
        "spec": {"s": "v", "m": {"a": 1}, "b": True, "i": 3},
        "status": {"conditions": [{"type": "Other", "status": "x"}, {"type": "Ready", "status": "True"}]},
    }
    shown = ["x", "v", '{"a":1}', "true", 3, None, "True", None, None, "60m"]
    assert cells("planets", obj, "g.example.com", columns) == shown
    built = table(printer_of(kind("planets", "g.example.com", columns)), [], "", "v1", True, NOW)
    assert [item["priority"] for item in built["columnDefinitions"]] == [0, 0, 0, 0, 1, 0, 0, 0, 0, 0]


def test_kinds_without_columns_have_name_and_time() -> None:
    assert cells("planets", {}, "g.example.com", []) == ["x", "60m"]
    assert cells("limitranges", {}) == ["x", "2026-01-01T11:00:00Z"]


@pytest.mark.parametrize(
    ("include", "shown"),
    [
        ("None", None),
        ("Object", {"metadata": META, "data": {"k": "v"}}),
        ("Metadata", {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1beta1", "metadata": META}),
    ],
)
def test_include_object_selects_the_object_of_a_row(include: str, shown: object) -> None:
    obj = {"metadata": META, "data": {"k": "v"}}
    built = table(printer_of(kind("configmaps")), [obj], include, "v1beta1", False, NOW)
    assert built["columnDefinitions"] is None
    assert built["rows"][0]["object"] == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (600, "10m"),
        (10799, "179m"), (10800, "3h"), (11100, "3h5m"), (28800, "8h"), (172800, "2d"), (176400, "2d1h"),
        (691200, "8d"), (63072000, "2y"), (63158400, "2y1d"), (315360000, "10y"),
    ],
)  # fmt: skip
def test_durations(seconds: int, shown: str) -> None:
    assert duration(dt.timedelta(seconds=seconds)) == shown
