"""Checks that a manifest has the types its kind prescribes, so that interpretation may rely on them.

The shapes are written down in shape_table.py; the check itself runs in msgspec and is built when a kind is first seen.
"""

import re
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Final

from msgspec import Meta, ValidationError, convert, defstruct

from services._rules.interpreter.base import InterpretError, Manifest
from services._rules.interpreter.shape_table import SHAPES

# A number with a zero fraction passes for a whole number, as it does for a Kubernetes client.
_Whole = int | Annotated[float, Meta(multiple_of=1)] | None
_Quantity = (
    Annotated[str, Meta(pattern=r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?\s*$")]
    | int
    | float
    | None
)
_SCALARS: Final[dict[str, Any]] = {
    "s": str | None,
    "i": _Whole,
    "b": bool | None,
    "t": datetime | None,
    "q": _Quantity,
    "x": int | Annotated[float, Meta(multiple_of=1)] | str | None,
    "*": Any,
}
_PLACE: Final = re.compile(r"^(?P<what>.*?)(?: - at `\$?\.?(?P<where>.*)`)?$", re.DOTALL)


def check_object(kind: str, obj: Manifest) -> None:
    """Raises InterpretError, with the field, where the manifest does not have the shape of its (native) kind."""
    _check(kind, obj, "")


def check_status(kind: str, status: object, field: str = "status") -> None:
    """Raises InterpretError where a status does not have the shape that its kind prescribes."""
    _check(kind + "Status", status, field)


def _check(shape: str, value: object, field: str) -> None:
    try:
        convert(value, _struct(shape))
    except ValidationError as problem:
        found = _PLACE.match(str(problem))
        what, where = (found["what"], found["where"] or "") if found else (str(problem), "")
        raise InterpretError(what, ".".join(part for part in (field, where) if part)) from None


@cache
def _struct(shape: str) -> Any:
    fields: list[tuple[str, Any, Any]] = []
    for entry in SHAPES[shape].split():
        names, _, code = entry.partition(":")
        kind = _type(code)
        fields.extend((name, kind, None) for name in names.split(","))
    return defstruct(shape, fields, gc=False)


def _type(code: str) -> Any:
    if code in _SCALARS:
        return _SCALARS[code]
    if code[0] == "[":
        return list[_type(code[1:-1])] | None  # type: ignore[misc] # built at run time
    if code[0] == "{":
        return dict[str, _type(code[1:-1])] | None  # type: ignore[misc] # built at run time
    return _struct(code) | None
