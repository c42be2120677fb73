"""Whether an object has the field types of its kind, so that every later rule may rely on them."""

import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Final

from msgspec import Meta, ValidationError, convert, defstruct

from services._rules.admission.shape_table import SHAPES

_QUANTITY = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?\s*$"
_SCALARS: Final[dict[str, Any]] = {
    "s": str | None,
    "i": Annotated[int, Meta(ge=-(2**31), lt=2**31)] | None,
    "l": Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None,
    "b": bool | None,
    "t": datetime | None,
    "q": Annotated[str, Meta(pattern=_QUANTITY)] | int | float | None,
    "*": Any,
}
_PLACE: Final = re.compile(r"^(?P<what>.*?)(?: - at `\$?\.?(?P<where>.*)`)?$", re.DOTALL)


class ShapeError(ValueError):
    """A field that has the wrong type; the message names the field, what was expected and what was found."""


def check(kind: str, obj: Mapping[str, Any]) -> None:
    """Raises ShapeError where a field does not have the type that the kind prescribes; unknown fields are ignored."""
    try:
        convert(obj, _struct(kind))
    except ValidationError as problem:
        found = _PLACE.match(str(problem))
        where, what = (found["where"], found["what"]) if found else ("", str(problem))
        raise ShapeError(f"{kind} {where}: {what}" if where else f"{kind}: {what}") from None


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
