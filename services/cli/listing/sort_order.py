"""Sorts objects by a field, as `--sort-by` of kubectl: quantities by size, digits inside names as numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any, Final, TypeVar

from services._rules.kubernetes.jsonpath import JSONPathError
from services._rules.kubernetes.quantity import Quantity, QuantityError, parse
from services.cli.common.running import Failed
from services.cli.listing.jsonpath_template import compiled

T = TypeVar("T")
_DIGITS: Final = re.compile(r"(\d+)")


def check_order(path: str) -> None:
    """Raises Failed for what is no path."""
    try:
        compiled(path)
    except JSONPathError as error:
        raise Failed(f"--sort-by: {error}") from None


def ordered(items: Sequence[T], path: str, object_of: Callable[[T], Any]) -> list[T]:
    """Items by the field of their objects; those without it first. Raises Failed where none has it."""
    if not path or not items:
        return list(items)
    find = compiled(path)
    keyed: list[tuple[Any, T]] = [(next(iter(find(object_of(item))), None), item) for item in items]
    if all(value is None for value, _ in keyed):
        raise Failed(f"--sort-by: couldn't find any field with path {path!r} in the list of objects")
    by_value = cmp_to_key(_compared)
    return [item for _, item in sorted(keyed, key=lambda pair: by_value(pair[0]))]


def _compared(one: Any, other: Any) -> int:
    if one is None or other is None:
        return (one is not None) - (other is not None)
    if isinstance(one, str) and isinstance(other, str):
        sizes = _quantity(one), _quantity(other)
        if sizes[0] is not None and sizes[1] is not None:
            return (sizes[1] < sizes[0]) - (sizes[0] < sizes[1])
        return _less(_natural(one), _natural(other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return (one > other) - (one < other)
    return _less(str(one), str(other))


def _less(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def _natural(text: str) -> list[tuple[int, int, str]]:
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in _DIGITS.split(text) if part]


def _quantity(text: str) -> Quantity | None:
    try:
        return parse(text)
    except QuantityError:
        return None
