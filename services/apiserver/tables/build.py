"""The tables of all kinds: built-in ones by their columns in `columns.json`, custom ones by their printer columns."""

import datetime as dt
import importlib.resources
from functools import cache, lru_cache
from typing import Any, Final

import msgspec

from schemas.manifest import Manifest
from services._rules.kubernetes.jsonpath import Find, JSONPathError, compile_path
from services._rules.kubernetes.patch.go_text import go_format
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.tables.cluster import CLUSTER
from services.apiserver.tables.config import CONFIG
from services.apiserver.tables.human import age, parse_time
from services.apiserver.tables.network import NETWORK
from services.apiserver.tables.pods import completed, pod_cells
from services.apiserver.tables.printer import AGE, NAME, Cell, Cells, Column, Printer, name_of
from services.apiserver.tables.workloads import WORKLOADS

_CELLS: Final[dict[str, Cell]] = {"pods": pod_cells, **WORKLOADS, **CLUSTER, **NETWORK, **CONFIG}
_SHARED: Final = {
    "Name": NAME,
    "Age": AGE,
    "Containers": Column("Containers", priority=1, description="Names of each container in the template."),
    "Created At": Column("Created At", "date", description="When the object was created."),
    "Images": Column("Images", priority=1, description="Images referenced by each container in the template."),
    "Selector": Column("Selector", priority=1, description="Labels that choose the pods."),
}
_CREATED: Final[Manifest] = {
    "name": "Age",
    "type": "date",
    "jsonPath": ".metadata.creationTimestamp",
    "description": AGE.description,
}


def _plain(obj: Manifest, now: dt.datetime) -> Cells:  # noqa: ARG001
    return [name_of(obj), (obj.get("metadata") or {}).get("creationTimestamp") or ""]


_PLAIN: Final = Printer((NAME, _SHARED["Created At"]), _plain, null_rows=True)


def _text_column(column: Column) -> Column:
    return msgspec.structs.replace(column, type="string")


@cache
def _built_in() -> dict[str, Printer]:
    """The tables of built-in kinds by resource and group."""
    data = importlib.resources.files(__package__).joinpath("columns.json").read_bytes()
    found = {}
    for name, given in msgspec.json.decode(data, type=dict[str, list[str | Column]]).items():
        columns = tuple(_SHARED[item] if isinstance(item, str) else item for item in given)
        found[name] = Printer(columns, _CELLS[name])
    found["pods"] = msgspec.structs.replace(found["pods"], conditions=completed)
    timed = tuple(item if item.name != "Restarts" else _text_column(item) for item in found["pods"].columns)
    found["pods"] = msgspec.structs.replace(found["pods"], columns=timed)
    hidden = frozenset({"deprecated.daemonset.template.generation"})
    found["daemonsets.apps"] = msgspec.structs.replace(found["daemonsets.apps"], hidden=hidden)
    return found


def printer_of(kind: Kind) -> Printer:
    """Return the table of a kind; kinds without one of their own have name and time of creation."""
    columns = getattr(kind, "columns", None)
    if columns is not None:
        return _custom_printer(msgspec.json.encode(columns or [_CREATED]))
    group, plural = kind.resource.group, kind.resource.plural
    return _built_in().get(f"{plural}.{group}" if group else plural, _PLAIN)


def built_in_printer(name: str) -> Printer:
    """Return the table of a built-in kind by the name of its resource, with its group unless that is the core group."""
    return _built_in()[name]


@lru_cache(maxsize=512)
def _custom_printer(encoded: bytes) -> Printer:
    columns: list[Manifest] = msgspec.json.decode(encoded)
    finds = [(column.get("type", "string"), _find(column.get("jsonPath", ""))) for column in columns]

    def cells(obj: Manifest, now: dt.datetime) -> Cells:
        return [name_of(obj), *(_cell(kind, find, obj, now) for kind, find in finds)]

    return Printer((NAME, *(_column(column) for column in columns)), cells)


def _column(column: Manifest) -> Column:
    path = column.get("jsonPath", "")
    return Column(
        column.get("name", ""),
        column.get("type", "string"),
        column.get("priority") or 0,
        column.get("description") or f"Custom resource definition column (in JSONPath format): {path}",
        column.get("format", ""),
    )


def _find(path: str) -> Find:
    try:
        return compile_path(path)
    except JSONPathError:
        # A definition with such a path is accepted; its column stays empty.
        return lambda _: []


def _cell(kind: str, find: Find, obj: Manifest, now: dt.datetime) -> Any:
    found = find(obj)
    if not found:
        return None
    value = found[0]
    match kind:
        case "string":
            return _text(value)
        case "integer":
            return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        case "number":
            return value if isinstance(value, int | float) and not isinstance(value, bool) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            if not isinstance(value, str):
                return None
            return age(value, now) if parse_time(value) else "<invalid>"
        case _:
            return None


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, dict | list):
        return msgspec.json.encode(value, order="sorted").decode()
    return go_format(value)
