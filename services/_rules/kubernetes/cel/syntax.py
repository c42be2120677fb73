"""The syntax tree of a compiled expression with its types, read from its serialized form (cel.expr.CheckedExpr)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import msgspec

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
ANY_VALUE, _REFERENCES, _TYPES, CHECKED_EXPR = 2, 2, 3, 4


class Typed(msgspec.Struct, frozen=True):
    """The type of a node: the name of a scalar or message, or list, map, optional, param, dyn."""

    name: str
    inner: Typed | None = None
    """The type of items, or of the value of an optional."""
    message: bool = False


DYN: Final = Typed("dyn")


class Node(msgspec.Struct):
    """One node: `form` says which of the fields it has."""

    form: str
    name: str = ""
    """A variable, a field, a function."""
    value: object = None
    """The value of a constant."""
    target: Node | None = None
    """What a field is taken of, or a member function called on."""
    args: list[Node] = []
    """Arguments, elements of a list, keys and values of a map by turns."""
    loop: Loop | None = None
    kind: Typed = DYN
    overloads: tuple[str, ...] = ()
    """The overloads that a call can mean, as the types of its arguments tell."""


class Loop(msgspec.Struct):
    """A macro over a list or map, with the variables it sets."""

    variable: str
    second: str
    result_variable: str
    over: Node
    start: Node
    condition: Node
    step: Node
    result: Node


CONSTANT: Final = "constant"
IDENT: Final = "ident"
SELECT: Final = "select"
HAS: Final = "has"
CALL: Final = "call"
LIST: Final = "list"
MAP: Final = "map"
LOOP: Final = "loop"


def syntax_of(serialized: bytes) -> Node:
    """Return the tree of a serialized expression."""
    checked = serialized
    for number, value in fields(serialized):
        if number == ANY_VALUE and isinstance(value, bytes):
            checked = value
    return _Reader(checked).node(_last(checked, CHECKED_EXPR))


def variables(node: Node) -> frozenset[str]:
    """Return the names of all variables a tree mentions, those of its loops included."""
    return frozenset(part.name for part in walk(node) if part.form == IDENT)


def walk(node: Node) -> Iterator[Node]:
    """Iterate over a tree, the node itself first."""
    stack = [node]
    while stack:
        part = stack.pop()
        yield part
        stack += children(part)


def children(node: Node) -> list[Node]:
    """Return the nodes right below one."""
    found = list(node.args)
    if node.target is not None:
        found.append(node.target)
    if node.loop is not None:
        loop = node.loop
        found += (loop.over, loop.start, loop.condition, loop.step, loop.result)
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Iterate over the numbers and values of a serialized message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        else:
            size = 8 if kind == _FIXED64 else 4
        yield tag >> 3, data[at : at + size]
        at += size


def _last(data: bytes, wanted: int) -> bytes:
    found = b""
    for number, value in fields(data):
        if number == wanted and isinstance(value, bytes):
            found = value
    return found


def _text(data: bytes, wanted: int) -> str:
    return _last(data, wanted).decode("utf-8", "replace")


def _all(data: bytes, wanted: int) -> list[bytes]:
    return [value for number, value in fields(data) if number == wanted and isinstance(value, bytes)]


class _Reader:
    """Reads nodes; references and types stand apart, by the numbers of the nodes."""

    def __init__(self, checked: bytes) -> None:
        self._references = _by_number(checked, _REFERENCES)
        self._types = {number: _typed(data) for number, data in _by_number(checked, _TYPES).items()}

    def node(self, data: bytes) -> Node:
        """Return a node with all below it."""
        number, found = 0, Node(CONSTANT)
        for field, value in fields(data):
            if field == _NUMBER and isinstance(value, int):
                number = value
            elif isinstance(value, bytes):
                found = self._form(field, value) or found
        found.kind = self._types.get(number, DYN)
        if found.form == CALL:
            found.overloads = tuple(item.decode() for item in _all(self._references.get(number, b""), 3))
        return found

    def _form(self, field: int, value: bytes) -> Node | None:
        match field:
            case 3:
                return Node(CONSTANT, value=_constant(value))
            case 4:
                return Node(IDENT, _text(value, 1))
            case 5:
                tested = any(number == 3 and bool(given) for number, given in fields(value))
                return Node(HAS if tested else SELECT, _text(value, 2), target=self.node(_last(value, 1)))
            case 6:
                target = _all(value, 1)
                arguments = [self.node(item) for item in _all(value, 3)]
                return Node(CALL, _text(value, 2), target=self.node(target[0]) if target else None, args=arguments)
            case 7:
                return Node(LIST, args=[self.node(item) for item in _all(value, 1)])
            case 8:
                return Node(MAP, args=[part for entry in _all(value, 2) for part in self._entry(entry)])
            case 9:
                return Node(LOOP, loop=self._loop(value))
            case _:
                return None

    def _entry(self, data: bytes) -> list[Node]:
        return [self.node(part) for number in (3, 4) for part in _all(data, number)]

    def _loop(self, data: bytes) -> Loop:
        over, start, condition, step, result = (self.node(_last(data, number)) for number in (2, 4, 5, 6, 7))
        return Loop(_text(data, 1), _text(data, 8), _text(data, 3), over, start, condition, step, result)


_NUMBER: Final = 2
_SCALARS: Final = {1: "bool", 2: "int", 3: "uint", 4: "double", 5: "string", 6: "bytes"}
_WELL_KNOWN: Final = {1: "any", 2: "timestamp", 3: "duration"}


def _by_number(checked: bytes, wanted: int) -> dict[int, bytes]:
    """Return the values of a map from the numbers of nodes."""
    found: dict[int, bytes] = {}
    for entry in _all(checked, wanted):
        number = next((value for field, value in fields(entry) if field == 1 and isinstance(value, int)), 0)
        found[number] = _last(entry, 2)
    return found


def _typed(data: bytes) -> Typed:
    for field, value in fields(data):
        match field:
            case 3 if isinstance(value, int):
                return Typed(_SCALARS.get(value, "dyn"))
            case 5 if isinstance(value, int):
                return Typed(_WELL_KNOWN.get(value, "dyn"))
            case 6 if isinstance(value, bytes):
                return Typed("list", _typed(_last(value, 1)))
            case 7 if isinstance(value, bytes):
                return Typed("map", _typed(_last(value, 2)))
            case 9 if isinstance(value, bytes):
                return Typed(value.decode("utf-8", "replace"), message=True)
            case 10:
                return Typed("param")
            case 14 if isinstance(value, bytes):
                inner = _all(value, 2)
                return Typed(
                    "optional" if _text(value, 1) == "optional_type" else "dyn", _typed(inner[0]) if inner else None
                )
            case _:
                continue
    return DYN


def _constant(data: bytes) -> object:
    for number, value in fields(data):
        match number:
            case 2:
                return bool(value)
            case 3 | 4 if isinstance(value, int):
                return value - (1 << 64) if number == 3 and value >= 1 << 63 else value
            case 5 if isinstance(value, bytes):
                return struct.unpack("<d", value)[0]
            case 6 if isinstance(value, bytes):
                return value.decode("utf-8", "replace")
            case 7:
                return value
            case _:
                return None
    # A constant of the zero value has no content.
    return None
