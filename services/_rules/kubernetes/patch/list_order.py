"""Decides the order of a list merged by a strategic merge patch: as the patch has it, other items fitted in."""

from typing import Any

from services._rules.kubernetes.patch.go_text import go_format
from services._rules.kubernetes.patch.json_patch import PatchError


def element_order(merged: list[Any], order: list[Any], original: list[Any], key: str) -> list[Any]:
    """Return `merged` with the items that `order` names in its order, and the others where `original` has them.

    Items present in both keep their relation from `original`; an item that only the patch knows goes before the
    next server-only one. `key` is the merge key, or empty for a list of scalars.
    """
    if key:
        for item in (*merged, *order):
            if not isinstance(item, dict) or key not in item:
                raise PatchError(f"map: {go_format(item)} does not contain declared merge key: {key}")
    patched = [item for item in merged if position(order, item, key) >= 0]
    others = [item for item in merged if position(order, item, key) < 0]
    patched.sort(key=lambda item: position(order, item, key))
    others.sort(key=lambda item: position(original, item, key) % (len(original) + 1))
    result: list[Any] = []
    left = right = 0
    while left < len(others) and right < len(patched):
        ours, theirs = position(original, others[left], key), position(original, patched[right], key)
        if 0 <= ours < theirs:
            result.append(others[left])
            left += 1
        else:
            result.append(patched[right])
            right += 1
    return [*result, *others[left:], *patched[right:]]


def matches_order(changes: list[Any], order: list[Any], key: str) -> None:
    """Raise PatchError unless the changed items appear in the order list, in the same order."""
    wanted = [item for item in changes if not (isinstance(item, dict) and item.get("$patch") == "delete")]
    at = 0
    for item in order:
        if at < len(wanted) and position([item], wanted[at], key) == 0:
            at += 1
    if at < len(wanted):
        raise PatchError(
            f"The order in patch list:\n{go_format(changes)}\n"
            f" doesn't match $setElementOrder list:\n{go_format(order)}\n"
        )


def position(items: list[Any], item: Any, key: str) -> int:
    """Return where `items` has the same merge key (or the same scalar), or -1."""
    if key:
        value = item.get(key) if isinstance(item, dict) else None
        for index, other in enumerate(items):
            if isinstance(other, dict) and key in other and other[key] == value:
                return index
        return -1
    for index, other in enumerate(items):
        if other == item and isinstance(other, bool) == isinstance(item, bool):
            return index
    return -1


def go_kind(value: Any) -> str:
    """Return the name of a decoded JSON value's kind in Go."""
    match value:
        case None:
            return "invalid"
        case bool():
            return "bool"
        case str():
            return "string"
        case int():
            return "int64"
        case float():
            return "float64"
        case list():
            return "slice"
        case _:
            return "map"
