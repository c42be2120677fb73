"""Which parts of its variables an expression can see: only these are taken over for an evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from services._rules.kubernetes.cel.syntax import CALL, CONSTANT, HAS, IDENT, SELECT, Node, children

Selection = Mapping[str, "Selection | None"]
"""The fields that are selected, with what is selected of each: None for all of it, nothing where only its being there
matters."""
_STEPS = frozenset({"_[_]", "_?._", "_[?_]"})


def selected(tree: Node) -> Selection:
    """Return what a tree selects of each variable that it mentions."""
    found: dict[str, Any] = {}
    stack = [tree]
    while stack:
        node = stack.pop()
        path = _path(node)
        if path is None:
            stack += children(node)
        else:
            _add(found, path, whole=node.form != HAS)
    return found


def _path(node: Node) -> list[str] | None:
    """Return the names from a variable to a node; None for what is no place in a variable."""
    names: list[str] = []
    place: Node | None = node
    while place is not None:
        if place.form == IDENT:
            return [place.name, *reversed(names)]
        if place.form == SELECT or (place.form == HAS and place is node):
            names.append(place.name)
            place = place.target
        elif place.form == CALL and place.name in _STEPS and _key(place) is not None:
            names.append(str(_key(place)))
            place = place.args[0]
        else:
            return None
    return None


def _key(node: Node) -> str | None:
    last = node.args[-1]
    return last.value if last.form == CONSTANT and isinstance(last.value, str) else None


def _add(found: dict[str, Any], path: list[str], *, whole: bool) -> None:
    for name in path[:-1]:
        inner = found.setdefault(name, {})
        if inner is None:
            return
        found = inner
    if whole:
        found[path[-1]] = None
    else:
        found.setdefault(path[-1], {})


def together(selections: Iterable[Selection]) -> Selection:
    """Return what several trees select together."""
    found: dict[str, Any] = {}
    for selection in selections:
        for name, part in selection.items():
            known = found.get(name, {})
            found[name] = None if part is None or known is None else together([known, part])
    return found


def pruned(value: Any, selection: Selection | None) -> Any:
    """Return a value with only what is selected of it."""
    if selection is None:
        return value
    if isinstance(value, dict):
        return {name: pruned(value[name], part) for name, part in selection.items() if name in value}
    return [] if isinstance(value, list) and not selection else value
