"""Builds the columns and rows of a Table for objects of any kind."""

import datetime as dt
from typing import Any, Final, Protocol

from schemas.manifest import Manifest
from services.apiserver.tables.cluster import CLUSTER
from services.apiserver.tables.config import CONFIG
from services.apiserver.tables.custom import custom_printer
from services.apiserver.tables.network import NETWORK
from services.apiserver.tables.pods import PODS
from services.apiserver.tables.printer import CREATED_TEXT, NAME, Cells, Column, Printer, name_of
from services.apiserver.tables.workloads import WORKLOADS


class TableKind(Protocol):
    """What a table needs to know of a kind: its resource (`group`, `plural`); custom kinds also have `columns`."""

    @property
    def resource(self) -> Any:
        """The names of the kind."""


def _plain(obj: Manifest, now: dt.datetime) -> Cells:  # noqa: ARG001
    return [name_of(obj), (obj.get("metadata") or {}).get("creationTimestamp") or ""]


_PLAIN: Final = Printer((NAME, Column("Created At", "date", description=CREATED_TEXT)), _plain)
_BUILT_IN: Final[dict[tuple[str, str], Printer]] = {("", "pods"): PODS, **WORKLOADS, **CLUSTER, **NETWORK, **CONFIG}


def printer_of(kind: TableKind) -> Printer:
    """Return the table of a kind; kinds without one of their own have name and time of creation."""
    columns = getattr(kind, "columns", None)
    if columns is not None:
        return custom_printer(columns)
    return _BUILT_IN.get((kind.resource.group, kind.resource.plural), _PLAIN)


def table(
    kind: TableKind, objects: list[Manifest], include: str, version: str, columns: bool, now: dt.datetime
) -> Manifest:
    """Return `columnDefinitions` and `rows` of a Table.

    `include` is the request's includeObject (None, Metadata or Object; empty is Metadata), `version` that of
    meta.k8s.io asked for; without `columns` the definitions are null, as in later events of a watch.
    """
    printer = printer_of(kind)
    return {
        "columnDefinitions": [column.definition() for column in printer.columns] if columns else None,
        "rows": [_row(printer, obj, include, version, now) for obj in objects],
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
