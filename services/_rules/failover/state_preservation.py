"""Extracts the state to preserve from an application's status, by JSONPath templates.

Source: docs/sources.md#application-failover.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import msgspec

from services._rules.kubernetes.jsonpath import JSONPathError, compile_path

_STEP: Final = re.compile(r"\.\.(?:[\w*\\-]|\\.)+|\.\*|\.?(?:[^\s.\[\]{}()'\"|,=<>!\\]|\\.)+|\.(?=\[)|\.$")
_QUOTES: Final = "'\""


class StateError(ValueError):
    """State that cannot be preserved now: no status yet, or a path that finds nothing in it."""


def preserved_state(
    preservation: Mapping[str, Any] | None, statuses: Sequence[Mapping[str, Any]], cluster: str
) -> dict[str, str]:
    """Labels to carry over from a cluster; empty without rules.

    `statuses` are the items of the aggregated status. Raises StateError when the cluster has not reported a status, or
    a path finds nothing.
    """
    rules = (preservation or {}).get("rules") or ()
    if not rules:
        return {}
    item = next((item for item in statuses if item.get("clusterName") == cluster), None)
    if item is None or item.get("status") is None:
        raise StateError(f"the application status has not yet been collected from Cluster({cluster})")
    return {rule["aliasLabelName"]: evaluate(rule["jsonPath"], item["status"]) for rule in rules}


def evaluate(template: str, root: Any) -> str:
    """The text of a JSONPath template: literal text and `{…}` blocks; raises StateError where nothing is found."""
    try:
        parts = _parts(template)
        text, rest = _render(parts, 0, root)
    except JSONPathError as error:
        raise StateError(f"jsonPath {template!r}: {error}") from None
    if rest != len(parts):
        raise StateError(f"jsonPath {template!r}: `{{end}}` without `{{range}}`")
    return text


@lru_cache(maxsize=256)
def _parts(template: str) -> tuple[tuple[str, str], ...]:
    """Pieces of a template: `text` as it is, `path`, `range` with its path, and `end`."""
    parts: list[tuple[str, str]] = []
    at = 0
    while at < len(template):
        start = template.find("{", at)
        if start < 0:
            parts.append(("text", template[at:]))
            break
        if start > at:
            parts.append(("text", template[at:start]))
        at = _block_end(template, start)
        inside = template[start + 1 : at - 1].strip()
        if inside == "end":
            parts.append(("end", ""))
        elif inside.startswith("range"):
            parts.append(("range", inside.removeprefix("range").strip()))
        elif len(inside) > 1 and inside[0] in _QUOTES and inside[-1] == inside[0]:
            parts.append(("text", inside[1:-1].encode().decode("unicode_escape")))
        else:
            parts.append(("path", inside))
    return tuple(parts)


def _block_end(template: str, start: int) -> int:
    """Position behind the brace that closes the block."""
    quote = ""
    for index in range(start + 1, len(template)):
        char = template[index]
        if quote:
            quote = "" if char == quote else quote
        elif char in _QUOTES:
            quote = char
        elif char == "}":
            return index + 1
    raise JSONPathError("unclosed action")


def _render(parts: Sequence[tuple[str, str]], at: int, value: Any) -> tuple[str, int]:
    """Text of the pieces up to the end of their range, and the position of that end."""
    texts: list[str] = []
    while at < len(parts):
        kind, content = parts[at]
        match kind:
            case "text":
                texts.append(content)
            case "path":
                texts.append(" ".join(_text(found) for found in find(content, value)))
            case "range":
                begin = at + 1
                at = _end_of(parts, begin)
                texts.extend(_render(parts, begin, found)[0] for found in find(content, value))
            case _:
                return "".join(texts), at
        at += 1
    return "".join(texts), at


def _end_of(parts: Sequence[tuple[str, str]], at: int) -> int:
    depth = 1
    while at < len(parts):
        depth += {"range": 1, "end": -1}.get(parts[at][0], 0)
        if not depth:
            return at
        at += 1
    raise JSONPathError("`{range}` without `{end}`")


def find(path: str, root: Any) -> list[Any]:
    """All values at a path; a key or position that is not there raises StateError."""
    values = [root]
    for step in _steps(path):
        found = compile_path(step)
        following: list[Any] = []
        for value in values:
            results = found(value)
            if not results and not _may_be_empty(step):
                raise StateError(f"{step.strip('.')} is not found")
            following.extend(results)
        values = following
    return values


def _may_be_empty(step: str) -> bool:
    """Whether finding nothing is an answer: wildcards, descents, slices and filters, but no plain name or position."""
    return step.startswith(("..", "[?(")) or "*" in step or ":" in step


def _steps(path: str) -> Iterator[str]:
    """The steps of a path, one by one: `.a`, `[0]`, `..b`, `['c.d']`."""
    at = 1 if path.startswith(("$", "@")) else 0
    while at < len(path):
        if path[at] == "[":
            end = _bracket_end(path, at)
            yield path[at:end]
            at = end
            continue
        match = _STEP.match(path, at)
        if match is None:
            raise JSONPathError(f"unrecognized character in {path!r} at {at}: {path[at]!r}")
        at = match.end()
        if match.group() != ".":
            yield match.group()


def _bracket_end(path: str, start: int) -> int:
    depth, quote = 0, ""
    for index in range(start, len(path)):
        char = path[index]
        if quote:
            quote = "" if char == quote else quote
        elif char in _QUOTES:
            quote = char
        elif char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if not depth:
                return index + 1
    raise JSONPathError(f"unterminated array in {path!r}")


def _text(value: Any) -> str:
    """A value as templates print it: numbers are floats, objects and lists are JSON."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return _number(float(value))
        case str():
            return value
        case _:
            return msgspec.json.encode(value, order="deterministic").decode()


def _number(value: float) -> str:
    """The shortest digits; with an exponent from a million on and below 0.0001."""
    if not value:
        return "0"
    sign, digits, shift = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(shift, int)
    exponent = len(digits) + shift - 1
    text = "".join(map(str, digits))
    if -4 <= exponent < 6:
        return format(Decimal(repr(value)).normalize(), "f")
    fraction = f".{text[1:]}" if len(text) > 1 else ""
    return f"{'-' if sign else ''}{text[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
