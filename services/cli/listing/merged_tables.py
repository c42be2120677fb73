"""Merges the tables of many clusters into one, with the columns CLUSTER and ADOPTION (docs/sources.md#commands)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.constants import LABEL_TRUE, MANAGED_LABEL
from services.cli.common.printing import GAP, cell, table
from services.cli.listing.sort_order import ordered

TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


class Part(Struct, frozen=True):
    """What one cluster answered about one kind: a Table, or a plain object or list from servers without tables.

    `event` is what kind of change it is, where a watch told of it.
    """

    cluster: str
    answer: Manifest
    control: bool = False
    event: str = ""


class Look(Struct, frozen=True, kw_only=True):
    """How rows shall look. `prefix` is put before names, for outputs of several kinds."""

    wide: bool = False
    namespaces: bool = False
    labels: bool = False
    label_columns: tuple[str, ...] = ()
    no_headers: bool = False
    prefix: str = ""
    adoption: bool = True
    events: bool = False
    order: str = ""


def merged(parts: Sequence[Part], look: Look) -> str:
    """One table of all parts; empty text when there is no row."""
    headers, rows = cells_of(parts, look)
    return table(headers, rows, no_headers=look.no_headers) if rows else ""


def cells_of(parts: Sequence[Part], look: Look) -> tuple[list[str], list[list[object]]]:
    """Headers and cells of the rows of all parts."""
    tables = [(part, _as_table(part.answer)) for part in parts]
    columns: list[str] = []
    for _, answer in tables:
        if answer["rows"]:
            columns = [item["name"] for item in answer["columnDefinitions"] if look.wide or not item.get("priority")]
            break
    if not columns:
        return [], []
    headers = [columns[0], "Cluster", *columns[1:]]
    if look.namespaces:
        headers.insert(0, "Namespace")
    if look.events:
        headers.insert(0, "Event")
    if look.adoption:
        headers.append("Adoption")
    headers += [key.rpartition("/")[2] for key in look.label_columns]
    if look.labels:
        headers.append("Labels")
    rows: list[tuple[Manifest, list[object]]] = []
    for part, answer in tables:
        # Servers of different versions may show different columns: cells are found by the names of theirs.
        places = {item["name"]: index for index, item in enumerate(answer["columnDefinitions"])}
        for row in answer["rows"]:
            given = row["cells"]
            found = [given[places[name]] if places.get(name, len(given)) < len(given) else None for name in columns]
            shown = row.get("object") or {}
            rows.append((shown, _row(part, found, shown.get("metadata") or {}, look)))
    return headers, [cells for _, cells in ordered(rows, look.order, lambda row: row[0])]


def _row(part: Part, cells: list[object], metadata: Manifest, look: Look) -> list[object]:
    labels = metadata.get("labels") or {}
    row = [f"{look.prefix}{cells[0]}", part.cluster, *cells[1:]]
    if look.namespaces:
        row.insert(0, metadata.get("namespace"))
    if look.events:
        row.insert(0, part.event)
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


class GrowingTable:
    """A table whose rows come one after the other: columns grow, what was printed stays."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._widths: list[int] = []
        self._headers: list[str] = []

    def text(self, parts: Sequence[Part]) -> str:
        """The rows of parts as text, below headers where these are others than before."""
        headers, rows = cells_of(parts, self._look)
        lines = [[cell(value) for value in row] for row in rows]
        if not lines:
            return ""
        if headers != self._headers:
            self._headers, self._widths = headers, [0] * len(headers)
            if self._look.events:
                self._widths[0] = len("MODIFIED")
            if not self._look.no_headers:
                lines.insert(0, [header.upper() for header in headers])
        for line in lines:
            self._widths = [max(width, len(text)) for width, text in zip(self._widths, line, strict=True)]
        return "".join(f"{self._padded(line)}\n" for line in lines)

    def _padded(self, line: Sequence[str]) -> str:
        return (" " * GAP).join(text.ljust(width) for text, width in zip(line, self._widths, strict=True)).rstrip()
