"""Validates the field types of an object against its kind, so that every later rule may rely on them."""

from datetime import datetime
from typing import Annotated, Any, Final

from msgspec import Meta

from services._rules.admission.common.field_table import SHAPES
from services._rules.kubernetes.typed_structs import QUANTITY, Shapes, WrongShape

_SCALARS: Final[dict[str, Any]] = {
    "s": str | None,
    "i": Annotated[int, Meta(ge=-(2**31), lt=2**31)] | None,
    "l": Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None,
    "b": bool | None,
    "t": datetime | None,
    "q": QUANTITY,
    "*": Any,
}
_SHAPES: Final = Shapes(SHAPES, _SCALARS)


class ShapeError(ValueError):
    """A field that has the wrong type; the message names the field, what was expected and what was found."""


def checked(kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    """The object, empty values in place of null items of lists and maps; unknown fields stay as they are.

    Raises ShapeError where a field does not have the type that the kind prescribes.
    """
    try:
        _SHAPES.check(kind, obj)
    except WrongShape as problem:
        place = f"{kind} {problem.where}" if problem.where else kind
        raise ShapeError(f"{place}: {problem.what}") from None
    return _filled(obj, kind)  # type: ignore[no-any-return]


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
        codes = _SHAPES.codes(code)
        filled = {key: _filled(item, codes[key]) if key in codes else item for key, item in value.items()}
    return filled if any(filled[key] is not item for key, item in value.items()) else value


def _empty(code: str) -> Any:
    if code == "s":
        return ""
    if code in _SCALARS:
        return None
    return [] if code[0] == "[" else {}
