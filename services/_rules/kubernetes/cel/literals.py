"""Checks constants of an expression that nothing can be made of: durations, times, patterns, lists of several types."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator
from typing import Final

from services._rules.kubernetes.cel.syntax import CALL, CONSTANT, LIST, Node, walk
from services._rules.kubernetes.patterns import problem

_DURATION: Final = re.compile(r"[+-]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_MIXED_ALLOWED_IN: Final = frozenset({"format"})
"""Functions whose list of arguments may hold values of several types."""


def literal_problems(tree: Node) -> Iterator[str]:
    """Yield what is wrong with the constants of an expression, in the words in which Kubernetes refuses it."""
    exempt = {id(argument) for part in walk(tree) if part.name in _MIXED_ALLOWED_IN for argument in part.args}
    for part in walk(tree):
        if part.form == CALL and part.name in _CHECKS and part.args:
            # The pattern of `matches` is the last argument where the text is no target.
            given = part.args[-1 if part.name == "matches" else 0]
            if given.form == CONSTANT and isinstance(given.value, str) and not _CHECKS[part.name](given.value):
                yield f"invalid {part.name} argument"
        elif part.form == LIST and id(part) not in exempt:
            kinds = [_kind(item) for item in part.args if item.form == CONSTANT and item.value is not None]
            other = next((kind for kind in kinds if kind != kinds[0]), "")
            if other:
                yield f"expected type '{kinds[0]}' but found '{other}'"


def _kind(node: Node) -> str:
    match node.value:
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "double"
        case str():
            return "string"
        case _:
            return "bytes"


def _is_pattern(text: str) -> bool:
    return not problem(text)


def _is_time(text: str) -> bool:
    try:
        return datetime.datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "duration": lambda text: _DURATION.fullmatch(text) is not None,
    "find": _is_pattern,
    "findAll": _is_pattern,
    "matches": _is_pattern,
    "timestamp": _is_time,
}
