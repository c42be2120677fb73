"""How large values are, as far as the cost of expressions asks: declared by a schema, or looked up in values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, Protocol

import msgspec

MOST_LOOKED_AT: Final = 200_000
"""Values that are looked at for one evaluation; one that would loop over more costs more than it may."""


class TooMuch(Exception):
    """An expression selects more values than are looked at before it is evaluated."""


class Sized(Protocol):
    """The size of a value, and of what is inside it."""

    @property
    def size(self) -> int:
        """Characters of a string, entries of a list or map."""

    @property
    def text(self) -> bool:
        """Whether it can be a string."""

    @property
    def items(self) -> Sized | None:
        """The largest items of a list or values of a map."""

    @property
    def keys(self) -> Sized | None:
        """The largest keys of a map; None for what is none."""

    def field(self, name: str) -> Sized | None:
        """The largest value under a key or field."""


class Shape(msgspec.Struct):
    """A size that is known."""

    size: int = 1
    text: bool = False
    items: Sized | None = None
    keys: Sized | None = None
    fields: Mapping[str, Sized] | None = None

    def field(self, name: str) -> Sized | None:
        """Return the shape of a field; of a map that of its values."""
        return self.fields.get(name) if self.fields is not None else self.items


SMALL: Final = Shape()


class Looks:
    """Counts the values that are looked at."""

    def __init__(self, most: int = MOST_LOOKED_AT) -> None:
        self.most = most
        self.count = 0

    def take(self, count: int) -> None:
        """Add to the count; raises TooMuch."""
        self.count += count
        if self.count > self.most:
            raise TooMuch


class Seen:
    """What stands in one place of a value, in all items of the lists around it; looked up when it is asked for."""

    __slots__ = ("_known", "_looks", "_values")

    def __init__(self, values: list[Any], looks: Looks) -> None:
        looks.take(len(values))
        self._values = values
        self._looks = looks
        self._known: dict[object, Any] = {}

    @property
    def size(self) -> int:
        """The size of the largest."""
        if "size" not in self._known:
            self._known["size"] = max((_length(value) for value in self._values), default=0)
        return int(self._known["size"])

    @property
    def text(self) -> bool:
        """Whether one is a string."""
        return any(isinstance(value, str | bytes) for value in self._values)

    @property
    def items(self) -> Sized | None:
        """The items of all lists and the values of all maps."""
        if "items" not in self._known:
            inside: list[Collection[Any]] = [_inside(value) for value in self._values]
            self._known["items"] = self._below(inside)
        found: Sized | None = self._known["items"]
        return found

    @property
    def keys(self) -> Sized | None:
        """The keys of all maps."""
        if "keys" not in self._known:
            self._known["keys"] = self._below([value for value in self._values if isinstance(value, dict)])
        found: Sized | None = self._known["keys"]
        return found

    def field(self, name: str) -> Sized | None:
        """What all maps have under a key."""
        key = ("field", name)
        if key not in self._known:
            values = [value[name] for value in self._values if isinstance(value, dict) and name in value]
            self._known[key] = Seen(values, self._looks) if values else None
        found: Sized | None = self._known[key]
        return found

    def _below(self, inside: list[Collection[Any]]) -> Sized | None:
        # Counted before they are put together.
        if sum(map(len, inside)) > self._looks.most - self._looks.count:
            raise TooMuch
        values = [item for part in inside for item in part]
        return Seen(values, self._looks) if values else None


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes | list | tuple | dict) else 1


def _inside(value: Any) -> Collection[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


class Either:
    """As large as the larger of several in every part."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[Sized]) -> None:
        self._parts = parts

    @property
    def size(self) -> int:
        """The largest size."""
        return max(part.size for part in self._parts)

    @property
    def text(self) -> bool:
        """Whether one can be a string."""
        return any(part.text for part in self._parts)

    @property
    def items(self) -> Sized | None:
        """The items of all."""
        return either([part.items for part in self._parts])

    @property
    def keys(self) -> Sized | None:
        """The keys of all."""
        return either([part.keys for part in self._parts])

    def field(self, name: str) -> Sized | None:
        """The field of all."""
        return either([part.field(name) for part in self._parts])


def either(shapes: list[Sized | None]) -> Sized | None:
    """Return what is as large as every one of the given; None if there is none."""
    found = [shape for shape in shapes if shape is not None]
    if len(found) <= 1 or all(shape is SMALL for shape in found):
        return found[0] if found else None
    return Either(found)
