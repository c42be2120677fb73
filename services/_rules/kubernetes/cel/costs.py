"""What one evaluation of an expression can cost at most, in the units in which Kubernetes budgets them.

The implementation does not count while it evaluates, so one walk over the tree bounds an evaluation before that begins:
with the sizes of what the expression selects in the object, which are looked up only there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from services._rules.kubernetes.cel.named_formats import FORMATS
from services._rules.kubernetes.cel.syntax import CALL, CONSTANT, HAS, LIST, LOOP, Node, walk
from services._rules.kubernetes.cel.value_sizes import SMALL, Shape, Sized, TooMuch, either

LIMIT_PER_EVALUATION: Final = 1_000_000
LIMIT_PER_OBJECT: Final = 10_000_000
LIMIT_OF_CONDITIONS: Final = 2_500_000
"""For all match conditions of a webhook or of a policy together."""
LIMIT_OF_RULE: Final = 10_000_000
LIMIT_OF_SCHEMA: Final = 100_000_000

_PER_CHARACTER: Final = 0.1
_PER_PATTERN_CHARACTER: Final = 0.25
_NEW_LIST: Final = 10
_NEW_MAP: Final = 30
_AUTHORIZER_CHECK: Final = 350_000
_CEILING: Final = 1 << 62
_NOTHING: Final = Shape(0)
_MOST_PROBLEMS: Final = 4
_LONGEST_PROBLEM: Final = 512
"""What a format can find wrong with a text, and how long it says so, besides the text."""
_LOGIC: Final = frozenset({"_&&_", "_||_"})
_COMPARISONS: Final = frozenset({"_<_", "_>_", "_<=_", "_>=_", "_==_", "_!=_"})


def grows(node: Node) -> bool:
    """Return whether the cost of a tree depends on the sizes of what it is given."""
    return any(part.form == LOOP or (part.form == CALL and _call_grows(part)) for part in walk(node))


def _call_grows(node: Node) -> bool:
    """Return whether a call works on more the larger its arguments are; comparing with a short text does not."""
    if node.name in _COMPARISONS:
        return not any(part.form == CONSTANT and _short(part.value) for part in node.args)
    return node.name in _SIZED and node.name not in _PASSED_ON


def _short(value: object) -> bool:
    return not isinstance(value, str | bytes) or len(value) * _PER_CHARACTER <= 1


def cost(node: Node, variables: Mapping[str, Sized]) -> int:
    """Return the largest cost of evaluating a tree."""
    try:
        return min(_CEILING, math.ceil(_cost(node, variables)[0]))
    except TooMuch:
        return _CEILING


def _cost(node: Node, names: Mapping[str, Sized]) -> tuple[float, Sized]:
    match node.form:
        case "constant":
            return 0, Shape(len(node.value), text=True) if isinstance(node.value, str | bytes) else SMALL
        case "ident":
            return 1, names.get(node.name, SMALL)
        case "select" | "has":
            assert node.target is not None
            spent, shape = _cost(node.target, names)
            # Whether a field is there costs nothing more than to get to the object.
            return (spent, SMALL) if node.form == HAS else (spent + 1, shape.field(node.name) or _NOTHING)
        case "list" | "map":
            return _literal(node, names)
        case "loop":
            return _loop(node, names)
        case _:
            return _call(node, names)


def _literal(node: Node, names: Mapping[str, Sized]) -> tuple[float, Sized]:
    parts = [_cost(item, names) for item in node.args]
    spent = sum(part[0] for part in parts)
    shapes: list[Sized | None] = [part[1] for part in parts]
    if node.form == LIST:
        return spent + _NEW_LIST, Shape(len(parts), items=either(shapes))
    return spent + _NEW_MAP, Shape(len(parts) // 2, items=either(shapes[1::2]), keys=either(shapes[::2]))


def _loop(node: Node, names: Mapping[str, Sized]) -> tuple[float, Sized]:
    loop = node.loop
    assert loop is not None
    spent, over = _cost(loop.over, names)
    begun, start = _cost(loop.start, names)
    gathers = loop.start.form != CONSTANT and over.size > 0
    inner = dict(names)
    inner[loop.result_variable] = Shape(over.size, items=start.items) if gathers else start
    item = over.items or _NOTHING
    inner[loop.variable] = over.keys or (SMALL if loop.second else item)
    if loop.second:
        inner[loop.second] = item
    again = _cost(loop.condition, inner)[0]
    stepped, step = _cost(loop.step, inner)
    # What a loop gathers has as many items as it has rounds, each as large as those of one step.
    final = Shape(over.size, items=step.items, keys=step.keys) if gathers else start
    ended, result = _cost(loop.result, {**inner, loop.result_variable: final})
    return spent + begun + over.size * (again + stepped) + ended, result


def _call(node: Node, names: Mapping[str, Sized]) -> tuple[float, Sized]:
    parts = [_cost(item, names) for item in ([node.target] if node.target is not None else []) + node.args]
    spent = sum(part[0] for part in parts)
    shapes = [part[1] for part in parts]
    if node.name in _LOGIC:
        return spent, SMALL
    if node.name == "_?_:_":
        return parts[0][0] + max(parts[1][0], parts[2][0]), either([*shapes[1:]]) or SMALL
    if node.name in _COMPARISONS:
        return spent + _at_least_one(min(shape.size for shape in shapes) * _PER_CHARACTER), SMALL
    if node.name in ("_[_]", "_[?_]", "_?._"):
        key = node.args[-1].value if node.args[-1].form == CONSTANT else None
        found = shapes[0].field(key) if isinstance(key, str) else shapes[0].items
        return spent + 1, found or _NOTHING
    rule = _SIZED.get(node.name)
    if rule is None:
        return spent + 1, SMALL
    more, shape = rule(shapes)
    return spent + _at_least_one(more), shape


def _at_least_one(value: float) -> float:
    return max(1, math.ceil(value))


def _plus(shapes: list[Sized]) -> tuple[float, Sized]:
    left, right = shapes
    size = left.size + right.size
    if left.text or right.text:
        return size * _PER_CHARACTER, Shape(size, text=True)
    return 1, Shape(size, items=either([shape.items for shape in shapes]))


def _read(shapes: list[Sized]) -> tuple[float, Sized]:
    """Look at every character once and give back as many."""
    return shapes[0].size * _PER_CHARACTER, Shape(shapes[0].size, text=True)


def _matches(shapes: list[Sized]) -> tuple[float, Sized]:
    pattern = _at_least_one(shapes[1].size * _PER_PATTERN_CHARACTER) if len(shapes) > 1 else 1
    return _at_least_one((1 + shapes[0].size) * _PER_CHARACTER) * pattern, SMALL


def _given_format(pattern: int) -> Callable[[list[Sized]], tuple[float, Sized]]:
    """Give a format, which is as large as the pattern that it counts."""
    return lambda _: (1, Shape(pattern))


def _validate(shapes: list[Sized]) -> tuple[float, Sized]:
    pattern, text = shapes
    problems = Shape(_MOST_PROBLEMS, items=Shape(_LONGEST_PROBLEM + text.size, text=True))
    return _matches([text, pattern])[0], problems


def _contains(shapes: list[Sized]) -> tuple[float, Sized]:
    return _at_least_one(shapes[0].size * _PER_CHARACTER) * _at_least_one(shapes[1].size * _PER_CHARACTER), SMALL


def _replace(shapes: list[Sized]) -> tuple[float, Sized]:
    size = shapes[0].size * max(1, shapes[2].size if len(shapes) > 2 else 1)
    return size * _PER_CHARACTER, Shape(size, text=True)


def _split(shapes: list[Sized]) -> tuple[float, Sized]:
    return shapes[0].size * _PER_CHARACTER, Shape(shapes[0].size, items=Shape(shapes[0].size, text=True))


def _find_all(shapes: list[Sized]) -> tuple[float, Sized]:
    return _matches(shapes)[0], Shape(shapes[0].size, items=Shape(shapes[0].size, text=True))


def _find(shapes: list[Sized]) -> tuple[float, Sized]:
    return _matches(shapes)[0], Shape(shapes[0].size, text=True)


def _join(shapes: list[Sized]) -> tuple[float, Sized]:
    item = shapes[0].items.size if shapes[0].items is not None else 1
    size = shapes[0].size * (item + (shapes[1].size if len(shapes) > 1 else 0))
    return size * _PER_CHARACTER, Shape(size, text=True)


def _format(shapes: list[Sized]) -> tuple[float, Sized]:
    size = shapes[0].size + (shapes[1].size * shapes[1].items.size if len(shapes) > 1 and shapes[1].items else 0)
    return size * _PER_CHARACTER, Shape(size, text=True)


def _each_item(shapes: list[Sized]) -> tuple[float, Sized]:
    return shapes[0].size, shapes[0].items or SMALL


def _ordered(shapes: list[Sized]) -> tuple[float, Sized]:
    size = max(2, shapes[0].size)
    return size * math.log2(size), shapes[0]


def _among(shapes: list[Sized]) -> tuple[float, Sized]:
    return (1 if shapes[1].keys is not None else shapes[1].size), SMALL


def _each_with_each(shapes: list[Sized]) -> tuple[float, Sized]:
    return shapes[0].size * shapes[-1].size, shapes[0]


def _flatten(shapes: list[Sized]) -> tuple[float, Sized]:
    inner = shapes[0].items
    size = shapes[0].size * max(1, inner.size if inner is not None else 1)
    return size, Shape(size, items=inner.items if inner is not None else None)


_PASSED_ON: Final = frozenset({"dyn", "value", "or", "orValue", "optional.of", "optional.ofNonZeroValue", "check"})
"""Functions that have a rule for what they give, and cost the same whatever they get."""
_SIZED: Final[dict[str, Callable[[list[Sized]], tuple[float, Sized]]]] = {
    "_+_": _plus,
    "check": lambda _: (_AUTHORIZER_CHECK, SMALL),
    **dict.fromkeys(("bytes", "url", "quantity", "isQuantity", "semver", "isSemver", "isIP", "isCIDR", "cidr"), _read),
    **dict.fromkeys(("ip", "ip.isCanonical", "containsIP", "containsCIDR"), _read),
    **dict.fromkeys(("indexOf", "lastIndexOf"), _read),
    "@in": _among,
    "matches": _matches,
    "validate": _validate,
    "format.named": _given_format(max(one.pattern for one in FORMATS.values())),
    **{f"format.{name}": _given_format(one.pattern) for name, one in FORMATS.items()},
    "contains": _contains,
    "startsWith": lambda shapes: (shapes[1].size * _PER_CHARACTER, SMALL),
    "endsWith": lambda shapes: (shapes[1].size * _PER_CHARACTER, SMALL),
    "dyn": lambda shapes: (1, shapes[0]),
    "value": lambda shapes: (1, shapes[0]),
    "or": lambda shapes: (1, either([*shapes]) or SMALL),
    "orValue": lambda shapes: (1, either([*shapes]) or SMALL),
    "optional.of": lambda shapes: (1, shapes[0]),
    "optional.ofNonZeroValue": lambda shapes: (1, shapes[0]),
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
