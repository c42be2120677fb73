"""Builds msgspec types from a table of field types, so that a decoded object is validated against its kind's fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from msgspec import Meta, ValidationError, convert, defstruct

QUANTITY: Final[Any] = (
    Annotated[str, Meta(pattern=r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?\s*$")]
    | int
    | float
    | None
)
_PLACE: Final = re.compile(r"^(?P<what>.*?)(?: - at `\$?\.?(?P<where>.*)`)?$", re.DOTALL)


class WrongShape(ValueError):
    """What was expected and found, and in which field (empty: the object itself)."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(what)
        self.what = what
        self.where = where


class Shapes:
    """The shapes of a table; the type of one is made when it is first seen.

    An entry is `name,name:type`; types are codes of `scalars`, `[T]`, `{T}` or the name of another shape.
    """

    def __init__(self, table: Mapping[str, str], scalars: Mapping[str, Any]) -> None:
        self._table = table
        self._scalars = scalars
        self._codes: dict[str, dict[str, str]] = {}
        self._structs: dict[str, Any] = {}

    def check(self, shape: str, value: object) -> None:
        """Raises WrongShape where a field does not have the type that the shape prescribes."""
        try:
            convert(value, self._struct(shape))
        except ValidationError as problem:
            found = _PLACE.match(str(problem))
            what, where = (found["what"], found["where"] or "") if found else (str(problem), "")
            raise WrongShape(what, where) from None

    def codes(self, shape: str) -> dict[str, str]:
        """The type of every field of a shape, as the table has it."""
        codes = self._codes.get(shape)
        if codes is None:
            codes = self._codes[shape] = {}
            for entry in self._table[shape].split():
                names, _, code = entry.partition(":")
                codes.update(dict.fromkeys(names.split(","), code))
        return codes

    def _struct(self, shape: str) -> Any:
        made = self._structs.get(shape)
        if made is None:
            fields = [(name, self._type(code), None) for name, code in self.codes(shape).items()]
            made = self._structs[shape] = defstruct(shape, fields, gc=False)
        return made

    def _type(self, code: str) -> Any:
        if code in self._scalars:
            return self._scalars[code]
        if code[0] == "[":
            return list[self._type(code[1:-1])] | None  # type: ignore[misc] # built at run time
        if code[0] == "{":
            return dict[str, self._type(code[1:-1])] | None  # type: ignore[misc] # built at run time
        return self._struct(code) | None
