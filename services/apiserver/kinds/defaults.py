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
        for step, name, value in self._steps:
            if step is not None:
                step(obj, name, value)
            elif name not in obj:
                obj[name] = value


def _step(name: str, value: Any) -> tuple[Callable[[Any, str, Any], None] | None, str, Any]:
    inner = Defaults(value) if isinstance(value, dict) else value
    if not name:
        return (_whole, name, inner)
    if name.endswith("[]"):
        return (_each, name[:-2], inner)
    if name.endswith("?"):
        return (_present, name[:-1], inner)
    if callable(inner):
        return (_inside, name, inner)
    return (_copy if isinstance(inner, list) else None, name, inner)


def _copy(obj: Any, name: str, value: Any) -> None:
    if name not in obj:
        obj[name] = copy.deepcopy(value)


def _whole(obj: Any, _: str, fill: Fill) -> None:
    fill(obj)


def _inside(obj: Any, name: str, fill: Fill) -> None:
    fill(obj.setdefault(name, {}))


def _present(obj: Any, name: str, fill: Fill) -> None:
    if (inner := obj.get(name)) is not None:
        fill(inner)


def _each(obj: Any, name: str, fill: Fill) -> None:
    for item in obj.get(name) or ():
        fill(item)
