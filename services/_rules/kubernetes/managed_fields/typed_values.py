"""Splits objects into fields that can be managed, by their schema: comparing, merging and removing such fields."""

from types import MappingProxyType
from typing import Any, Final, NamedTuple

from services._rules.kubernetes.managed_fields.field_sets import Fields, Path, Paths, field_element, field_name
from services._rules.kubernetes.managed_fields.schema_shapes import (
    MISSING,
    IsAtomic,
    KeyDefaults,
    Schema,
    Shape,
    ShapeError,
    Shapes,
)
from services._rules.kubernetes.patch.json_patch import same_json

__all__ = ["Difference", "IsAtomic", "KeyDefaults", "Schema", "ShapeError", "Types"]

_CONTAINERS: Final = (dict, list)
_SHALLOW: Final = 12
_NONE: Final[KeyDefaults] = MappingProxyType({})


class Difference(NamedTuple):
    """What changed between two objects, as `fieldsV1`: fields that came or have another value, and those that went."""

    touched: Fields
    removed: Fields


class Types:
    """The fields of objects of one schema; see `Shapes`."""

    def __init__(
        self, schema: Schema | None, is_atomic: IsAtomic = lambda _: False, key_defaults: KeyDefaults = _NONE
    ) -> None:
        # Kept beside its shapes: they know it by its identity.
        self._schema: Schema = schema or {"x-kubernetes-preserve-unknown-fields": True}
        self._root = Shapes(is_atomic, key_defaults).of(self._schema)

    def difference(self, old: Any, new: Any) -> Difference:
        """Return how two objects differ; raises ShapeError for keyed lists with unkeyed or repeated items."""
        touched, removed = _compare(self._root, old, new, ())
        return Difference(touched or {}, removed or {})

    def new_fields(self, empty: Any, obj: Any) -> Fields:
        """Return the fields of what an object has beyond an empty one; raises ShapeError like `difference`."""
        return _grown(self._root, empty, obj) or {}

    def fields(self, obj: Any) -> Paths:
        """Return the fields that an applied configuration is about; raises ShapeError like `difference`."""
        found: Paths = set()
        _collect(self._root, obj, (), found)
        return found

    def merged(self, live: Any, config: Any) -> Any:
        """Return `live` with every field of `config`; unchanged parts are shared."""
        return _merge(self._root, live, config, ())

    def with_parents(self, paths: Paths) -> Paths:
        """Return paths and the fields on the way to them that the schema names."""
        found = set(paths)
        for path in paths:
            shape = self._root
            for at, element in enumerate(path[:-1], 1):
                name = field_name(element)
                if name is None:
                    shape = shape.item
                    continue
                if shape.declares(name):
                    found.add(path[:at])
                shape = shape.child(name)[1]
        return found

    def without(self, obj: Any, paths: Paths) -> Any:
        """Return an object without the fields at `paths`; unchanged parts are shared."""
        return _cut(self._root, obj, (), paths, {path[:at] for path in paths for at in range(len(path))})


def _all(shape: Shape, value: Any, path: Path) -> Fields:
    """Return the fields of a value and what is below it."""
    found: Fields = {}
    if isinstance(value, dict):
        if value and not shape.atomic:
            found["."] = {}
            for name, item in value.items():
                if isinstance(item, _CONTAINERS):
                    element, inner = shape.child(name)
                    found[element] = _all(inner, item, (*path, element))
                else:
                    found[field_element(name)] = {}
    elif isinstance(value, list) and value:
        items = shape.items(value, path)
        if items is not None:
            found["."] = {}
            inner = shape.item
            for element, item in items.items():
                found[element] = _all(inner, item, (*path, element)) if isinstance(item, _CONTAINERS) else {}
    return found


def _grown(shape: Shape, old: Any, new: Any) -> Fields | None:
    """Return the fields of a value that came or changed; None if there are none."""
    if old is MISSING:
        return _all(shape, new, ())
    grown: Fields = {}
    if isinstance(new, dict) and new and not shape.atomic and (old is None or isinstance(old, dict)):
        before = old or {}
        for name, item in new.items():
            had = before.get(name, MISSING)
            if had is item or (type(item) is str and had == item):
                continue
            if had is MISSING and not isinstance(item, _CONTAINERS):
                grown[field_element(name)] = {}
                continue
            element, inner = shape.child(name)
            found = _all(inner, item, ()) if had is MISSING else _grown(inner, had, item)
            if found is not None:
                grown[element] = found
        return grown or None
    if isinstance(new, list) and new and (old is None or isinstance(old, list)):
        left, right = shape.items(old, ()), shape.items(new, ())
        if left is not None and right is not None:
            inner = shape.item
            for element, item in right.items():
                found = _grown(inner, left.get(element, MISSING), item)
                if found is not None:
                    grown[element] = found
            return grown or None
    return None if same_json(old, new) else {}


def _compare(shape: Shape, old: Any, new: Any, path: Path) -> tuple[Fields | None, Fields | None]:
    """Return the fields touched and those removed at and below a value; None where there are none."""
    if old is MISSING:
        return _all(shape, new, path), None
    if new is MISSING:
        return None, _all(shape, old, path)
    if old is new or (isinstance(old, _CONTAINERS) and _worth_comparing(len(path)) and old == new):
        return None, None
    if isinstance(old, dict) or isinstance(new, dict):
        if not (old or new) or shape.atomic or not _fit(dict, old, new):
            return _whole(old, new)
        return _compare_maps(shape, old or {}, new or {}, path)
    if isinstance(old, list) or isinstance(new, list):
        if not _fit(list, old, new):
            return _whole(old, new)
        left, right = shape.items(old, path), shape.items(new, path)
        if left is None or right is None or not (left or right):
            return _whole(old, new)
        return _compare_items(shape.item, left, right, path)
    return _whole(old, new)


def _worth_comparing(depth: int) -> bool:
    """Whether two containers at that depth are to be compared as a whole before they are taken apart.

    That is quick, and most of an object is as it was. Deep down it is done at fewer and fewer levels, so that an object
    that differs at its deepest place is not compared once for each of its levels.
    """
    return depth < _SHALLOW or not depth & (depth - 1)


def _compare_maps(
    shape: Shape, left: dict[str, Any], right: dict[str, Any], path: Path
) -> tuple[Fields | None, Fields | None]:
    touched: Fields = {}
    removed: Fields = {}
    for name, old in left.items():
        new = right.get(name, MISSING)
        if old is new:
            continue
        element, inner = shape.child(name)
        came, went = _compare(inner, old, new, (*path, element))
        if came is not None:
            touched[element] = came
        if went is not None:
            removed[element] = went
    for name, new in right.items():
        if name not in left:
            element, inner = shape.child(name)
            touched[element] = _all(inner, new, (*path, element))
    return touched or None, removed or None


def _compare_items(
    shape: Shape, left: dict[str, Any], right: dict[str, Any], path: Path
) -> tuple[Fields | None, Fields | None]:
    touched: Fields = {}
    removed: Fields = {}
    for element in dict.fromkeys((*left, *right)):
        came, went = _compare(shape, left.get(element, MISSING), right.get(element, MISSING), (*path, element))
        if came is not None:
            touched[element] = came
        if went is not None:
            removed[element] = went
    return touched or None, removed or None


def _whole(old: Any, new: Any) -> tuple[Fields | None, None]:
    return (None if same_json(old, new) else {}), None


def _fit(kind: type, old: Any, new: Any) -> bool:
    return (old is None or isinstance(old, kind)) and (new is None or isinstance(new, kind))


def _collect(shape: Shape, value: Any, path: Path, found: Paths) -> None:
    if isinstance(value, dict) and not shape.atomic:
        for name, item in value.items():
            element, inner = shape.child(name)
            here = (*path, element)
            if not shape.declares(name) and not (isinstance(item, dict | list) and not item):
                found.add(here)
            _collect(inner, item, here, found)
        return
    if isinstance(value, list) and (items := shape.items(value, path)) is not None:
        for element, item in items.items():
            here = (*path, element)
            found.add(here)
            _collect(shape.item, item, here, found)
        return
    if path:
        found.add(path)


def _merge(shape: Shape, live: Any, config: Any, path: Path) -> Any:
    if config is MISSING or live is MISSING:
        return live if config is MISSING else config
    if isinstance(live, dict) and isinstance(config, dict) and not shape.atomic:
        merged = dict(live)
        for name, item in config.items():
            element, inner = shape.child(name)
            merged[name] = _merge(inner, live.get(name, MISSING), item, (*path, element))
        return merged
    if isinstance(live, list) and isinstance(config, list):
        left, right = shape.items(live, path), shape.items(config, path)
        if left is not None and right is not None:
            inner = shape.item
            return [
                _merge(inner, left.get(element, MISSING), right.get(element, MISSING), (*path, element))
                for element in dict.fromkeys((*left, *right))
            ]
    return config


def _cut(shape: Shape, value: Any, path: Path, paths: Paths, parents: Paths) -> Any:
    if path not in parents:
        return value
    if isinstance(value, dict):
        result: dict[str, Any] = {}
        for name, item in value.items():
            element, inner = shape.child(name)
            here = (*path, element)
            if here not in paths:
                result[name] = _cut(inner, item, here, paths, parents)
        return result
    if isinstance(value, list) and (items := shape.items(value, path)) is not None:
        inner = shape.item
        return [
            _cut(inner, item, (*path, element), paths, parents)
            for element, item in items.items()
            if (*path, element) not in paths
        ]
    return value
