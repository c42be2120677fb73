"""Paths to fields of a schema, as rules and selectable fields give them: `.name` and `['name']` by turns."""

import re
from typing import Any, Final

import msgspec

Schema = dict[str, Any]

_TOKEN: Final = re.compile(r"'.*?(?<!\\)'|'.*|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\.", re.DOTALL)
_ESCAPES: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "'": "'",
    "\\": "\\",
}
_SHORTEST_QUOTED: Final = 2
_NOWHERE: Final = "does not refer to a valid field"
_CUT: Final = "unexpected end of JSON path"


class PathError(ValueError):
    """A path that leads nowhere; the text says why, as Kubernetes words it."""


class Found(msgspec.Struct, frozen=True):
    """Where a path leads: the schema there, and the path in its one spelling (`a.b[c]`)."""

    schema: Schema
    path: str


def field_at(path: str, schema: Schema, *, arrays: bool = True) -> Found:
    """Return where a path leads; `arrays` allows brackets. Raises PathError."""
    tokens = iter(_TOKEN.findall(path))
    spelled = ""
    for token in tokens:
        if token == ".":
            name = _next(tokens)
        elif token != "[":
            raise PathError(f"expected [ or . but got: {token}")
        elif not arrays:
            raise PathError("array notation is not allowed")
        else:
            name = _unquoted(_next(tokens))
        fields, more = schema.get("properties"), schema.get("additionalProperties")
        if fields and name in fields:
            schema, spelled = fields[name], f"{spelled}.{name}"
        elif not fields and isinstance(more, dict):
            schema, spelled = more, f"{spelled}[{name}]"
        else:
            raise PathError(_NOWHERE)
        if token == "[" and (closing := _next(tokens)) != "]":
            raise PathError(f"expected ] but got {closing}")
    return Found(schema, spelled.removeprefix("."))


def _next(tokens: Any) -> str:
    token: str | None = next(tokens, None)
    if token is None:
        raise PathError(_CUT)
    return token


def _unquoted(token: str) -> str:
    if len(token) < _SHORTEST_QUOTED or not (token[0] == token[-1] == "'"):
        raise PathError(f"expected single quoted string but got {token}")
    return _ESCAPED.sub(_unescaped, token[1:-1])


def _unescaped(match: re.Match[str]) -> str:
    found = _ESCAPES.get(match.group()[1])
    if found is None:
        raise PathError(f"invalid string literal: invalid escape char {match.group()}")
    return found
