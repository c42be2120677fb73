"""Applies Kubernetes strategic merge patches: maps merge, lists merge by key where the schema defines one.

The schema is an OpenAPI object with `x-kubernetes-patch-merge-key` and `x-kubernetes-patch-strategy`. Pure; what a
patch does not touch is shared between the original and the result. Directives: `$patch`, `$retainKeys`,
`$setElementOrder/<list>` and `$deleteFromPrimitiveList/<list>`. The time that a merge takes is in proportion to the
object and the patch, whatever the length of their lists.
"""

from collections.abc import Callable
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.kubernetes.patch.element_order import (
    DIRECTIVE,
    element_order,
    identity,
    identity_of,
    matches_order,
    no_key,
)
from services._rules.kubernetes.patch.go_text import go_format, go_kind, go_text, go_type
from services._rules.kubernetes.patch.json_patch import PatchError, json_type

Schema = dict[str, Any]
Resolve = Callable[[Schema], Schema]

RETAIN: Final = "$retainKeys"
DELETE_LIST: Final = "$deleteFromPrimitiveList"
ORDER: Final = "$setElementOrder"

_MERGE_KEY: Final = "x-kubernetes-patch-merge-key"
_STRATEGY: Final = "x-kubernetes-patch-strategy"
_NO_SCHEMA: Final[Schema] = {}


def strategic_merge(
    original: Manifest,
    patch: Any,
    schema: Schema | None,
    resolve: Resolve = lambda schema: schema,
) -> Manifest:
    """Return `original` with a strategic merge patch applied.

    `resolve` turns a `{"$ref": …}` of the schema into what it names.
    Raises PatchError: 400 for a malformed directive, 500 where an API server answers so (a list item without its merge
    key, an unfitting order list).
    """
    if patch is None:
        return original
    if not isinstance(patch, dict):
        raise PatchError.bad_request(
            f"json: cannot unmarshal {json_type(patch)} into Go value of type map[string]interface {{}}"
        )
    return _Merger(resolve).map(original, patch, schema or _NO_SCHEMA)


class _Field:
    """The merge strategy of one field by the schema."""

    __slots__ = ("key", "schema", "strategy")

    def __init__(self, schema: Schema, strategy: str, key: str) -> None:
        self.schema = schema
        self.strategy = strategy
        self.key = key


_UNKNOWN: Final = _Field(_NO_SCHEMA, "", "")


class _Merger:
    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    def map(self, original: Manifest | None, patch: Manifest, schema: Schema) -> Manifest:
        """Merge one map."""
        if DIRECTIVE in patch:
            return self._directed(patch)
        result = dict(original) if original else {}
        if RETAIN in patch:
            _retain(result, patch)
        done = self._ordered_lists(result, patch, schema)
        for name, value in patch.items():
            if name in done or name == RETAIN or name.startswith(ORDER):
                continue
            if name.startswith(DELETE_LIST):
                self._delete_from_list(result, _list_name(name, DELETE_LIST), value)
            elif value is None:
                result.pop(name, None)
            else:
                self._set(result, name, value, schema)
        return result

    def _set(self, result: Manifest, name: str, value: Any, schema: Schema) -> None:
        current = result.get(name)
        if isinstance(value, dict) and isinstance(current, dict):
            field = self._field(schema, name)
            if field.strategy == "replace":
                result[name] = _plain(value)
            else:
                result[name] = self.map(current, value, field.schema)
        elif isinstance(value, list) and isinstance(current, list):
            result[name] = self._list(current, value, self._field(schema, name))
        elif _removes(value):
            # There is nothing to remove, or something that a map cannot be merged into.
            result.pop(name, None)
        else:
            result[name] = _plain(value)

    def _directed(self, patch: Manifest) -> Manifest:
        match patch[DIRECTIVE]:
            case "replace":
                return {name: _plain(value) for name, value in patch.items() if name != DIRECTIVE}
            case "delete":
                return {}
            case other:
                raise PatchError(f"unknown patch type: {go_text(other)} in map: {go_format(patch)}")

    def _delete_from_list(self, result: Manifest, name: str, value: Any) -> None:
        if value is None:
            result.pop(name, None)
            return
        current = result.get(name)
        if not isinstance(value, list) or not isinstance(current, list):
            return
        if current or value:
            _check_elements(current, value)
            gone = {identity(item) for item in value}
            result[name] = [item for item in current if identity(item) not in gone]

    def _ordered_lists(self, result: Manifest, patch: Manifest, schema: Schema) -> set[str]:
        """Merge and order the lists that come with `$setElementOrder`; return the fields that are done by that."""
        done: set[str] = set()
        for name, order in patch.items():
            if not name.startswith(ORDER):
                continue
            if not isinstance(order, list):
                raise _no_list(order)
            field_name = _list_name(name, ORDER)
            current, changes = result.get(field_name), patch.get(field_name)
            for present, holder in ((current, result), (changes, patch)):
                if field_name in holder and not isinstance(present, list):
                    raise _no_list(present)
            field = self._field(schema, field_name)
            if changes:
                matches_order(changes, order, field.key)
            if current is None and changes is None:
                continue
            _check_elements(current or [], changes or [], some=True)
            if current is not None and changes is not None:
                merged = self._list(current, changes, field)
            else:
                merged = current if current is not None else _plain(changes)
            result[field_name] = element_order(merged, order, current or [], field.key)
            done.add(field_name)
        return done

    def _list(self, original: list[Any], patch: list[Any], field: _Field) -> list[Any]:
        """Merge one list into another."""
        if field.strategy != "merge":
            return patch
        if not original and not patch:
            return original
        if _check_elements(original, patch) != "map":
            once: dict[Any, Any] = {}
            for item in (*original, *patch):
                once.setdefault(identity(item), item)
            return element_order(list(once.values()), patch, original, "")
        if not field.key:
            raise PatchError(f"cannot merge lists without merge key for {field.schema.get('title', 'schema')}")
        original, changes = self._list_directives(original, patch, field.key)
        merged, added = self._items(original, changes, field)
        ordered = element_order(merged, changes, original, field.key)
        return [_plain(item) if id(item) in added else item for item in ordered]

    def _list_directives(self, original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
        changes: list[Any] = []
        gone: set[Any] = set()
        replace = False
        for item in patch:
            if DIRECTIVE not in item:
                changes.append(item)
                continue
            match item[DIRECTIVE]:
                case "delete":
                    gone.add(identity_of(item, key))
                case "replace":
                    replace = True
                case "merge":
                    raise PatchError("merging lists cannot yet be specified in the patch")
                case other:
                    raise PatchError(f"unknown patch type: {go_text(other)} in map: {go_format(item)}")
        if replace:
            return [], changes
        if gone:
            original = [one for one in original if key not in one or identity(one[key]) not in gone]
        return original, changes

    def _items(self, original: list[Any], changes: list[Any], field: _Field) -> tuple[list[Any], set[int]]:
        """Merge items by key; also return the ids of those that are new, as the patch has them."""
        merged, added = list(original), set[int]()
        places: dict[Any, int] = {}
        for at, item in enumerate(original):
            if field.key in item:
                places.setdefault(identity(item[field.key]), at)
        for item in changes:
            if field.key not in item:
                raise no_key(item, field.key)
            name = identity(item[field.key])
            found = places.get(name)
            if found is None:
                places[name] = len(merged)
                merged.append(item)
                added.add(id(item))
            else:
                added.discard(id(merged[found]))
                merged[found] = self.map(merged[found], item, field.schema)
        return merged, added

    def _field(self, schema: Schema, name: str) -> _Field:
        properties = schema.get("properties")
        if properties is None:
            more = schema.get("additionalProperties")
            return _Field(self._shape(more), "", "") if isinstance(more, dict) else _UNKNOWN
        field = properties.get(name)
        if field is None:
            return _UNKNOWN
        strategies = str(field.get(_STRATEGY, "")).split(",")
        strategy = next((item for item in strategies if item in ("merge", "replace")), "")
        return _Field(self._shape(field), strategy, field.get(_MERGE_KEY, ""))

    def _shape(self, schema: Schema) -> Schema:
        """Return the schema of a field's value, or of its items if it is a list."""
        while True:
            if "$ref" in schema:
                schema = self._resolve(schema)
            elif "allOf" in schema and len(schema["allOf"]) == 1:
                schema = schema["allOf"][0]
            elif "items" in schema:
                schema = schema["items"]
            else:
                return schema


def _list_name(name: str, prefix: str) -> str:
    """The list that a directive is about; raises PatchError for one that names none."""
    before, slash, field = name.partition("/")
    if before != prefix or not slash:
        what = "primitive" if prefix == DELETE_LIST else "setElementOrder"
        raise PatchError.bad_request(f"invalid patch format of {what} list")
    return field


def _no_list(value: Any) -> PatchError:
    return PatchError(f"expected a []interface {{}}, but received a {go_type(value)}")


def _check_elements(original: list[Any], patch: list[Any], *, some: bool = False) -> str:
    """The one kind that the items of two lists have; raises PatchError for several kinds, and for lists of lists."""
    kinds: set[str] = set()
    for items in (original, patch):
        kinds.update(map(go_kind, items))
    if "slice" in kinds:
        raise PatchError.rejected()
    if len(kinds) > 1:
        raise PatchError(f"list element types are not identical: {go_format([original, patch])}")
    if not kinds and some:
        raise PatchError("no elements in any of the given slices")
    return next(iter(kinds), "")


def _retain(result: Manifest, patch: Manifest) -> None:
    keys = patch[RETAIN]
    if not isinstance(keys, list):
        raise PatchError.bad_request("invalid patch format of retainKeys")
    kept = {key for key in keys if isinstance(key, str)}
    for name, value in patch.items():
        if value is not None and not name.startswith("$") and name not in kept:
            raise PatchError.bad_request("invalid patch format of retainKeys")
    for name in [name for name in result if name not in kept]:
        del result[name]


def _plain(value: Any) -> Any:
    """Return what a patch sets where nothing was, without its directives and nulls."""
    if isinstance(value, dict):
        return {
            name: _plain(item)
            for name, item in value.items()
            if item is not None
            and name not in (DIRECTIVE, RETAIN)
            and not name.startswith((ORDER, DELETE_LIST))
            and not _removes(item)
        }
    if isinstance(value, list):
        return [_plain(item) for item in value if not (isinstance(item, dict) and DIRECTIVE in item)]
    return value


def _removes(item: Any) -> bool:
    return isinstance(item, dict) and item.get(DIRECTIVE, "replace") != "replace"
