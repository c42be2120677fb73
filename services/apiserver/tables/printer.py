"""What a table of one kind consists of: its columns and a function from an object to its cells."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import msgspec

from schemas.manifest import Manifest

Cells = list[Any]
Cell = Callable[[Manifest, dt.datetime], Cells]
"""(object, present time) -> the cells of its row."""


class Column(msgspec.Struct, frozen=True):
    """One column; priority 1 is shown by `-o wide` only."""

    name: str
    type: str = "string"
    priority: int = 0
    description: str = ""
    format: str = ""

    def definition(self) -> Manifest:
        """Return the column as a Table has it."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


NAME = Column("Name", description="Name must be unique within a namespace.", format="name")
AGE = Column("Age", description="How long ago the object was created.")


class Printer(msgspec.Struct, frozen=True):
    """The table of one kind; `conditions` gives a row's conditions, None for none.

    `hidden` are annotations that the metadata of a row leaves out: they belong to a version of the kind, not to it.
    """

    columns: tuple[Column, ...]
    cells: Cell
    conditions: Callable[[Manifest], list[Manifest] | None] | None = None
    hidden: frozenset[str] = frozenset()
    null_rows: bool = False
    """Whether a table without rows has null in place of them."""


def name_of(obj: Manifest) -> str:
    """Return an object's name."""
    return (obj.get("metadata") or {}).get("name") or ""


def part(obj: Manifest, *path: str) -> Any:
    """Return what is at a path of field names; an empty map where there is nothing."""
    node: Any = obj
    for name in path:
        node = node.get(name) if isinstance(node, dict) else None
        if node is None:
            return {}
    return node


def table(
    printer: Printer, objects: list[Manifest], include: str, version: str, columns: bool, now: dt.datetime
) -> Manifest:
    """Return `columnDefinitions` and `rows` of a Table.

    `include` is the request's includeObject (None, Metadata or Object; empty is Metadata), `version` that of
    meta.k8s.io asked for; without `columns` the definitions are null, as in later events of a watch.
    """
    rows = [_row(printer, obj, include, version, now) for obj in objects]
    return {
        "columnDefinitions": [column.definition() for column in printer.columns] if columns else None,
        "rows": None if not rows and printer.null_rows else rows,
    }


def _row(printer: Printer, obj: Manifest, include: str, version: str, now: dt.datetime) -> Manifest:
    row: Manifest = {"cells": printer.cells(obj, now)}
    conditions = printer.conditions(obj) if printer.conditions is not None else None
    if conditions:
        row["conditions"] = conditions
    if include == "None":
        row["object"] = None
    elif include == "Object":
        row["object"] = obj
    else:
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": f"meta.k8s.io/{version}",
            "metadata": _shown(obj.get("metadata") or {}, printer.hidden),
        }
    return row


def _shown(metadata: Manifest, hidden: frozenset[str]) -> Manifest:
    annotations = metadata.get("annotations") or {}
    if not hidden & annotations.keys():
        return metadata
    kept = {name: value for name, value in annotations.items() if name not in hidden}
    rest = {name: value for name, value in metadata.items() if name != "annotations"}
    return {**rest, "annotations": kept} if kept else rest
