"""Decides what an empty Lua table was: an object, a list, or nothing (docs/sources.md#interpreters).

Lua has one kind of table for both. The objects that a script was given are the witnesses: an empty table becomes an
object or a list where one of them has an empty one at the same path, positions in lists left out, and vanishes
otherwise.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str, ...]


def settle_empties(value: Any, witnesses: Iterable[Any]) -> Any:
    """The value with its empty members resolved; `value` itself is not empty and has empty lists for all of them."""
    objects: set[Path] = set()
    lists: set[Path] = set()
    for witness in witnesses:
        _collect(witness, (), objects, lists)
    return _settle(value, (), objects, lists)


def _collect(value: Any, path: Path, objects: set[Path], lists: set[Path]) -> None:
    if type(value) is dict:
        for name, member in value.items():
            _note(member, (*path, name), objects, lists)
    elif type(value) is list:
        for member in value:
            _note(member, path, objects, lists)


def _note(member: Any, path: Path, objects: set[Path], lists: set[Path]) -> None:
    if member == {} and type(member) is dict:
        objects.add(path)
    elif member == [] and type(member) is list:
        lists.add(path)
    else:
        _collect(member, path, objects, lists)


def _settle(value: Any, path: Path, objects: set[Path], lists: set[Path]) -> Any:
    if type(value) is dict:
        settled: dict[str, Any] = {}
        for name, member in value.items():
            below = (*path, name)
            if type(member) is not list or member:
                settled[name] = _settle(member, below, objects, lists)
            elif below in objects:
                settled[name] = {}
            elif below in lists:
                settled[name] = member
        return settled
    if type(value) is list:
        entries: list[Any] = []
        for member in value:
            if type(member) is not list or member:
                entries.append(_settle(member, path, objects, lists))
            elif path in objects:
                entries.append({})
            elif path in lists:
                entries.append(member)
        return entries
    return value
