"""Compiles the JSONPath dialect of Kubernetes (printer columns, scale paths) into functions over decoded JSON.

Understood: `.a.b`, `['a.b']`, `.a\\.b`, `[2]`, `[-1]`, `[1:3]`, `[0,2]`, `[*]`, `.*`, `..name`, and filters such as
`[?(@.type=="Ready")]`; braces around the whole path may be there. A missing key yields nothing, never an error.
"""

import operator
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

Find = Callable[[Any], list[Any]]
_Step = Callable[[list[Any]], list[Any]]

_NAME: Final = re.compile(r"(?:[^\s.\[\]{}()'\"|,=<>!\\]|\\.)+")
_FILTER: Final = re.compile(r"\s*(.+?)\s*(==|!=|<=|>=|<|>)\s*(.+?)\s*")
_SLICE: Final = re.compile(r"\s*(-?\d*)\s*(?::\s*(-?\d*)\s*(?::\s*(-?\d*)\s*)?)?")
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class JSONPathError(ValueError):
    """A path that cannot be parsed; the message is the reason."""


@lru_cache(maxsize=1024)
def compile_path(path: str) -> Find:
    """Return a function that finds all values at `path`; raises JSONPathError for a path it does not understand."""
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    steps = list(_steps(text, path))

    def find(value: Any) -> list[Any]:
        values = [value]
        for step in steps:
            values = step(values)
            if not values:
                break
        return values

    return find


@lru_cache(maxsize=1024)
def simple_fields(path: str) -> tuple[str, ...] | None:
    """Return the field names of a path that has nothing but `.name` steps (scale paths); None for any other path."""
    if not path.startswith(".") or not re.fullmatch(r"(\.[^.\[\]{}()'\"\s\\*]+)+", path):
        return None
    return tuple(path[1:].split("."))


def _steps(text: str, whole: str) -> Iterator[_Step]:
    at = 0
    if text.startswith(("$", "@")):
        at = 1
    while at < len(text):
        if text.startswith("..", at):
            name, at = _name(text, at + 2, whole)
            yield _descend(name)
        elif text[at] == ".":
            if at + 1 < len(text) and text[at + 1] == "[":
                at += 1
                continue
            if at + 1 == len(text):
                return
            name, at = _name(text, at + 1, whole)
            yield _wildcard if name == "*" else _child((name,))
        elif text[at] == "[":
            end = _closing(text, at, whole)
            yield _bracket(text[at + 1 : end].strip(), whole)
            at = end + 1
        elif at == 0:
            name, at = _name(text, 0, whole)
            yield _child((name,))
        else:
            raise JSONPathError(f"unrecognized character in path {whole!r} at {at}: {text[at]!r}")


def _name(text: str, at: int, whole: str) -> tuple[str, int]:
    match = _NAME.match(text, at)
    if match is None:
        raise JSONPathError(f"path {whole!r} has no field name at {at}")
    return re.sub(r"\\(.)", r"\1", match.group()), match.end()


def _closing(text: str, at: int, whole: str) -> int:
    depth, quote = 0, ""
    for index in range(at, len(text)):
        char = text[index]
        if quote:
            if char == quote and text[index - 1] != "\\":
                quote = ""
        elif char in "'\"":
            quote = char
        elif char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if depth == 0:
                return index
    raise JSONPathError(f"unterminated array in path {whole!r}")


def _bracket(inside: str, whole: str) -> _Step:
    if inside == "*":
        return _wildcard
    if inside.startswith("?(") and inside.endswith(")"):
        return _filter(inside[2:-1], whole)
    parts = _split(inside)
    if all(len(part) > 1 and part[0] in "'\"" and part[-1] == part[0] for part in parts):
        return _child(tuple(part[1:-1].replace("\\" + part[0], part[0]) for part in parts))
    steps = [_slice(part, whole) for part in parts]
    if len(steps) == 1:
        return steps[0]
    return lambda values: [found for step in steps for found in step(values)]


def _split(inside: str) -> list[str]:
    parts, start, quote = [], 0, ""
    for index, char in enumerate(inside):
        if quote:
            quote = "" if char == quote and inside[index - 1] != "\\" else quote
        elif char in "'\"":
            quote = char
        elif char == ",":
            parts.append(inside[start:index].strip())
            start = index + 1
    parts.append(inside[start:].strip())
    return parts


def _child(names: tuple[str, ...]) -> _Step:
    if len(names) == 1:
        only = names[0]
        return lambda values: [value[only] for value in values if isinstance(value, dict) and only in value]
    return lambda values: [
        value[name] for value in values if isinstance(value, dict) for name in names if name in value
    ]


def _slice(part: str, whole: str) -> _Step:
    match = _SLICE.fullmatch(part)
    if match is None or not part:
        raise JSONPathError(f"invalid array index {part!r} in path {whole!r}")
    if ":" not in part:
        index = int(part)
        return lambda values: [
            value[index] for value in values if isinstance(value, list) and -len(value) <= index < len(value)
        ]
    first, last, step = (int(group) if group else None for group in match.groups())
    if step is not None and step <= 0:
        raise JSONPathError(f"step must be > 0 in path {whole!r}")
    return lambda values: [item for value in values if isinstance(value, list) for item in value[first:last:step]]


def _wildcard(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if isinstance(value, list):
            found.extend(value)
        elif isinstance(value, dict):
            found.extend(value[key] for key in sorted(value))
    return found


def _descend(name: str) -> _Step:
    def walk(value: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            if name == "*":
                yield from value.values()
            elif name in value:
                yield value[name]
            for item in value.values():
                yield from walk(item)
        elif isinstance(value, list):
            for item in value:
                yield from walk(item)

    return lambda values: [found for value in values for found in walk(value)]


def _filter(condition: str, whole: str) -> _Step:
    match = _FILTER.fullmatch(condition)
    if match is None:
        exists = _operand(condition.strip(), whole)
        return lambda values: [item for value in values for item in _items(value) if exists(item)]
    left, right = _operand(match.group(1), whole), _operand(match.group(3), whole)
    compare = _COMPARE[match.group(2)]

    def holds(item: Any) -> bool:
        ours, theirs = left(item), right(item)
        if not ours or not theirs or isinstance(ours[0], str) != isinstance(theirs[0], str):
            return False
        try:
            return bool(compare(ours[0], theirs[0]))
        except TypeError:
            return False

    return lambda values: [item for value in values for item in _items(value) if holds(item)]


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _operand(text: str, whole: str) -> Find:
    if text.startswith(("@", "$", ".")):
        return compile_path(text[1:] if text[0] == "@" else text)
    if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]:
        literal: Any = text[1:-1]
    elif text in ("true", "false"):
        literal = text == "true"
    elif _NUMBER.fullmatch(text):
        literal = float(text) if re.search(r"[.eE]", text) else int(text)
    else:
        raise JSONPathError(f"unrecognized operand {text!r} in path {whole!r}")
    return lambda _: [literal]
