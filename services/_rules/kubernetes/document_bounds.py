"""How deep a document may be nested and how many values it may hold: more than any object needs, less than harms.

Decoding, merging, validating and tracking fields take a few calls for each level of a document; the number of values
bounds the time and the memory of all of them.
"""

from __future__ import annotations

import re
from typing import Any, Final

DEEPEST: Final = 300
"""Levels of maps and lists in a document."""
MOST_VALUES: Final = 400_000
"""Values in a document, names of fields left out."""

_TEXTS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


class OutOfBounds(ValueError):
    """A document that is nested too deep or holds too many values; the message says which."""

    def __init__(self, text: str, *, deep: bool) -> None:
        super().__init__(text)
        self.deep = deep


def too_deep(deepest: int = DEEPEST) -> OutOfBounds:
    """The refusal of a document that is nested deeper than that."""
    return OutOfBounds(f"the document is nested deeper than {deepest} levels", deep=True)


def too_many(most: int = MOST_VALUES) -> OutOfBounds:
    """The refusal of a document that holds more values than that."""
    return OutOfBounds(f"the document has more than {most} values", deep=False)


def check_values(raw: bytes, most: int = MOST_VALUES) -> None:
    """Raise OutOfBounds for JSON text with more values than that; takes time linear in its length."""
    if len(raw) <= most or _values(raw) <= most:
        return
    if b'"' not in raw or _values(_TEXTS.sub(b"", raw)) > most:
        raise too_many(most)


def _values(raw: bytes) -> int:
    """Values of JSON text without strings; an upper bound for one with them."""
    # Each value but the first of a map or list follows a comma, each first one an opening bracket.
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{") + 1


def may_be_deep(raw: bytes, deepest: int = DEEPEST) -> bool:
    """Whether JSON text has brackets enough to be nested deeper than that."""
    return len(raw) > deepest and raw.count(b"[") + raw.count(b"{") > deepest


def is_deeper(value: Any, deepest: int = DEEPEST) -> bool:
    """Whether JSON values are nested deeper than that; level by level, not by recursion."""
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(deepest):
        if not level:
            return False
        level = [
            child
            for parent in level
            for child in (parent.values() if type(parent) is dict else parent)
            if type(child) is dict or type(child) is list
        ]
    return bool(level)


def check_depth(value: Any, deepest: int = DEEPEST) -> None:
    """Raise OutOfBounds for JSON values that are nested deeper than that."""
    if is_deeper(value, deepest):
        raise too_deep(deepest)
