"""Functions that give optional values, which none that is not part of the implementation can return.

Such a function gives an empty list or map for no value; around each call of it, a program gets one that makes an
optional value of the result. The checker knows them with their types from a configuration of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from services._rules.kubernetes.cel.syntax import ANY_VALUE, CHECKED_EXPR, fields

_MAKER: Final = b"optional.ofNonZeroValue"
_CALL, _FUNCTION, _ARGUMENTS = 6, 2, 3
_BELOW: Final[Mapping[str, Mapping[int, str]]] = {
    "any": {ANY_VALUE: "checked"},
    "checked": {CHECKED_EXPR: "node"},
    "node": {5: "select", _CALL: "call", 7: "list", 8: "map", 9: "loop"},
    "select": {1: "node"},
    "call": {1: "node", _ARGUMENTS: "node"},
    "list": {1: "node"},
    "map": {2: "entry"},
    "entry": {3: "node", 4: "node"},
    "loop": dict.fromkeys((2, 4, 5, 6, 7), "node"),
}
"""The messages of a serialized expression that hold nodes: where in them are others."""


def with_optionals(serialized: bytes, functions: frozenset[str]) -> bytes:
    """Return a serialized expression in which what calls of these functions give is made optional."""
    return _rewritten("any", serialized, {name.encode() for name in functions})


def _rewritten(kind: str, data: bytes, functions: set[bytes]) -> bytes:
    made = b""
    wraps = False
    for number, value in fields(data):
        if isinstance(value, int):
            made += _varint(number << 3) + _varint(value)
            continue
        below = _BELOW[kind].get(number)
        made += _message(number, value if below is None else _rewritten(below, value, functions))
        wraps = wraps or (below == "call" and any(at == _FUNCTION and one in functions for at, one in fields(value)))
    if not wraps:
        return made
    return _message(_CALL, _message(_FUNCTION, _MAKER) + _message(_ARGUMENTS, made))


def _message(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*made, value))


def declaration(name: str, takes: tuple[str, ...], gives: str, *, member: bool) -> dict[str, Any]:
    """Return a function of one overload as configurations declare it; types have the names of the tables."""
    arguments = [_type(one) for one in takes]
    overload: dict[str, Any] = {"id": "_".join((name, *takes)), "return": _type(gives)}
    if member:
        overload["target"] = arguments.pop(0)
    return {"name": name, "overloads": [{**overload, "args": arguments}]}


def _type(name: str) -> dict[str, Any]:
    outer, inside, inner = name.partition("(")
    if not inside:
        return {"type_name": name}
    return {"type_name": {"optional": "optional_type"}.get(outer, outer), "params": [_type(inner[:-1])]}
