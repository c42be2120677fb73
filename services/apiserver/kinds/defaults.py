"""Defaults of fields as data."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

Fill = Callable[[Any], None]


class Defaults:
    """A table of defaults, filled in by calling it with an object.

    An entry is the name of a field and its value. A table below a name is filled into the object there, which is made
    where it is missing; `name?` fills only an object that is there, `name[]` each item of a list. A function may stand
    for a table; without a name, it fills in the object itself.
    """

    __slots__ = ("_steps",)

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._steps = [_step(name, value) for name, value in table.items()]

    def __call__(self, obj: Any) -> None:
        for way, name, value in self._steps:
            if way == "?":
                if (inner := obj.get(name)) is not None:
                    value(inner)
            elif way == "[]":
                for item in obj.get(name) or ():
                    value(item)
            elif not name:
                value(obj)
            elif way == "below":
                value(obj.setdefault(name, {}))
            elif name not in obj:
                obj[name] = copy.deepcopy(value) if way == "copy" else value


def _step(name: str, value: Any) -> tuple[str, str, Any]:
    """How an entry is filled in, the name of the field, and what fills it."""
    inner = Defaults(value) if isinstance(value, dict) else value
    for way in ("?", "[]"):
        if name.endswith(way):
            return (way, name.removesuffix(way), inner)
    return ("below" if callable(inner) else "copy" if isinstance(inner, list) else "", name, inner)
