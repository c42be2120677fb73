"""What calls are estimated to cost, and how large their results are: a table of functions, as Kubernetes has it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import msgspec

from services._rules.kubernetes.cel.syntax import CONSTANT, Node
from services._rules.kubernetes.cel.value_sizes import Shape, Sized

UNLIMITED: Final = (1 << 64) - 1
"""The cost of what has no bound."""

_PER_CHARACTER: Final = 0.1
_PER_PATTERN_CHARACTER: Final = 0.25
_NEW_LIST: Final = 10
_AUTHORIZER_CHECK: Final = 350_000
_LONGEST_PATTERN: Final = 128
_LONGEST_FORMAT: Final = 64

Range = tuple[int, int]
"""The smallest and the largest size."""
UNKNOWN: Final[Range] = (0, UNLIMITED)
ONE: Final[Range] = (1, 1)


UNDECLARED: Final = Shape()


class Entry(msgspec.Struct, frozen=True):
    """The sizes inside a list or map that an expression makes itself."""

    listed: bool
    key: Range
    value: Range


class Part(msgspec.Struct, frozen=True):
    """What is known of a part of an expression."""

    cost: int
    size: Range | None = None
    shape: Sized | None = None
    """What the schema declares for it, where it is a place in the object; UNDECLARED for one that the schema lacks."""
    entry: Entry | None = None


def capped(value: int) -> int:
    """Return a cost or size, which is never more than unlimited."""
    return min(value, UNLIMITED)


def _times(size: int, factor: float) -> int:
    return UNLIMITED if size >= UNLIMITED and factor >= 1 else capped(math.ceil(float(size) * factor))


def union(one: Range, other: Range) -> Range:
    """Return the sizes of what can be either."""
    return min(one[0], other[0]), max(one[1], other[1])


def total(one: Range, other: Range) -> Range:
    """Return the sizes of both together."""
    return capped(one[0] + other[0]), capped(one[1] + other[1])


def product(one: Range, other: Range) -> Range:
    """Return the sizes of as many as one of the other."""
    return capped(one[0] * other[0]), capped(one[1] * other[1])


def place_size(shape: Sized | None) -> Range | None:
    """Return the sizes that are declared for a place."""
    return None if shape is None or shape is UNDECLARED else (0, shape.size)


class Call(msgspec.Struct, frozen=True):
    """A call of one overload; `parts` has the target first, where there is one."""

    node: Node
    parts: list[Part]
    overload: str

    @property
    def sizes(self) -> list[Range]:
        """The sizes of the target and the arguments."""
        return [part.size or UNKNOWN for part in self.parts]


Answer = tuple[int, Range | None]
"""The cost of a call without that of its arguments, and the size of its result if that is known."""
Rule = Callable[[Call], Answer | None]


def answer_of(call: Call) -> Answer:
    """Return what a call costs and gives; 1 where it has no rule."""
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


def _nothing_more(_: Call) -> Answer:
    return 0, None


def _matches(call: Call) -> Answer | None:
    if call.node.target is None:
        return None
    return _pattern_cost(call), None


def _pattern_cost(call: Call) -> int:
    text, pattern = call.sizes[:2]
    return capped(_read(total(text, ONE)) * _times(pattern[1], _PER_PATTERN_CHARACTER))


def _find(call: Call) -> Answer:
    return _pattern_cost(call), (0, call.sizes[0][1])


def _contains(call: Call) -> Answer:
    return capped(_read(call.sizes[0]) * _read(call.sizes[1])), None


def _of_items(call: Call) -> Answer:
    """Compare the items of a list with each other, or go through a text."""
    kind, size = (call.node.target or call.node.args[0]).kind, call.sizes[0]
    if kind.name != "list":
        return _read(size), None
    each = 1
    if kind.inner is not None and kind.inner.name in ("string", "bytes"):
        shape = call.parts[0].shape
        each += _read(place_size(shape.items if shape is not None else None) or UNKNOWN)
    return capped(size[1] * each), None


def _replace(call: Call) -> Answer:
    text, old, new = call.sizes[:3]
    smallest, largest = _replaced(text[0], old[1], new[0]), 0
    if old[0] == 0:
        largest = capped(capped(text[1] + 1) * new[1] + text[1])
    elif new[1] <= old[0]:
        largest = text[1]
    else:
        largest = capped(_times(text[1], 1 / old[0]) * new[1])
    return _times(text[1], 2 * _PER_CHARACTER), (smallest, largest)


def _replaced(text: int, old: int, new: int) -> int:
    """Return the smallest size of a text in which the longest parts are replaced by the shortest."""
    if old == 0:
        return capped((text + 1) * new + text)
    return text if old <= new else _times(text, 1 / old) * new


def _split(call: Call) -> Answer:
    limit = call.node.args[1].value if len(call.node.args) > 1 else None
    most = call.sizes[0][1]
    if isinstance(limit, int):
        most = limit if limit >= 0 else UNLIMITED
    return _times(call.sizes[0][1], 2 * _PER_CHARACTER), (0, most)


def _join(call: Call) -> Answer:
    kind, items = (call.node.target or call.node.args[0]).kind, call.sizes[0]
    size: Range = (0, 0)
    if kind.inner is not None:
        shape = call.parts[0].shape
        size = product(items, place_size(shape.items if shape is not None else None) or UNKNOWN)
    if len(call.sizes) > 1:
        gaps = max(0, items[0] - 1), max(0, items[1] - 1)
        size = total(size, product(call.sizes[1], gaps))
    return _read(size), size


def _in_network(call: Call) -> Answer:
    base = {"containsIP": 4, "containsCIDR": 7}[call.node.name]
    return capped(base + (_read(call.sizes[1]) if call.overload.endswith("_string") else 0)), None


def _validate(call: Call) -> Answer:
    # Which format it is counts only while an expression is evaluated.
    return _times(_read(call.sizes[1]), _LONGEST_PATTERN * _PER_PATTERN_CHARACTER), None


def _address(call: Call) -> Answer:
    return (1, None) if call.node.target is not None else (_read(call.sizes[0]), None)


_COMPARED_AT_ONCE: Final = frozenset({"kubernetes.Quantity", "kubernetes.Semver", "net.IP", "net.CIDR"})


def _equal(call: Call) -> Answer | None:
    left, right = call.node.args
    if left.kind != right.kind or not left.kind.message:
        return None
    if left.kind.name == "kubernetes.URL":
        return _times((call.parts[1].size or ONE)[1], _PER_CHARACTER), None
    if left.kind.name == "kubernetes.NamedFormat":
        return _times(_LONGEST_FORMAT, _PER_CHARACTER), None
    at_once = left.kind.name in _COMPARED_AT_ONCE or left.kind.name.startswith("kubernetes.authorization.")
    return (1, None) if at_once else None


def _compared(call: Call) -> Answer:
    return _times(min(size[1] for size in call.sizes), _PER_CHARACTER), None


def _joined(call: Call) -> Answer:
    size = total(*call.sizes)
    return (1, size) if call.overload == "add_list" else (_read(size), size)


def _list_made(size: Range, factor: float = 1) -> Answer:
    return capped(_times(size[1], factor) + 1 + _NEW_LIST), size


def _number(node: Node, otherwise: int) -> int:
    return max(0, node.value) if isinstance(node.value, int) and node.form == CONSTANT else otherwise


def _slice(call: Call) -> Answer:
    begin, end = _number(call.node.args[0], 0), _number(call.node.args[1], call.sizes[0][1])
    size = max(0, end - begin)
    return _list_made((size, size))


def _flatten(call: Call) -> Answer:
    return _list_made(call.sizes[0], _number(call.node.args[0], UNLIMITED) if call.node.args else 1)


def _sort(which: int) -> Rule:
    def rule(call: Call) -> Answer:
        text = "string" in call.overload or "bytes" in call.overload
        size = call.sizes[which]
        return _list_made(product(size, size), 2 + _PER_CHARACTER if text else 2)

    return rule


def _sets(factor: int) -> Rule:
    return lambda call: (capped(product(*call.sizes[:2])[1] * factor + 1), None)


_BY_NAME: Final[dict[str, Rule]] = {
    "_&&_": _nothing_more,
    "_||_": _nothing_more,
    "check": lambda _: (_AUTHORIZER_CHECK, None),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _of_items),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _reads(0, keeps=True)),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _reads(0)),
    "validate": _validate,
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

_ORDERS: Final = ("less", "greater", "less_equals", "greater_equals")
_COMPARISONS: Final = ("equals", "not_equals", *(f"{name}_{kind}" for name in _ORDERS for kind in ("string", "bytes")))
_BY_OVERLOAD: Final[dict[str, Rule]] = {
    **dict.fromkeys(_COMPARISONS, _compared),
    **dict.fromkeys(("add_string", "add_bytes", "add_list"), _joined),
    "in_list": lambda call: (call.sizes[1][1], None),
    "matches_string": _matches,
    "contains_string": _contains,
    "starts_with_string": _reads(1),
    "ends_with_string": _reads(1),
    "string_format": _reads(0),
    "string_to_bytes": lambda call: (_read(call.sizes[0]), (call.sizes[0][0], capped(call.sizes[0][1] * 4))),
    "bytes_to_string": lambda call: (_read(call.sizes[0]), (call.sizes[0][0] // 4, call.sizes[0][1])),
    "strings_quote": lambda call: (_read(call.sizes[0]), (call.sizes[0][0] + 2, capped(call.sizes[0][1] * 2 + 2))),
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "list_reverse": lambda call: _list_made(call.sizes[0]),
    "list_distinct": lambda call: _list_made(product(call.sizes[0], call.sizes[0]), 2),
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}
"""The functions of the language and of its own libraries that cost more than 1."""
