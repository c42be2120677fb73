"""What an expression can cost at most, in the units in which Kubernetes budgets them.

The same walk serves both ends: with the sizes a schema allows it estimates the worst case, with the sizes of an object
it bounds one evaluation before that begins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from services._rules.kubernetes.cel.syntax import CALL, CONSTANT, HAS, LOOP, Node, walk

LIMIT_PER_EVALUATION: Final = 1_000_000
LIMIT_PER_OBJECT: Final = 10_000_000
LIMIT_OF_RULE: Final = 10_000_000
LIMIT_OF_SCHEMA: Final = 100_000_000

_PER_CHARACTER: Final = 0.1
_PER_PATTERN_CHARACTER: Final = 0.25
_NEW_LIST: Final = 10
_NEW_MAP: Final = 30
_CEILING: Final = 1 << 62


class Shape(msgspec.Struct):
    """How large a value can be: characters of a string, entries of a list or map, and the shapes inside."""

    size: int = 1
    text: bool = False
    items: Shape | None = None
    fields: Mapping[str, Shape] | None = None


SMALL: Final = Shape()


def shape_of(value: Any) -> Shape:
    """Return the shape of a value: of the items of a list the largest in every part."""
    if isinstance(value, str | bytes):
        return Shape(len(value), text=True)
    if isinstance(value, dict):
        fields = {name: shape_of(item) for name, item in value.items()}
        longest = max((len(name) for name in fields if isinstance(name, str)), default=0)
        items = merged(list(fields.values()))
        return Shape(len(value), items=items or Shape(longest, text=True), fields=fields)
    if isinstance(value, list | tuple):
        return Shape(len(value), items=merged([shape_of(item) for item in value]))
    return SMALL


def merged(shapes: list[Shape]) -> Shape | None:
    """Return the shape as large as every one of the given in every part."""
    if not shapes:
        return None
    if len(shapes) == 1 or all(shape is SMALL for shape in shapes):
        return shapes[0]
    names = {name: None for shape in shapes for name in shape.fields or ()}
    fields = {
        name: merged([s.fields[name] for s in shapes if s.fields and name in s.fields]) or SMALL for name in names
    }
    return Shape(
        max(shape.size for shape in shapes),
        text=any(shape.text for shape in shapes),
        items=merged([shape.items for shape in shapes if shape.items is not None]),
        fields=fields or None,
    )


def grows(node: Node) -> bool:
    """Return whether the cost of a tree depends on the sizes of what it is given."""
    return any(part.form == LOOP or (part.form == CALL and part.name not in _CONSTANT) for part in walk(node))


def cost(node: Node, variables: Mapping[str, Shape]) -> int:
    """Return the largest cost of evaluating a tree."""
    return min(_CEILING, math.ceil(_cost(node, variables)[0]))


_CONSTANT: Final = frozenset(
    {"_&&_", "_||_", "_?_:_", "!_", "-_", "_-_", "_*_", "_/_", "_%_", "_[_]", "_[?_]", "_?._", "size", "int", "uint"}
    | {"double", "type", "dyn", "optional.of", "optional.none", "hasValue", "value", "or", "orValue"}
    | {"@not_strictly_false", "not_strictly_false", "_<_", "_>_", "_<=_", "_>=_", "_==_", "_!=_"}
)
_COMPARISONS: Final = frozenset({"_<_", "_>_", "_<=_", "_>=_", "_==_", "_!=_"})


def _cost(node: Node, names: Mapping[str, Shape]) -> tuple[float, Shape]:
    match node.form:
        case "constant":
            return 0, Shape(len(node.value), text=True) if isinstance(node.value, str) else SMALL
        case "ident":
            return 1, names.get(node.name, SMALL)
        case "select" | "has":
            assert node.target is not None
            spent, shape = _cost(node.target, names)
            return spent + 1, SMALL if node.form == HAS else _field(shape, node.name)
        case "list":
            parts = [_cost(item, names) for item in node.args]
            return sum(p[0] for p in parts) + _NEW_LIST, Shape(len(parts), items=merged([p[1] for p in parts]))
        case "map":
            parts = [_cost(item, names) for item in node.args]
            return sum(p[0] for p in parts) + _NEW_MAP, Shape(
                len(parts) // 2, items=merged([p[1] for p in parts[1::2]])
            )
        case "loop":
            return _loop(node, names)
        case _:
            return _call(node, names)


def _field(shape: Shape, name: str) -> Shape:
    if shape.fields is not None and name in shape.fields:
        return shape.fields[name]
    return shape.items or SMALL


def _loop(node: Node, names: Mapping[str, Shape]) -> tuple[float, Shape]:
    loop = node.loop
    assert loop is not None
    spent, over = _cost(loop.over, names)
    begun, start = _cost(loop.start, names)
    inner = {**names, loop.result_variable: Shape(over.size, items=start.items) if over.size else start}
    item = over.items or SMALL
    key = Shape(64, text=True) if over.fields is not None and not loop.second else item
    inner[loop.variable] = key
    if loop.second:
        inner[loop.second] = item
    again = _cost(loop.condition, inner)[0]
    stepped, step = _cost(loop.step, inner)
    # What a loop gathers has as many items as it has rounds, each as large as those of one step.
    final = Shape(max(over.size, start.size), items=step.items, text=start.text) if over.size else start
    ended, result = _cost(loop.result, {**inner, loop.result_variable: final})
    return spent + begun + over.size * (again + stepped) + ended, result


def _call(node: Node, names: Mapping[str, Shape]) -> tuple[float, Shape]:
    parts = [_cost(item, names) for item in ([node.target] if node.target is not None else []) + node.args]
    spent = sum(part[0] for part in parts)
    shapes = [part[1] for part in parts]
    if node.name in ("_&&_", "_||_", "@not_strictly_false", "not_strictly_false"):
        return spent, SMALL
    if node.name == "_?_:_":
        return parts[0][0] + max(parts[1][0], parts[2][0]), merged(shapes[1:]) or SMALL
    if node.name in _COMPARISONS:
        return spent + _at_least_one(min(shape.size for shape in shapes) * _PER_CHARACTER), SMALL
    if node.name in ("_[_]", "_[?_]", "_?._"):
        key = node.args[-1].value if node.args[-1].form == CONSTANT else None
        found = _field(shapes[0], key) if isinstance(key, str) else shapes[0].items or SMALL
        return spent + 1, found
    rule = _SIZED.get(node.name)
    if rule is None:
        largest = max((shape.size for shape in shapes), default=1)
        return spent + _at_least_one(largest * _PER_CHARACTER), shapes[0] if shapes else SMALL
    more, shape = rule(shapes)
    return spent + _at_least_one(more), shape


def _at_least_one(value: float) -> float:
    return max(1, math.ceil(value))


def _plus(shapes: list[Shape]) -> tuple[float, Shape]:
    left, right = shapes
    size = left.size + right.size
    if left.text or right.text:
        return size * _PER_CHARACTER, Shape(size, text=True)
    return 1, Shape(size, items=merged([s.items for s in shapes if s.items is not None]))


def _read(shapes: list[Shape]) -> tuple[float, Shape]:
    """Look at every character once and give back as many."""
    return shapes[0].size * _PER_CHARACTER, Shape(shapes[0].size, text=True)


def _matches(shapes: list[Shape]) -> tuple[float, Shape]:
    pattern = _at_least_one(shapes[1].size * _PER_PATTERN_CHARACTER) if len(shapes) > 1 else 1
    return _at_least_one((1 + shapes[0].size) * _PER_CHARACTER) * pattern, SMALL


def _contains(shapes: list[Shape]) -> tuple[float, Shape]:
    return _at_least_one(shapes[0].size * _PER_CHARACTER) * _at_least_one(shapes[1].size * _PER_CHARACTER), SMALL


def _replace(shapes: list[Shape]) -> tuple[float, Shape]:
    size = shapes[0].size * max(1, shapes[2].size if len(shapes) > 2 else 1)
    return size * _PER_CHARACTER, Shape(size, text=True)


def _split(shapes: list[Shape]) -> tuple[float, Shape]:
    return shapes[0].size * _PER_CHARACTER, Shape(shapes[0].size, items=Shape(shapes[0].size, text=True))


def _find_all(shapes: list[Shape]) -> tuple[float, Shape]:
    return _matches(shapes)[0], Shape(shapes[0].size, items=Shape(shapes[0].size, text=True))


def _find(shapes: list[Shape]) -> tuple[float, Shape]:
    return _matches(shapes)[0], Shape(shapes[0].size, text=True)


def _join(shapes: list[Shape]) -> tuple[float, Shape]:
    item = shapes[0].items.size if shapes[0].items is not None else 1
    size = shapes[0].size * (item + (shapes[1].size if len(shapes) > 1 else 0))
    return size * _PER_CHARACTER, Shape(size, text=True)


def _format(shapes: list[Shape]) -> tuple[float, Shape]:
    size = shapes[0].size + (shapes[1].size * shapes[1].items.size if len(shapes) > 1 and shapes[1].items else 0)
    return size * _PER_CHARACTER, Shape(size, text=True)


def _each_item(shapes: list[Shape]) -> tuple[float, Shape]:
    return shapes[0].size, shapes[0].items or SMALL


def _ordered(shapes: list[Shape]) -> tuple[float, Shape]:
    size = max(2, shapes[0].size)
    return size * math.log2(size), shapes[0]


def _among(shapes: list[Shape]) -> tuple[float, Shape]:
    return (1 if shapes[1].fields is not None else shapes[1].size), SMALL


def _each_with_each(shapes: list[Shape]) -> tuple[float, Shape]:
    return shapes[0].size * shapes[-1].size, shapes[0]


def _flatten(shapes: list[Shape]) -> tuple[float, Shape]:
    inner = shapes[0].items
    size = shapes[0].size * max(1, inner.size if inner is not None else 1)
    return size, Shape(size, items=inner.items if inner is not None else None)


_SIZED: Final[dict[str, Callable[[list[Shape]], tuple[float, Shape]]]] = {
    "_+_": _plus,
    "@in": _among,
    "matches": _matches,
    "contains": _contains,
    "startsWith": lambda shapes: (shapes[1].size * _PER_CHARACTER, SMALL),
    "endsWith": lambda shapes: (shapes[1].size * _PER_CHARACTER, SMALL),
    "size": lambda _: (1, SMALL),
    "hasValue": lambda _: (1, SMALL),
    "value": lambda shapes: (1, shapes[0]),
    "or": lambda shapes: (1, merged(shapes) or SMALL),
    "orValue": lambda shapes: (1, merged(shapes) or SMALL),
    "optional.of": lambda shapes: (1, shapes[0]),
    "optional.none": lambda _: (1, SMALL),
    "string": lambda shapes: (shapes[0].size * _PER_CHARACTER, Shape(max(shapes[0].size, 40), text=True)),
    "lowerAscii": _read,
    "upperAscii": _read,
    "substring": _read,
    "trim": _read,
    "charAt": lambda shapes: (shapes[0].size * _PER_CHARACTER, Shape(1, text=True)),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "format": _format,
    "find": _find,
    "findAll": _find_all,
    "isSorted": _each_item,
    "sum": _each_item,
    "min": _each_item,
    "max": _each_item,
    "sort": _ordered,
    "distinct": _each_with_each,
    "sets.contains": _each_with_each,
    "sets.equivalent": _each_with_each,
    "sets.intersects": _each_with_each,
    "flatten": _flatten,
}
