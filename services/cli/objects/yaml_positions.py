"""Finds the line of a field in a YAML document, so that what is wrong with it can be shown there."""

from __future__ import annotations

import re
from typing import Any, Final

_STEP: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def line_of(node: Any, field: str) -> int:
    """The line (from 1) of a field such as `spec.rules[0].name` below a node; of what is nearest where it is absent."""
    line = node.start_mark.line
    for found in _STEP.finditer(field):
        inner, name = found[1], found[2]
        step = _entry(node, name if inner is None else inner)
        if step is None:
            break
        place, node = step
        line = place.start_mark.line
    return int(line) + 1


def _entry(node: Any, name: str) -> tuple[Any, Any] | None:
    """The node where a member or item begins, and that of its value."""
    if node.id == "mapping":
        return next(((key, value) for key, value in node.value if key.value == name), None)
    if node.id == "sequence" and name.isdecimal() and int(name) < len(node.value):
        item = node.value[int(name)]
        return item, item
    return None
