"""Validates the field types of an object against its kind, so that every later rule may rely on them."""

from typing import Annotated, Any, Final

from msgspec import Meta

from schemas.api.field_types import field_types
from services._rules.kubernetes.typed_structs import SCALARS, Shapes, WrongShape

_SHAPES: Final = Shapes(
    SCALARS
    | {
        "i": Annotated[int, Meta(ge=-(2**31), lt=2**31)] | None,
        "l": Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None,
    }
)


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
    return _filled(obj, f"@{kind}")  # type: ignore[no-any-return]


def _filled(value: Any, code: str) -> Any:
    """The value without null items; where there are none, the value itself."""
    if value is None or code in SCALARS:
        return value
    filled: Any
    if code[0] == "[":
        inner = code[2:]
        filled = [_empty(inner) if item is None else _filled(item, inner) for item in value]
        return filled if any(new is not old for new, old in zip(filled, value, strict=True)) else value
    if code[0] == "{":
        inner = code[2:]
        filled = {key: _empty(inner) if item is None else _filled(item, inner) for key, item in value.items()}
    else:
        codes = field_types(code[1:])
        filled = {key: _filled(item, codes[key]) if key in codes else item for key, item in value.items()}
    return filled if any(filled[key] is not item for key, item in value.items()) else value


def _empty(code: str) -> Any:
    if code == "s":
        return ""
    if code in SCALARS:
        return None
    return [] if code[0] == "[" else {}
