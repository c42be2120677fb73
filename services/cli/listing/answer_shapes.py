"""Checks that answers of members have the shape that tables and documents are made of; a member may send anything."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.kube.api import BadAnswer


class _Metadata(Struct):
    name: str
    namespace: str | None = None
    labels: dict[str, str] | None = None


class _Object(Struct):
    metadata: _Metadata


class _RowObject(Struct):
    metadata: _Metadata | None = None


class _Column(Struct):
    name: str
    priority: int = 0


class _Row(Struct):
    cells: list[Any]
    object: _RowObject | None = None


class _Table(Struct, rename="camel"):
    column_definitions: list[_Column] | None = None
    rows: list[_Row] | None = None


class _List(Struct):
    items: list[_Object] | None


def checked(answer: Manifest) -> Manifest:
    """The answer itself: a Table, a list or an object; raises BadAnswer for what is none of them."""
    shape = _Table if answer.get("kind") == "Table" else _List if "items" in answer else _Object
    try:
        msgspec.convert(answer, shape)
    except (msgspec.ValidationError, RecursionError) as error:
        raise BadAnswer(f"it is no {answer.get('kind') or 'object'}: {error}") from None
    return answer
