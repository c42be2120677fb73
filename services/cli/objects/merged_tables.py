"""Merges the tables of many clusters into one, with the columns CLUSTER and ADOPTION (docs/sources.md#commands)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.constants import LABEL_TRUE, MANAGED_LABEL
from services.cli.common.printing import table

TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


class Part(Struct, frozen=True):
    """What one cluster answered about one kind: a Table, or a plain object or list from servers without tables."""

    cluster: str
    answer: Manifest
    control: bool = False


class Look(Struct, frozen=True, kw_only=True):
    """How rows shall look. `prefix` is put before names, for outputs of several kinds."""

    wide: bool = False
    namespaces: bool = False
    labels: bool = False
    label_columns: tuple[str, ...] = ()
    no_headers: bool = False
    prefix: str = ""
    adoption: bool = True


def merged(parts: Sequence[Part], look: Look) -> str:
    """One table of all parts; empty text when there is no row."""
    tables = [(part, _as_table(part.answer)) for part in parts]
    columns: list[str] = []
    for _, answer in tables:
        if answer["rows"]:
            columns = [item["name"] for item in answer["columnDefinitions"] if look.wide or not item.get("priority")]
            break
    if not columns:
        return ""
    headers = [columns[0], "Cluster", *columns[1:]]
    if look.namespaces:
        headers.insert(0, "Namespace")
    if look.adoption:
        headers.append("Adoption")
    headers += [key.rpartition("/")[2] for key in look.label_columns]
    if look.labels:
        headers.append("Labels")
    rows = []
    for part, answer in tables:
        # Servers of different versions may show different columns: cells are found by the names of theirs.
        places = {item["name"]: index for index, item in enumerate(answer["columnDefinitions"])}
        for row in answer["rows"]:
            cells = [row["cells"][places[name]] if name in places else None for name in columns]
            rows.append(_row(part, cells, (row.get("object") or {}).get("metadata") or {}, look))
    return table(headers, rows, no_headers=look.no_headers)


def _row(part: Part, cells: list[object], metadata: Manifest, look: Look) -> list[object]:
    labels = metadata.get("labels") or {}
    row = [f"{look.prefix}{cells[0]}", part.cluster, *cells[1:]]
    if look.namespaces:
        row.insert(0, metadata.get("namespace"))
    if look.adoption:
        adopted = "Y" if labels.get(MANAGED_LABEL) == LABEL_TRUE else "N"
        row.append("-" if part.control else adopted)
    row += [labels.get(key) for key in look.label_columns]
    if look.labels:
        row.append(",".join(f"{key}={value}" for key, value in sorted(labels.items())))
    return row


def _as_table(answer: Manifest) -> Manifest:
    """The answer itself, or names and times of creation of what is no table."""
    if answer.get("kind") == "Table":
        return {"columnDefinitions": answer.get("columnDefinitions") or [], "rows": answer.get("rows") or []}
    items = answer["items"] or [] if "items" in answer else [answer]
    columns = [{"name": "Name"}, {"name": "Created At"}]
    rows = [
        {"cells": [item["metadata"]["name"], item["metadata"].get("creationTimestamp")], "object": item}
        for item in items
    ]
    return {"columnDefinitions": columns, "rows": rows}
