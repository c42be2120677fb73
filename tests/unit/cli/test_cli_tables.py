"""Tables of many clusters merged into one."""

from __future__ import annotations

from schemas.manifest import Manifest
from services.cli.listing.merged_tables import Look, Part, merged


def answer(columns: list[tuple[str, int]], *rows: tuple[list[object], Manifest]) -> Manifest:
    return {
        "kind": "Table",
        "columnDefinitions": [{"name": name, "priority": priority} for name, priority in columns],
        "rows": [{"cells": cells, "object": {"metadata": metadata}} for cells, metadata in rows],
    }


COLUMNS = [("Name", 0), ("Ready", 0), ("Age", 0), ("Node", 1)]
MANAGED = {"namespace": "web", "labels": {"karmada.io/managed": "true", "app": "x"}}


def test_cluster_comes_second_and_adoption_last() -> None:
    parts = [
        Part("Karmada", answer(COLUMNS, (["nginx", "2/2", "5m", "n"], MANAGED)), control=True),
        Part("member1", answer(COLUMNS, (["nginx", "1/1", "4m", "n"], MANAGED))),
        Part("member2", answer(COLUMNS, (["other", "1/1", "4m", "n"], {}))),
    ]
    assert merged(parts, Look()).splitlines() == [
        "NAME    CLUSTER   READY   AGE   ADOPTION",
        "nginx   Karmada   2/2     5m    -",
        "nginx   member1   1/1     4m    Y",
        "other   member2   1/1     4m    N",
    ]


def test_wide_shows_every_column_and_namespaces_come_first() -> None:
    parts = [Part("m", answer(COLUMNS, (["nginx", "1/1", "4m", "node-1"], MANAGED)))]
    assert merged(parts, Look(wide=True, namespaces=True)).splitlines() == [
        "NAMESPACE   NAME    CLUSTER   READY   AGE   NODE     ADOPTION",
        "web         nginx   m         1/1     4m    node-1   Y",
    ]


def test_labels_and_prefixes() -> None:
    parts = [Part("m", answer([("Name", 0)], (["a"], MANAGED), (["b"], {})))]
    look = Look(labels=True, label_columns=("example.com/tier", "app"), prefix="pod/", adoption=False)
    assert merged(parts, look).splitlines() == [
        "NAME    CLUSTER   TIER     APP      LABELS",
        "pod/a   m         <none>   x        app=x,karmada.io/managed=true",
        "pod/b   m         <none>   <none>   <none>",
    ]


def test_cells_are_found_by_name_where_servers_differ() -> None:
    parts = [
        Part("new", answer([("Name", 0), ("Extra", 0), ("Age", 0)], (["a", "x", "1s"], {}))),
        Part("old", answer([("Name", 0), ("Age", 0)], (["b", "2s"], {}))),
    ]
    assert merged(parts, Look(adoption=False)).splitlines()[2].split() == ["b", "old", "<none>", "2s"]


def test_plain_lists_and_objects_have_names_too() -> None:
    item = {"metadata": {"name": "a", "creationTimestamp": "2024-01-01T00:00:00Z"}}
    for plain in ({"kind": "List", "items": [item]}, item):
        assert merged([Part("m", plain)], Look()).splitlines()[1].split() == ["a", "m", "2024-01-01T00:00:00Z", "N"]


def test_no_rows_make_no_text() -> None:
    assert merged([Part("m", answer(COLUMNS))], Look()) == ""
