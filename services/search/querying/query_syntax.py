"""Parses queries such as `kind=Pod image~nginx:1.2 phase!=Running`; every error says where and what to write."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

LONGEST: Final = 4096
"""Characters of a query."""
MOST_TERMS: Final = 32
MOST_VALUES: Final = 64

FIELDS: Final = (
    "kind",
    "apiVersion",
    "cluster",
    "namespace",
    "name",
    "phase",
    "image",
    "node",
    "owner",
    "ready",
)
"""Fields by name; besides `label.KEY`, `annotation.KEY`, and `.path.in.the.object`."""
OPERATORS: Final = ("!=", "!~", ">=", "<=", "==", "=", "~", ">", "<")
_ALIASES: Final = {"ns": "namespace", "apiversion": "apiVersion", "status": "phase"}
_PREFIXES: Final = ("label.", "annotation.")
_FIELD: Final = re.compile(r"[^\s=!~<>\"']+")
_OPERATOR: Final = re.compile("|".join(map(re.escape, OPERATORS)))
_BARE: Final = re.compile(r"[^\s\"']*")


class QueryError(ValueError):
    """A query that cannot be understood; the message says where, and what to write instead."""


class Term(Struct, frozen=True):
    """One condition: a field, how it is compared, and the values that any of which it is compared with."""

    field: str
    operator: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.field}{self.operator}{','.join(self.values)}"


class Query(Struct, frozen=True):
    """Conditions that must all hold; none: every object."""

    terms: tuple[Term, ...] = ()

    def of(self, *fields: str) -> tuple[Term, ...]:
        """The conditions on these fields."""
        return tuple(term for term in self.terms if term.field in fields)


def parse_query(text: str) -> Query:
    """Read a query; raises QueryError. A word without an operator is a part of a name."""
    if len(text) > LONGEST:
        raise QueryError(f"the query has {len(text)} characters, more than {LONGEST}; search for less at once")
    terms: list[Term] = []
    position = _blank(text, 0)
    while position < len(text):
        if len(terms) >= MOST_TERMS:
            raise QueryError(f"the query has more than {MOST_TERMS} conditions; search for less at once")
        term, end = _term(text, position)
        terms.append(term)
        if end < len(text) and not text[end].isspace():
            raise _wrong(text, end, "put a space between conditions")
        position = _blank(text, end)
    return Query(tuple(terms))


def _blank(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _term(text: str, start: int) -> tuple[Term, int]:
    found = _FIELD.match(text, start)
    if found is None:
        if text[start] in "\"'":
            value, end = _quoted(text, start)
            return Term("name", "~", (value,)), end
        raise _wrong(text, start, "a condition begins with a field, such as kind=Pod")
    operator = _OPERATOR.match(text, found.end())
    if operator is None:
        if found.end() < len(text) and not text[found.end()].isspace():
            raise _wrong(text, found.end(), f"after a field comes one of {' '.join(OPERATORS)}")
        return Term("name", "~", (found[0],)), found.end()
    field = _field(text, start, found[0])
    value, end = _value(text, operator.end())
    sign = "=" if operator[0] == "==" else operator[0]
    values = tuple(value.split(",")) if sign in ("=", "!=") and not _is_quoted(text, operator.end()) else (value,)
    if len(values) > MOST_VALUES:
        raise _wrong(text, operator.end(), f"give at most {MOST_VALUES} values")
    if sign in ("~", "!~") and not value:
        raise _wrong(text, operator.end(), f"write the text that {field} is to contain")
    return Term(field, sign, values), end


def _field(text: str, start: int, written: str) -> str:
    if written.startswith("."):
        if not all(written[1:].split(".")):
            raise _wrong(text, start, "write a path such as .spec.replicas")
        return written
    for prefix in _PREFIXES:
        if written.startswith(prefix) and len(written) > len(prefix):
            return written
    name = next((field for field in FIELDS if field.lower() == written.lower()), "") or _ALIASES.get(written.lower())
    if not name:
        known = ", ".join((*FIELDS, "label.KEY", "annotation.KEY", ".a.path"))
        raise _wrong(text, start, f"there is no field {written[:60]!r}; use one of {known}")
    return name


def _is_quoted(text: str, position: int) -> bool:
    return text[position : position + 1] in ('"', "'")


def _value(text: str, start: int) -> tuple[str, int]:
    if _is_quoted(text, start):
        return _quoted(text, start)
    found = _BARE.match(text, start)
    return (found[0], found.end()) if found is not None else ("", start)


def _quoted(text: str, start: int) -> tuple[str, int]:
    end = text.find(text[start], start + 1)
    if end < 0:
        raise _wrong(text, start, f"the quotation mark {text[start]} is not closed")
    return text[start + 1 : end], end + 1


def _wrong(text: str, position: int, advice: str) -> QueryError:
    return QueryError(f"query, at character {position + 1} ({text[position : position + 20]!r}): {advice}")
