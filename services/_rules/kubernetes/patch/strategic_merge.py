"""Applies Kubernetes strategic merge patches: maps merge, lists merge by key where the schema defines one.

The schema is an OpenAPI object with `x-kubernetes-patch-merge-key` and `x-kubernetes-patch-strategy`. Pure; what a
patch does not touch is shared between the original and the result. Directives: `$patch`, `$retainKeys`,
`$setElementOrder/<list>` and `$deleteFromPrimitiveList/<list>`.
"""

from collections.abc import Callable
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.kubernetes.patch.go_text import go_format, go_kind
from services._rules.kubernetes.patch.json_patch import PatchError

Schema = dict[str, Any]
Resolve = Callable[[Schema], Schema]

DIRECTIVE: Final = "$patch"
RETAIN: Final = "$retainKeys"
DELETE_LIST: Final = "$deleteFromPrimitiveList/"
ORDER: Final = "$setElementOrder/"

_MERGE_KEY: Final = "x-kubernetes-patch-merge-key"
_STRATEGY: Final = "x-kubernetes-patch-strategy"
_NO_SCHEMA: Final[Schema] = {}


def strategic_merge(
    original: Manifest, patch: Any, schema: Schema | None, resolve: Resolve = lambda schema: schema
) -> Manifest:
    """Return `original` with a strategic merge patch applied.

    `resolve` turns a `{"$ref": …}` of the schema into what it names. Raises PatchError: 400 for a malformed directive,
    500 where an API server answers so (a list item without its merge key, an unfitting order list).
    """
    if not isinstance(patch, dict):
        kind = "array" if isinstance(patch, list) else go_kind(patch)
        raise PatchError.bad_request(f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
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
                self._delete_from_list(result, name.removeprefix(DELETE_LIST), value)
            elif value is None:
                result.pop(name, None)
            else:
                self._set(result, name, value, schema)
        return result

    def _set(self, result: Manifest, name: str, value: Any, schema: Schema) -> None:
        current = result.get(name)
        if isinstance(value, dict) and isinstance(current, dict):
            field = self._field(schema, name)
            result[name] = _plain(value) if field.strategy == "replace" else self.map(current, value, field.schema)
        elif isinstance(value, list) and isinstance(current, list):
            result[name] = self._list(current, value, self._field(schema, name))
        else:
            result[name] = _plain(value)

    def _directed(self, patch: Manifest) -> Manifest:
        match patch[DIRECTIVE]:
            case "replace":
                return {name: _plain(value) for name, value in patch.items() if name != DIRECTIVE}
            case "delete":
                return {}
            case other:
                raise PatchError(f"unknown patch type: {go_format(other)} in map: {go_format(patch)}")

    def _delete_from_list(self, result: Manifest, name: str, value: Any) -> None:
        if not isinstance(value, list):
            raise PatchError.bad_request("invalid patch format of primitive list")
        current = result.get(name)
        if isinstance(current, list):
            result[name] = [item for item in current if position(value, item, "") < 0]

    def _ordered_lists(self, result: Manifest, patch: Manifest, schema: Schema) -> set[str]:
        """Merge and order the lists that come with `$setElementOrder`; return the fields that are done by that."""
        done: set[str] = set()
        for name, order in patch.items():
            if not name.startswith(ORDER):
                continue
            field_name = name.removeprefix(ORDER)
            if not isinstance(order, list):
                raise PatchError(f"expected a []interface {{}}, but received a {go_kind(order)}")
            field = self._field(schema, field_name)
            changes = patch.get(field_name)
            if changes is not None:
                if not isinstance(changes, list):
                    raise PatchError(f"expected a []interface {{}}, but received a {go_kind(changes)}")
                matches_order(changes, order, field.key)
            elif field_name in patch:
                continue
            deleted = patch.get(DELETE_LIST + field_name)
            if deleted is not None:
                self._delete_from_list(result, field_name, deleted)
            current = result.get(field_name)
            current = current if isinstance(current, list) else None
            if current is None and changes is None:
                continue
            if current is not None and changes is not None:
                merged = self._list(current, changes, field)
            else:
                merged = current if current is not None else self._new_items(changes or [])
            result[field_name] = element_order(merged, order, current or [], field.key)
            done.add(field_name)
        return done

    def _list(self, original: list[Any], patch: list[Any], field: _Field) -> list[Any]:
        """Merge one list into another."""
        if field.strategy != "merge":
            return [_plain(item) for item in patch]
        if not original and not patch:
            return original
        kinds = {go_kind(item) for item in (*original, *patch)}
        if len(kinds) > 1:
            raise PatchError(f"list element types are not identical: {' '.join(sorted(kinds))}")
        if kinds == {"slice"}:
            raise PatchError("lists of lists are not supported")
        if kinds != {"map"}:
            merged = _unique([*original, *patch])
            return element_order(merged, patch, original, "")
        if not field.key:
            raise PatchError(f"cannot merge lists without merge key for {field.schema.get('title', 'schema')}")
        original, changes = self._list_directives(original, patch, field.key)
        merged = self._items(original, changes, field)
        return element_order(merged, changes, original, field.key)

    def _list_directives(self, original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
        changes: list[Any] = []
        replace = False
        for item in patch:
            match item.get(DIRECTIVE):
                case None:
                    changes.append(item)
                case "delete":
                    if key not in item:
                        raise _no_key(item, key)
                    original = [one for one in original if key not in one or one[key] != item[key]]
                case "replace":
                    replace = True
                case "merge":
                    raise PatchError("merging lists cannot yet be specified in the patch")
                case other:
                    raise PatchError(f"unknown patch type: {go_format(other)} in map: {go_format(item)}")
        return ([] if replace else original), changes

    def _items(self, original: list[Any], changes: list[Any], field: _Field) -> list[Any]:
        merged = list(original)
        for item in changes:
            if field.key not in item:
                raise _no_key(item, field.key)
            at = position(merged, item, field.key)
            if at < 0:
                merged.append(_plain(item))
            else:
                merged[at] = self.map(merged[at], item, field.schema)
        return merged

    def _new_items(self, changes: list[Any]) -> list[Any]:
        return [_plain(item) for item in changes if not (isinstance(item, dict) and item.get(DIRECTIVE) == "delete")]

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
        if value.get(DIRECTIVE) == "delete":
            return {}
        return {
            name: _plain(item)
            for name, item in value.items()
            if item is not None and name not in (DIRECTIVE, RETAIN) and not name.startswith((ORDER, DELETE_LIST))
        }
    if isinstance(value, list):
        return [_plain(item) for item in value if not (isinstance(item, dict) and item.get(DIRECTIVE) == "delete")]
    return value


def _unique(items: list[Any]) -> list[Any]:
    seen: list[Any] = []
    for item in items:
        if item not in seen:
            seen.append(item)
    return seen


def _no_key(item: Manifest, key: str) -> PatchError:
    return PatchError(f"map: {go_format(item)} does not contain declared merge key: {key}")


def element_order(merged: list[Any], order: list[Any], original: list[Any], key: str) -> list[Any]:
    """Return `merged` with the items that `order` names in its order, and the others where `original` has them.

    Items present in both keep their relation from `original`; an item that only the patch knows goes before the
    next server-only one. `key` is the merge key, or empty for a list of scalars.
    """
    if key:
        for item in (*merged, *order):
            if not isinstance(item, dict) or key not in item:
                raise PatchError(f"map: {go_format(item)} does not contain declared merge key: {key}")
    patched = [item for item in merged if position(order, item, key) >= 0]
    others = [item for item in merged if position(order, item, key) < 0]
    patched.sort(key=lambda item: position(order, item, key))
    others.sort(key=lambda item: position(original, item, key) % (len(original) + 1))
    result: list[Any] = []
    left = right = 0
    while left < len(others) and right < len(patched):
        ours, theirs = position(original, others[left], key), position(original, patched[right], key)
        if 0 <= ours < theirs:
            result.append(others[left])
            left += 1
        else:
            result.append(patched[right])
            right += 1
    return [*result, *others[left:], *patched[right:]]


def matches_order(changes: list[Any], order: list[Any], key: str) -> None:
    """Raise PatchError unless the changed items appear in the order list, in the same order."""
    wanted = [item for item in changes if not (isinstance(item, dict) and item.get("$patch") == "delete")]
    at = 0
    for item in order:
        if at < len(wanted) and position([item], wanted[at], key) == 0:
            at += 1
    if at < len(wanted):
        raise PatchError(
            f"The order in patch list:\n{go_format(changes)}\n"
            f" doesn't match $setElementOrder list:\n{go_format(order)}\n"
        )


def position(items: list[Any], item: Any, key: str) -> int:
    """Return where `items` has the same merge key (or the same scalar), or -1."""
    if key:
        value = item.get(key) if isinstance(item, dict) else None
        for index, other in enumerate(items):
            if isinstance(other, dict) and key in other and other[key] == value:
                return index
        return -1
    for index, other in enumerate(items):
        if other == item and isinstance(other, bool) == isinstance(item, bool):
            return index
    return -1
