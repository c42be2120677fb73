"""Table rows of custom kinds, by the additional printer columns of their definition."""

import datetime as dt
from functools import lru_cache
from typing import Any, Final

import msgspec

from schemas.manifest import Manifest
from services._rules.kubernetes.jsonpath import Find, JSONPathError, compile_path
from services._rules.kubernetes.patch.go_text import go_format
from services.apiserver.tables.human import age, parse_time
from services.apiserver.tables.printer import AGE_TEXT, NAME, Cells, Column, Printer, name_of

_AGE: Final[Manifest] = {
    "name": "Age",
    "type": "date",
    "jsonPath": ".metadata.creationTimestamp",
    "description": AGE_TEXT,
}


def custom_printer(columns: list[Manifest]) -> Printer:
    """Return the table of a custom kind; without columns of its own it has name and age."""
    return _printer(msgspec.json.encode(columns or [_AGE]))


@lru_cache(maxsize=512)
def _printer(encoded: bytes) -> Printer:
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
