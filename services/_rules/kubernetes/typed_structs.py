"""Builds msgspec types from the tables of field types, so that an object is validated against its kind."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Final

from msgspec import Meta, ValidationError, convert, defstruct

from schemas.api.field_types import field_types

_QUANTITY: Final[Any] = (
    Annotated[str, Meta(pattern=r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?\s*$")]
    | int
    | float
    | None
)
# A number with a zero fraction passes for a whole number, as it does for a Kubernetes client.
WHOLE: Final[Any] = int | Annotated[float, Meta(multiple_of=1)] | None
SCALARS: Final[dict[str, Any]] = {
    "s": str | None,
    "i": WHOLE,
    "l": WHOLE,
    "d": float | None,
    "b": bool | None,
    "t": datetime | None,
    "m": datetime | None,
    "y": str | None,
    "q": _QUANTITY,
    "x": WHOLE | str,
    "o": Any,
}
_PLACE: Final = re.compile(r"^(?P<what>.*?)(?: - at `\$?\.?(?P<where>.*)`)?$", re.DOTALL)


class WrongShape(ValueError):
    """What was expected and found, and in which field (empty: the object itself)."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(what)
        self.what = what
        self.where = where


class Shapes:
    """Checks objects against the tables; the type of one is made when it is first seen."""

    def __init__(self, scalars: dict[str, Any] = SCALARS) -> None:
        self._scalars = scalars
        self._structs: dict[str, Any] = {}

    def check(self, name: str, value: object) -> None:
        """Raises WrongShape where a field does not have the type that the table has for it."""
        try:
            convert(value, self._struct(name))
        except ValidationError as problem:
            found = _PLACE.match(str(problem))
            what, where = (found["what"], found["where"] or "") if found else (str(problem), "")
            raise WrongShape(what, where) from None

    def _struct(self, name: str) -> Any:
        made = self._structs.get(name)
        if made is None:
            fields = [(field, self._type(code), None) for field, code in field_types(name).items()]
            made = self._structs[name] = defstruct(name, fields, gc=False)
        return made

    def _type(self, code: str) -> Any:
        match code[0]:
            case "[":
                return list[self._type(code[2:])] | None  # type: ignore[misc] # built at run time
            case "{":
                return dict[str, self._type(code[2:])] | None  # type: ignore[misc] # built at run time
            case "@":
                return self._struct(code[1:]) | None
            case scalar:
                return self._scalars[scalar]
