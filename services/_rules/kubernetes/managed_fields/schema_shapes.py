"""Compiles schemas into shapes: for every value its elements, and whether it is one field or splits into several.

Lists of type map and set fall into items, other lists are one field; maps fall into entries unless they are atomic.
Where `x-kubernetes-list-type` is missing, the patch strategy decides what a list is. A value without schema is
structured by its form: maps by entries, lists whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from services._rules.kubernetes.managed_fields.field_sets import (
    Path,
    field_element,
    key_element,
    path_text,
    value_element,
)

Schema = dict[str, Any]
IsAtomic = Callable[[Schema], bool]
KeyDefaults = Mapping[tuple[str, ...], Mapping[str, Any]]

MISSING: Final[Any] = object()
_OPEN: Final[Schema] = {"x-kubernetes-preserve-unknown-fields": True}


class ShapeError(ValueError):
    """An object that does not fit its schema; the message begins with the path."""


class Shape:
    """One schema as the walks need it; what is below is taken apart when it is first met."""

    __slots__ = ("_children", "_declared", "_defaults", "_item", "_keys", "_other", "_schema", "_shapes", "atomic")

    def __init__(self, schema: Schema, shapes: Shapes) -> None:
        self._schema = schema
        self._shapes = shapes
        self.atomic = schema.get("x-kubernetes-map-type") == "atomic" or shapes.is_atomic(schema)
        """Whether a map is one field."""
        self._declared: dict[str, Any] = schema.get("properties") or {}
        self._children: dict[str, tuple[str, Shape]] = {}
        self._other: Shape | None = None
        self._item: Shape | None = None
        self._keys = _list_keys(schema)
        self._defaults: dict[str, Any] = {}
        items = schema.get("items")
        if self._keys and isinstance(items, dict):
            fields = items.get("properties") or {}
            known = shapes.key_defaults.get(self._keys, {})
            self._defaults = {**known} | {k: fields[k]["default"] for k in self._keys if "default" in fields.get(k, {})}

    def declares(self, name: str) -> bool:
        """Whether the schema names the entry of a map."""
        return name in self._declared

    def child(self, name: str) -> tuple[str, Shape]:
        """The element and the shape of an entry of a map."""
        found = self._children.get(name)
        if found is None:
            schema = self._declared.get(name)
            if schema is None:
                # Keys of labels and the like are without number: their elements are not kept.
                return field_element(name), self._open()
            shape = self._shapes.of(schema) if isinstance(schema, dict) else self._shapes.of(_OPEN)
            found = self._children[name] = field_element(name), shape
        return found

    def _open(self) -> Shape:
        found = self._other
        if found is None:
            more = self._schema.get("additionalProperties")
            found = self._other = self._shapes.of(more if isinstance(more, dict) else _OPEN)
        return found

    @property
    def item(self) -> Shape:
        """The shape of an item of a list."""
        found = self._item
        if found is None:
            found = self._item = self._shapes.of(self._schema.get("items") or _OPEN)
        return found

    def items(self, value: list[Any] | None, path: Path) -> dict[str, Any] | None:
        """The items of an associative list by element; None for a list that is one field. Raises ShapeError."""
        keys = self._keys
        if keys is None:
            return None
        found: dict[str, Any] = {}
        for index, item in enumerate(value or ()):
            element = self._element(keys, item, path, index) if keys else value_element(item)
            if element in found:
                raise ShapeError(f"{path_text(path)}: duplicate entries for key {path_text((element,))}")
            found[element] = item
        return found

    def _element(self, keys: tuple[str, ...], item: Any, path: Path, index: int) -> str:
        if not isinstance(item, dict):
            raise ShapeError(
                f"{path_text(path)}: element {index}: associative list with keys may not have non-map elements"
            )
        chosen: dict[str, Any] = {}
        for key in keys:
            # An item without a key that has no default is one whose key is null; the rules of its kind refuse it.
            chosen[key] = item.get(key, self._defaults.get(key))
        return key_element(chosen)


class Shapes:
    """The shapes of one schema and all below it; `is_atomic` names struct schemas that are one field.

    `key_defaults` are values of keys of list items that the schema does not have, by all keys of the list.
    """

    def __init__(self, is_atomic: IsAtomic, key_defaults: KeyDefaults) -> None:
        self.is_atomic = is_atomic
        self.key_defaults = key_defaults
        # Schemas live as long as the one they belong to, so that their ids stand for them.
        self._known: dict[int, Shape] = {}

    def of(self, schema: Schema) -> Shape:
        """The shape of a schema."""
        found = self._known.get(id(schema))
        if found is None:
            found = self._known[id(schema)] = Shape(schema, self)
        return found


def _list_keys(schema: Schema) -> tuple[str, ...] | None:
    """Return the keys of a list of type map, () for a set, None for a list that is one field."""
    match schema.get("x-kubernetes-list-type"):
        case "map":
            return tuple(schema.get("x-kubernetes-list-map-keys") or ())
        case "set":
            return ()
        case None if "merge" in str(schema.get("x-kubernetes-patch-strategy", "")).split(","):
            key = schema.get("x-kubernetes-patch-merge-key")
            return (key,) if key else ()
        case _:
            return None
