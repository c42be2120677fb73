"""What a checked expression can cost at most with values of declared sizes: the estimate by which definitions are refused.

Every deviation would refuse what a kube-apiserver takes, or the reverse, so this follows its estimate also where that
is generous (keys of maps and comparisons of declared numbers cost nothing) or strict (what `string()` makes, or an
optional field has, is of unknown size).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from services._rules.kubernetes.cel.shapes import Shape, Sized
from services._rules.kubernetes.cel.syntax import CONSTANT, HAS, LIST, MAP, Loop, Node, Typed

UNLIMITED: Final = (1 << 64) - 1
"""The cost of what has no bound."""

_PER_CHARACTER: Final = 0.1
_PER_PATTERN_CHARACTER: Final = 0.25
_NEW_LIST: Final = 10
_NEW_MAP: Final = 30
_AUTHORIZER_CHECK: Final = 350_000
_SCALARS: Final = frozenset({"bool", "int", "uint", "double", "timestamp", "duration"})
_OF_FIELDS: Final = frozenset({"map", "param"})

Range = tuple[int, int]
"""The smallest and the largest size."""
UNKNOWN: Final[Range] = (0, UNLIMITED)
_ONE: Final[Range] = (1, 1)


UNDECLARED: Final = Shape()
_ROOT: Final = ""
"""The name in scopes under which the whole value stands: what is taken from a made value counts as large as that."""


class _Entry(msgspec.Struct, frozen=True):
    """The sizes inside a list or map that an expression makes itself."""

    listed: bool
    key: Range
    value: Range


class _Part(msgspec.Struct, frozen=True):
    """What is known of a part of an expression."""

    cost: int
    size: Range | None = None
    shape: Sized | None = None
    """What the schema declares for it, where it is a place in the object; UNDECLARED for one that the schema lacks."""
    entry: _Entry | None = None


Scope = Mapping[str, _Part]


def estimate(node: Node, variables: Mapping[str, Sized], whole: Sized) -> int:
    """Return the largest cost of evaluating a checked tree; `whole` is the value that it is about."""
    scope = {name: _Part(0, (0, shape.size), shape) for name, shape in {**variables, _ROOT: whole}.items()}
    return _part(node, scope).cost


def _capped(value: int) -> int:
    return min(value, UNLIMITED)


def _times(size: int, factor: float) -> int:
    return UNLIMITED if size >= UNLIMITED and factor >= 1 else _capped(math.ceil(float(size) * factor))


def _union(one: Range, other: Range) -> Range:
    return min(one[0], other[0]), max(one[1], other[1])


def _sum(one: Range, other: Range) -> Range:
    return _capped(one[0] + other[0]), _capped(one[1] + other[1])


def _product(one: Range, other: Range) -> Range:
    return _capped(one[0] * other[0]), _capped(one[1] * other[1])


def _scalar(kind: Typed) -> bool:
    return kind.name in _SCALARS or (kind.name == "optional" and kind.inner is not None and _scalar(kind.inner))


def _place(shape: Sized | None) -> Range | None:
    return None if shape is None or shape is UNDECLARED else (0, shape.size)


def _below(part: _Part, scope: Scope, find: Callable[[Sized], Sized | None]) -> Sized | None:
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


def _part(node: Node, scope: Scope) -> _Part:
    match node.form:
        case "constant":
            return _Part(0, _constant_size(node.value))
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


def _ident(node: Node, scope: Scope) -> _Part:
    known = scope.get(node.name)
    if known is None:
        # The name of a type.
        known = scope[_ROOT]
    size = _place(known.shape) or (_ONE if _scalar(node.kind) else known.size)
    return _Part(1, size, known.shape, known.entry)


def _select(node: Node, scope: Scope) -> _Part:
    assert node.target is not None
    of = _part(node.target, scope)
    if node.form == HAS:
        # Whether a field is there costs nothing more than to get to the object.
        return _Part(of.cost, _ONE)
    kind = node.target.kind
    step = 1 if kind.message or kind.name in _OF_FIELDS else 0
    shape = _below(of, scope, _field(node.name))
    size = _place(shape) or (_ONE if _scalar(node.kind) else None)
    return _Part(_capped(of.cost + step), size, shape)


def _literal(node: Node, scope: Scope) -> _Part:
    parts = [_part(item, scope) for item in node.args]
    cost = sum(part.cost for part in parts)
    sizes = [part.size or UNKNOWN for part in parts]
    if node.form == LIST:
        entry = _Entry(True, _ONE, _all(sizes))
        return _Part(_capped(cost + _NEW_LIST), (len(parts), len(parts)), entry=entry)
    count = len(parts) // 2
    entry = _Entry(False, _all(sizes[::2]), _all(sizes[1::2]))
    return _Part(_capped(cost + _NEW_MAP), (count, count), entry=entry)


def _all(sizes: list[Range]) -> Range:
    return (min(size[0] for size in sizes), max(size[1] for size in sizes)) if sizes else (0, 0)


def _loop(node: Node, scope: Scope) -> _Part:
    loop = node.loop
    assert loop is not None
    over, start = _part(loop.over, scope), _part(loop.start, scope)
    outer = {**scope, loop.result_variable: start}
    if _binds(loop):
        result = _part(loop.result, outer)
        return _Part(_capped(over.cost + start.cost + result.cost), result.size, entry=result.entry)
    inner = {**outer, **_items_of(loop, over, scope)}
    again, step = _part(loop.condition, inner), _part(loop.step, inner)
    result = _part(loop.result, outer)
    rounds = over.size or UNKNOWN
    cost = over.cost + start.cost + result.cost + rounds[1] * (again.cost + step.cost)
    size = _ONE if _scalar(node.kind) else None
    entry = None
    if loop.start.form == CONSTANT:
        size = start.size
    elif loop.start.form in (LIST, MAP):
        size, entry = rounds, step.entry
    return _Part(_capped(cost), size, entry=entry)


def _binds(loop: Loop) -> bool:
    """Return whether a loop is what `cel.bind` becomes, which has no rounds."""
    empty = loop.over.form == LIST and not loop.over.args
    return empty and loop.condition.form == CONSTANT and loop.condition.value is False


def _items_of(loop: Loop, over: _Part, scope: Scope) -> dict[str, _Part]:
    """Return what the variables of a loop stand for."""
    shape, entry = over.shape, over.entry
    if entry is not None:
        listed = entry.listed
    elif shape is not None and shape.items is not None:
        listed = shape.keys is None
    else:
        listed = loop.over.kind.name == "list"
    value = _Part(0, entry.value if entry is not None else None, _below(over, scope, _items))
    key = _Part(0, entry.key if entry is not None else None, _below(over, scope, _keys))
    if loop.second:
        return {loop.variable: key, loop.second: value}
    return {loop.variable: value if listed else key}


class _Call(msgspec.Struct, frozen=True):
    """A call of one overload; `parts` has the target first, where there is one."""

    node: Node
    parts: list[_Part]
    overload: str

    @property
    def sizes(self) -> list[Range]:
        return [part.size or UNKNOWN for part in self.parts]


Answer = tuple[int, Range | None]
"""The cost of a call without that of its arguments, and the size of its result if that is known."""
Rule = Callable[[_Call], Answer | None]


def _call(node: Node, scope: Scope) -> _Part:
    parts = [_part(item, scope) for item in ([node.target] if node.target is not None else []) + node.args]
    spent = sum(part.cost for part in parts)
    if node.name == "dyn":
        return _Part(_capped(spent + 1), parts[0].size, entry=parts[0].entry)
    if node.name == "_?_:_":
        return _conditional(parts)
    most, size = 0, None
    for overload in node.overloads:
        cost, found = _answer(_Call(node, parts, overload))
        most = max(most, cost)
        if found is not None:
            size = found if size is None else _union(size, found)
    shape = None
    entry = None
    if node.name == "_[_]":
        shape = _below(parts[0], scope, _items)
        size = parts[0].entry.value if parts[0].entry is not None else None
    elif node.name == "_+_" and parts[0].entry is not None and parts[1].entry is not None:
        one, other = parts[0].entry, parts[1].entry
        entry = _Entry(one.listed, _union(one.key, other.key), _union(one.value, other.value))
    size = size or _place(shape) or (_ONE if _scalar(node.kind) else None)
    return _Part(_capped(spent + most), size, shape, entry)


def _conditional(parts: list[_Part]) -> _Part:
    asked, yes, no = parts
    entry = None
    if yes.entry is not None and no.entry is not None:
        keys, values = _union(yes.entry.key, no.entry.key), _union(yes.entry.value, no.entry.value)
        entry = _Entry(yes.entry.listed, keys, values)
    size = _union(yes.size or UNKNOWN, no.size or UNKNOWN)
    return _Part(_capped(asked.cost + max(yes.cost, no.cost)), size, entry=entry)


def _answer(call: _Call) -> Answer:
    for rules, name in ((_BY_NAME, call.node.name), (_BY_OVERLOAD, call.overload)):
        rule = rules.get(name)
        answer = rule(call) if rule is not None else None
        if answer is not None:
            return answer
    return 1, None


def _read(size: Range) -> int:
    return _times(size[1], _PER_CHARACTER)


def _reads(which: int, *, times: int = 1, keeps: bool = False) -> Rule:
    """Return the rule of a function that goes through one argument; one that `keeps` gives back as much."""
    return lambda call: (_times(call.sizes[which][1], times * _PER_CHARACTER), call.sizes[which] if keeps else None)


def _nothing_more(_: _Call) -> Answer:
    return 0, None


def _matches(call: _Call) -> Answer | None:
    if call.node.target is None:
        return None
    return _pattern_cost(call), None


def _pattern_cost(call: _Call) -> int:
    text, pattern = call.sizes[:2]
    return _capped(_read(_sum(text, _ONE)) * _times(pattern[1], _PER_PATTERN_CHARACTER))


def _find(call: _Call) -> Answer:
    return _pattern_cost(call), (0, call.sizes[0][1])


def _contains(call: _Call) -> Answer:
    return _capped(_read(call.sizes[0]) * _read(call.sizes[1])), None


def _of_items(call: _Call) -> Answer:
    """Compare the items of a list with each other, or go through a text."""
    kind, size = (call.node.target or call.node.args[0]).kind, call.sizes[0]
    if kind.name != "list":
        return _read(size), None
    each = 1
    if kind.inner is not None and kind.inner.name in ("string", "bytes"):
        shape = call.parts[0].shape
        each += _read(_place(shape.items if shape is not None else None) or UNKNOWN)
    return _capped(size[1] * each), None


def _replace(call: _Call) -> Answer:
    text, old, new = call.sizes[:3]
    smallest, largest = _replaced(text[0], old[1], new[0]), 0
    if old[0] == 0:
        largest = _capped(_capped(text[1] + 1) * new[1] + text[1])
    elif new[1] <= old[0]:
        largest = text[1]
    else:
        largest = _capped(_times(text[1], 1 / old[0]) * new[1])
    return _times(text[1], 2 * _PER_CHARACTER), (smallest, largest)


def _replaced(text: int, old: int, new: int) -> int:
    """Return the smallest size of a text in which the longest parts are replaced by the shortest."""
    if old == 0:
        return _capped((text + 1) * new + text)
    return text if old <= new else _times(text, 1 / old) * new


def _split(call: _Call) -> Answer:
    limit = call.node.args[1].value if len(call.node.args) > 1 else None
    most = call.sizes[0][1]
    if isinstance(limit, int):
        most = limit if limit >= 0 else UNLIMITED
    return _times(call.sizes[0][1], 2 * _PER_CHARACTER), (0, most)


def _join(call: _Call) -> Answer:
    kind, items = (call.node.target or call.node.args[0]).kind, call.sizes[0]
    size: Range = (0, 0)
    if kind.inner is not None:
        shape = call.parts[0].shape
        size = _product(items, _place(shape.items if shape is not None else None) or UNKNOWN)
    if len(call.sizes) > 1:
        gaps = max(0, items[0] - 1), max(0, items[1] - 1)
        size = _sum(size, _product(call.sizes[1], gaps))
    return _read(size), size


def _in_network(call: _Call) -> Answer:
    base = {"containsIP": 4, "containsCIDR": 7}[call.node.name]
    return _capped(base + (_read(call.sizes[1]) if call.overload.endswith("_string") else 0)), None


def _address(call: _Call) -> Answer:
    return (1, None) if call.node.target is not None else (_read(call.sizes[0]), None)


_COMPARED_AT_ONCE: Final = frozenset({"kubernetes.Quantity", "net.IP", "net.CIDR"})


def _equal(call: _Call) -> Answer | None:
    left, right = call.node.args
    if left.kind != right.kind or not left.kind.message:
        return None
    if left.kind.name == "kubernetes.URL":
        return _times((call.parts[1].size or _ONE)[1], _PER_CHARACTER), None
    at_once = left.kind.name in _COMPARED_AT_ONCE or left.kind.name.startswith("kubernetes.authorization.")
    return (1, None) if at_once else None


def _compared(call: _Call) -> Answer:
    return _times(min(size[1] for size in call.sizes), _PER_CHARACTER), None


def _joined(call: _Call) -> Answer:
    size = _sum(*call.sizes)
    return (1, size) if call.overload == "add_list" else (_read(size), size)


def _list_made(size: Range, factor: float = 1) -> Answer:
    return _capped(_times(size[1], factor) + 1 + _NEW_LIST), size


def _number(node: Node, otherwise: int) -> int:
    return max(0, node.value) if isinstance(node.value, int) and node.form == CONSTANT else otherwise


def _slice(call: _Call) -> Answer:
    begin, end = _number(call.node.args[0], 0), _number(call.node.args[1], call.sizes[0][1])
    size = max(0, end - begin)
    return _list_made((size, size))


def _flatten(call: _Call) -> Answer:
    return _list_made(call.sizes[0], _number(call.node.args[0], UNLIMITED) if call.node.args else 1)


def _sort(which: int) -> Rule:
    def rule(call: _Call) -> Answer:
        text = "string" in call.overload or "bytes" in call.overload
        size = call.sizes[which]
        return _list_made(_product(size, size), 2 + _PER_CHARACTER if text else 2)

    return rule


def _sets(factor: int) -> Rule:
    return lambda call: (_capped(_product(*call.sizes[:2])[1] * factor + 1), None)


_BY_NAME: Final[dict[str, Rule]] = {
    "_&&_": _nothing_more,
    "_||_": _nothing_more,
    "check": lambda _: (_AUTHORIZER_CHECK, None),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _of_items),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _reads(0, keeps=True)),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity"), _reads(0)),
    "ip": _address,
    "ip.isCanonical": _reads(0, times=2),
    "containsIP": _in_network,
    "containsCIDR": _in_network,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "sort": _sort(0),
    "@sortByAssociatedKeys": _sort(1),
    "find": _find,
    "findAll": _find,
    "_==_": _equal,
}
"""The functions of the libraries of Kubernetes that cost more than 1, and the operators that cost less."""

_COMPARISONS: Final = ("equals", "not_equals") + tuple(
    f"{name}_{kind}" for name in ("less", "greater", "less_equals", "greater_equals") for kind in ("string", "bytes")
)
_BY_OVERLOAD: Final[dict[str, Rule]] = {
    **dict.fromkeys(_COMPARISONS, _compared),
    **dict.fromkeys(("add_string", "add_bytes", "add_list"), _joined),
    "in_list": lambda call: (call.sizes[1][1], None),
    "matches_string": _matches,
    "contains_string": _contains,
    "starts_with_string": _reads(1),
    "ends_with_string": _reads(1),
    "string_format": _reads(0),
    "string_to_bytes": lambda call: (_read(call.sizes[0]), (call.sizes[0][0], _capped(call.sizes[0][1] * 4))),
    "bytes_to_string": lambda call: (_read(call.sizes[0]), (call.sizes[0][0] // 4, call.sizes[0][1])),
    "strings_quote": lambda call: (_read(call.sizes[0]), (call.sizes[0][0] + 2, _capped(call.sizes[0][1] * 2 + 2))),
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "list_reverse": lambda call: _list_made(call.sizes[0]),
    "list_distinct": lambda call: _list_made(_product(call.sizes[0], call.sizes[0]), 2),
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}
"""The functions of the language and of its own libraries that cost more than 1."""
