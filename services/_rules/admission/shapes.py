"""Whether an object has the field types of its kind, so that every later rule may rely on them."""

import re
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


def checked(kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    """The object, empty values in place of null items of lists and maps; unknown fields stay as they are.

    Raises ShapeError where a field does not have the type that the kind prescribes.
    """
    try:
        convert(obj, _struct(kind))
    except ValidationError as problem:
        found = _PLACE.match(str(problem))
        where, what = (found["where"], found["what"]) if found else ("", str(problem))
        raise ShapeError(f"{kind} {where}: {what}" if where else f"{kind}: {what}") from None
    return _filled(obj, kind)  # type: ignore[no-any-return]


@cache
def _codes(shape: str) -> dict[str, str]:
    found = {}
    for entry in SHAPES[shape].split():
        names, _, code = entry.partition(":")
        found.update(dict.fromkeys(names.split(","), code))
    return found


@cache
def _struct(shape: str) -> Any:
    return defstruct(shape, [(name, _type(code), None) for name, code in _codes(shape).items()], gc=False)


def _filled(value: Any, code: str) -> Any:
    """The value without null items; where there are none, the value itself."""
    if value is None or code in _SCALARS:
        return value
    filled: Any
    if code[0] == "[":
        inner = code[1:-1]
        filled = [_empty(inner) if item is None else _filled(item, inner) for item in value]
        return filled if any(new is not old for new, old in zip(filled, value, strict=True)) else value
    if code[0] == "{":
        inner = code[1:-1]
        filled = {key: _empty(inner) if item is None else _filled(item, inner) for key, item in value.items()}
    else:
        codes = _codes(code)
        filled = {key: _filled(item, codes[key]) if key in codes else item for key, item in value.items()}
    return filled if any(filled[key] is not item for key, item in value.items()) else value


def _empty(code: str) -> Any:
    if code == "s":
        return ""
    if code in _SCALARS:
        return None
    return [] if code[0] == "[" else {}


def _type(code: str) -> Any:
    if code in _SCALARS:
        return _SCALARS[code]
    if code[0] == "[":
        return list[_type(code[1:-1])] | None  # type: ignore[misc] # built at run time
    if code[0] == "{":
        return dict[str, _type(code[1:-1])] | None  # type: ignore[misc] # built at run time
    return _struct(code) | None
