"""What a checked expression can cost at most with values of declared sizes: by this, definitions are refused.

Every deviation would refuse what a kube-apiserver takes, or the reverse, so this follows its estimate also where that
is generous (keys of maps and comparisons of declared numbers cost nothing) or strict (what `string()` makes, or an
optional field has, is of unknown size).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from services._rules.kubernetes.cel.call_estimates import (
    ONE,
    UNDECLARED,
    UNKNOWN,
    Call,
    Entry,
    Part,
    Range,
    answer_of,
    capped,
    place_size,
    union,
)
from services._rules.kubernetes.cel.syntax import CONSTANT, HAS, LIST, MAP, Loop, Node, Typed
from services._rules.kubernetes.cel.value_sizes import Shape, Sized

_NEW_LIST: Final = 10
_NEW_MAP: Final = 30
_SCALARS: Final = frozenset({"bool", "int", "uint", "double", "timestamp", "duration"})
_OF_FIELDS: Final = frozenset({"map", "param"})

_ROOT: Final = ""
"""The name in scopes under which the whole value stands: what is taken from a made value counts as large as that."""


Scope = Mapping[str, Part]


def estimate(node: Node, variables: Mapping[str, Sized], whole: Sized) -> int:
    """Return the largest cost of evaluating a checked tree; `whole` is the value that it is about."""
    scope = {name: Part(0, (0, shape.size), shape) for name, shape in {**variables, _ROOT: whole}.items()}
    return _part(node, scope).cost


def _scalar(kind: Typed) -> bool:
    return kind.name in _SCALARS or (kind.name == "optional" and kind.inner is not None and _scalar(kind.inner))


def _below(part: Part, scope: Scope, find: Callable[[Sized], Sized | None]) -> Sized | None:
    """Return what is declared for a place below another."""
    if part.shape is None:
        return scope[_ROOT].shape
    return UNDECLARED if part.shape is UNDECLARED else find(part.shape) or UNDECLARED


def _field(name: str) -> Callable[[Sized], Sized | None]:
    # Values of maps that are selected as if they were fields have no declared size.
    return lambda shape: shape.field(name) if shape.keys is None else None


def _items(shape: Sized) -> Sized | None:
    return shape.items


def _keys(shape: Sized) -> Sized | None:
    return _FREE if shape.keys is not None else None


_FREE: Final = Shape(0)


def _part(node: Node, scope: Scope) -> Part:
    match node.form:
        case "constant":
            return Part(0, _constant_size(node.value))
        case "ident":
            return _ident(node, scope)
        case "select" | "has":
            return _select(node, scope)
        case "list" | "map":
            return _literal(node, scope)
        case "loop":
            return _loop(node, scope)
        case _:
            return _call(node, scope)


def _constant_size(value: object) -> Range:
    size = len(value) if isinstance(value, str | bytes) else 1
    return size, size


def _ident(node: Node, scope: Scope) -> Part:
    known = scope.get(node.name)
    if known is None:
        # The name of a type.
        known = scope[_ROOT]
    size = place_size(known.shape) or (ONE if _scalar(node.kind) else known.size)
    return Part(1, size, known.shape, known.entry)


def _select(node: Node, scope: Scope) -> Part:
    assert node.target is not None
    of = _part(node.target, scope)
    if node.form == HAS:
        # Whether a field is there costs nothing more than to get to the object.
        return Part(of.cost, ONE)
    kind = node.target.kind
    step = 1 if kind.message or kind.name in _OF_FIELDS else 0
    shape = _below(of, scope, _field(node.name))
    size = place_size(shape) or (ONE if _scalar(node.kind) else None)
    return Part(capped(of.cost + step), size, shape)


def _literal(node: Node, scope: Scope) -> Part:
    parts = [_part(item, scope) for item in node.args]
    cost = sum(part.cost for part in parts)
    sizes = [part.size or UNKNOWN for part in parts]
    if node.form == LIST:
        entry = Entry(True, ONE, _all(sizes))
        return Part(capped(cost + _NEW_LIST), (len(parts), len(parts)), entry=entry)
    count = len(parts) // 2
    entry = Entry(False, _all(sizes[::2]), _all(sizes[1::2]))
    return Part(capped(cost + _NEW_MAP), (count, count), entry=entry)


def _all(sizes: list[Range]) -> Range:
    return (min(size[0] for size in sizes), max(size[1] for size in sizes)) if sizes else (0, 0)


def _loop(node: Node, scope: Scope) -> Part:
    loop = node.loop
    assert loop is not None
    over, start = _part(loop.over, scope), _part(loop.start, scope)
    outer = {**scope, loop.result_variable: start}
    if _binds(loop):
        result = _part(loop.result, outer)
        return Part(capped(over.cost + start.cost + result.cost), result.size, entry=result.entry)
    inner = {**outer, **_items_of(loop, over, scope)}
    again, step = _part(loop.condition, inner), _part(loop.step, inner)
    result = _part(loop.result, outer)
    rounds = over.size or UNKNOWN
    cost = over.cost + start.cost + result.cost + rounds[1] * (again.cost + step.cost)
    size = ONE if _scalar(node.kind) else None
    entry = None
    if loop.start.form == CONSTANT:
        size = start.size
    elif loop.start.form in (LIST, MAP):
        size, entry = rounds, step.entry
    return Part(capped(cost), size, entry=entry)


def _binds(loop: Loop) -> bool:
    """Return whether a loop is what `cel.bind` becomes, which has no rounds."""
    empty = loop.over.form == LIST and not loop.over.args
    return empty and loop.condition.form == CONSTANT and loop.condition.value is False


def _items_of(loop: Loop, over: Part, scope: Scope) -> dict[str, Part]:
    """Return what the variables of a loop stand for."""
    shape, entry = over.shape, over.entry
    if entry is not None:
        listed = entry.listed
    elif shape is not None and shape.items is not None:
        listed = shape.keys is None
    else:
        listed = loop.over.kind.name == "list"
    value = Part(0, entry.value if entry is not None else None, _below(over, scope, _items))
    key = Part(0, entry.key if entry is not None else None, _below(over, scope, _keys))
    if loop.second:
        return {loop.variable: key, loop.second: value}
    return {loop.variable: value if listed else key}


def _call(node: Node, scope: Scope) -> Part:
    parts = [_part(item, scope) for item in ([node.target] if node.target is not None else []) + node.args]
    spent = sum(part.cost for part in parts)
    if node.name == "dyn":
        return Part(capped(spent + 1), parts[0].size, entry=parts[0].entry)
    if node.name == "_?_:_":
        return _conditional(parts)
    most, size = 0, None
    for overload in node.overloads:
        cost, found = answer_of(Call(node, parts, overload))
        most = max(most, cost)
        if found is not None:
            size = found if size is None else union(size, found)
    shape = None
    entry = None
    if node.name == "_[_]":
        shape = _below(parts[0], scope, _items)
        size = parts[0].entry.value if parts[0].entry is not None else None
    elif node.name == "_+_" and parts[0].entry is not None and parts[1].entry is not None:
        one, other = parts[0].entry, parts[1].entry
        entry = Entry(one.listed, union(one.key, other.key), union(one.value, other.value))
    size = size or place_size(shape) or (ONE if _scalar(node.kind) else None)
    return Part(capped(spent + most), size, shape, entry)


def _conditional(parts: list[Part]) -> Part:
    asked, yes, no = parts
    entry = None
    if yes.entry is not None and no.entry is not None:
        keys, values = union(yes.entry.key, no.entry.key), union(yes.entry.value, no.entry.value)
        entry = Entry(yes.entry.listed, keys, values)
    size = union(yes.size or UNKNOWN, no.size or UNKNOWN)
    return Part(capped(asked.cost + max(yes.cost, no.cost)), size, entry=entry)
