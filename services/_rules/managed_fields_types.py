"""How objects fall into fields that can be owned, by their schema: comparing, merging and cutting them at such fields.

Lists of type map and set fall into items, other lists are one field; maps fall into entries unless they are atomic.
Where `x-kubernetes-list-type` is missing, the patch strategy says what a list is. What has no schema is taken as it
looks: maps by entries, lists whole.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from services._rules.managed_fields_sets import Path, Paths, field_element, key_element, value_element
from services._rules.patch import same_json

Schema = dict[str, Any]
IsAtomic = Callable[[Schema], bool]

_MISSING: Final[Any] = object()
_OPEN: Final[Schema] = {"x-kubernetes-preserve-unknown-fields": True}


class ShapeError(ValueError):
    """An object that does not fit its schema; the message begins with the path."""


class Difference:
    """What changed between two objects: paths that came, went, or have another value."""

    __slots__ = ("added", "modified", "removed")

    def __init__(self) -> None:
        self.added: Paths = set()
        self.modified: Paths = set()
        self.removed: Paths = set()


class Types:
    """The fields of objects of one schema; `is_atomic` names struct schemas that are one field."""

    def __init__(self, schema: Schema | None, is_atomic: IsAtomic = lambda _: False) -> None:
        self._schema = schema or _OPEN
        self._is_atomic = is_atomic
        # Schemas live as long as the one they belong to, so that their ids stand for them.
        self._keys: dict[int, tuple[str, ...] | None] = {}

    def difference(self, old: Any, new: Any) -> Difference:
        """Return how two objects differ; raises ShapeError for keyed lists with unkeyed or repeated items."""
        found = Difference()
        self._compare(self._schema, old, new, (), found)
        return found

    def new_fields(self, empty: Any, obj: Any) -> dict[str, Any]:
        """Return the `fieldsV1` of what an object has beyond an empty one; raises ShapeError like `difference`."""
        return self._grown(self._schema, empty, obj, ()) or {}

    def fields(self, obj: Any) -> Paths:
        """Return the fields that an applied configuration is about; raises ShapeError like `difference`."""
        found: Paths = set()
        self._collect(self._schema, obj, (), found)
        return found

    def merged(self, live: Any, config: Any) -> Any:
        """Return `live` with every field of `config`; unchanged parts are shared."""
        return self._merge(self._schema, live, config, ())

    def without(self, obj: Any, paths: Paths) -> Any:
        """Return an object without the fields at `paths`; unchanged parts are shared."""
        return self._cut(self._schema, obj, (), paths, {path[:at] for path in paths for at in range(len(path))})

    # -- shapes

    def _atomic_map(self, schema: Schema) -> bool:
        return schema.get("x-kubernetes-map-type") == "atomic" or self._is_atomic(schema)

    def _field(self, schema: Schema, name: str) -> Schema:
        found = (schema.get("properties") or {}).get(name)
        if found is None:
            found = schema.get("additionalProperties")
        return found if isinstance(found, dict) else _OPEN

    def _items(self, schema: Schema, value: Any, path: Path) -> dict[str, Any] | None:
        """Return the items of an associative list by element; None for a list that is one field."""
        if id(schema) in self._keys:
            keys = self._keys[id(schema)]
        else:
            keys = self._keys[id(schema)] = _list_keys(schema)
        if keys is None:
            return None
        found: dict[str, Any] = {}
        items = schema.get("items")
        for index, item in enumerate(value or ()):
            element = _element(keys, item, items if isinstance(items, dict) else _OPEN, path, index)
            if element in found:
                raise ShapeError(f"{_dotted(path)}: duplicate entries for key {_shown(element)}")
            found[element] = item
        return found

    # -- walks

    def _pairs(self, schema: Schema, old: Any, new: Any, path: Path) -> Iterator[tuple[str, Schema, Any, Any]] | None:
        """Return (element, schema, old, new) of what is below two values; None if they are one field."""
        if isinstance(old, dict) or isinstance(new, dict):
            if not (old or new) or self._atomic_map(schema) or not _fit(dict, old, new):
                return None
            return self._map_pairs(schema, old, new)
        if isinstance(old, list) or isinstance(new, list):
            if not _fit(list, old, new):
                return None
            left, right = self._items(schema, _given(old), path), self._items(schema, _given(new), path)
            if left is None or right is None or not (left or right):
                return None
            item = schema.get("items") or _OPEN
            return (
                (element, item, left.get(element, _MISSING), right.get(element, _MISSING))
                for element in dict.fromkeys((*left, *right))
            )
        return None

    def _map_pairs(self, schema: Schema, old: Any, new: Any) -> Iterator[tuple[str, Schema, Any, Any]]:
        left, right = _given(old) or {}, _given(new) or {}
        for name in dict.fromkeys((*left, *right)):
            yield (
                field_element(name),
                self._field(schema, name),
                left.get(name, _MISSING),
                right.get(name, _MISSING),
            )

    def _grown(self, schema: Schema, old: Any, new: Any, path: Path) -> dict[str, Any] | None:
        """Return the fields of a value that came or changed; None if there are none."""
        grown: dict[str, Any] = {}
        if isinstance(new, dict) and new and not self._atomic_map(schema) and _fit(dict, old, None):
            before = _given(old) or {}
            for name, item in new.items():
                inner = self._grown(self._field(schema, name), before.get(name, _MISSING), item, path)
                if inner is not None:
                    grown[field_element(name)] = inner
        elif isinstance(new, list) and new and _fit(list, old, None):
            left, right = self._items(schema, _given(old), path), self._items(schema, new, path)
            if left is None or right is None:
                return None if same_json(old, new) else {}
            items = schema.get("items") or _OPEN
            for element, item in right.items():
                inner = self._grown(items, left.get(element, _MISSING), item, path)
                if inner is not None:
                    grown[element] = inner
        else:
            return None if same_json(old, new) else {}
        if old is _MISSING:
            return {".": {}, **grown}
        return grown or None

    def _compare(self, schema: Schema, old: Any, new: Any, path: Path, found: Difference) -> None:
        # Equality of containers is quick, and most of an object is as it was.
        if old is new or (isinstance(old, dict | list) and old == new):
            return
        pairs = self._pairs(schema, old, new, path)
        if pairs is not None:
            for element, inner, left, right in pairs:
                self._compare(inner, left, right, (*path, element), found)
        if old is _MISSING:
            found.added.add(path)
        elif new is _MISSING:
            found.removed.add(path)
        elif pairs is None and not same_json(old, new):
            found.modified.add(path)

    def _collect(self, schema: Schema, value: Any, path: Path, found: Paths) -> None:
        if isinstance(value, dict) and not self._atomic_map(schema):
            declared = schema.get("properties") or {}
            for name, item in value.items():
                here = (*path, field_element(name))
                if name not in declared and not (isinstance(item, dict | list) and not item):
                    found.add(here)
                self._collect(self._field(schema, name), item, here, found)
            return
        if isinstance(value, list) and (items := self._items(schema, value, path)) is not None:
            for element, item in items.items():
                here = (*path, element)
                found.add(here)
                self._collect(schema.get("items") or _OPEN, item, here, found)
            return
        if path:
            found.add(path)

    def _merge(self, schema: Schema, live: Any, config: Any, path: Path) -> Any:
        if config is _MISSING or live is _MISSING:
            return live if config is _MISSING else config
        if isinstance(live, dict) and isinstance(config, dict) and not self._atomic_map(schema):
            merged = dict(live)
            for name, item in config.items():
                here = (*path, field_element(name))
                merged[name] = self._merge(self._field(schema, name), live.get(name, _MISSING), item, here)
            return merged
        if isinstance(live, list) and isinstance(config, list):
            left, right = self._items(schema, live, path), self._items(schema, config, path)
            if left is not None and right is not None:
                item = schema.get("items") or _OPEN
                return [
                    self._merge(item, left.get(element, _MISSING), right.get(element, _MISSING), (*path, element))
                    for element in dict.fromkeys((*left, *right))
                ]
        if config is None and isinstance(live, dict | list):
            return live
        return config

    def _cut(self, schema: Schema, value: Any, path: Path, paths: Paths, parents: Paths) -> Any:
        if path not in parents:
            return value
        if isinstance(value, dict):
            result: dict[str, Any] = {}
            for name, item in value.items():
                here = (*path, field_element(name))
                if here not in paths:
                    result[name] = self._cut(self._field(schema, name), item, here, paths, parents)
            return result
        if isinstance(value, list) and (items := self._items(schema, value, path)) is not None:
            inner = schema.get("items") or _OPEN
            return [
                self._cut(inner, item, (*path, element), paths, parents)
                for element, item in items.items()
                if (*path, element) not in paths
            ]
        return value


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


def _element(keys: tuple[str, ...], item: Any, schema: Schema, path: Path, index: int) -> str:
    if not keys:
        return value_element(item)
    if not isinstance(item, dict):
        raise ShapeError(f"{_dotted(path)}: element {index}: associative list with keys may not have non-map elements")
    chosen: dict[str, Any] = {}
    for key in keys:
        if key in item:
            chosen[key] = item[key]
            continue
        default = (schema.get("properties") or {}).get(key, {}).get("default", _MISSING)
        if default is _MISSING:
            raise ShapeError(
                f"{_dotted(path)}: element {index}: associative list with keys has an element that omits key field "
                f'"{key}" (and doesn\'t have default value)'
            )
        chosen[key] = default
    return key_element(chosen)


def _dotted(path: Path) -> str:
    from services._rules.managed_fields_sets import path_text

    return path_text(path)


def _shown(element: str) -> str:
    return _dotted((element,))


def _given(value: Any) -> Any:
    return None if value is _MISSING else value


def _fit(kind: type, old: Any, new: Any) -> bool:
    return all(value is _MISSING or value is None or isinstance(value, kind) for value in (old, new))
