"""Checks list types, map types and list map keys of schemas (x-kubernetes-list-type and its like)."""

from collections.abc import Iterator
from typing import Any, Final

from services._rules.kubernetes.validation.field_errors import (
    FieldError,
    forbidden,
    go_strings,
    invalid,
    not_supported,
    required,
)

Schema = dict[str, Any]

_LIST_TYPES: Final = ("atomic", "set", "map")
_MAP_TYPES: Final = ("atomic", "granular")
_IF_MAP: Final = "if x-kubernetes-list-type is map"
_IF_PARENT_MAP: Final = "if parent array's x-kubernetes-list-type is map"


def check_map_type(schema: Schema, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with the map type of a schema itself."""
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is None:
        return
    yield from _type(schema, path, "object", "x-kubernetes-map-type")
    if map_type not in _MAP_TYPES:
        yield not_supported(f"{path}.x-kubernetes-map-type", map_type, _MAP_TYPES)


def check_list_type(schema: Schema, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with the list type and the keys of a schema itself."""
    list_type, keys = schema.get("x-kubernetes-list-type"), _keys(schema)
    here = f"{path}.x-kubernetes-list-type"
    if list_type is not None:
        yield from _type(schema, path, "array", "x-kubernetes-list-type")
        if list_type not in _LIST_TYPES:
            yield not_supported(here, list_type, _LIST_TYPES)
    if keys and list_type != "map":
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield required(here, text) if list_type is None else invalid(here, list_type, text)
    if list_type == "map":
        yield from _keyed(schema, keys, path)


def check_set_items(schema: Schema, path: str) -> Iterator[FieldError]:
    """Yield what keeps the items of a set from being compared as a whole."""
    items = _items(schema)
    if items is None or schema.get("x-kubernetes-list-type") != "set" or schema.get("type") != "array":
        return
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    list_type, map_type = items.get("x-kubernetes-list-type"), items.get("x-kubernetes-map-type")
    if items.get("type") == "array" and list_type not in (None, "atomic"):
        yield invalid(f"{path}.items.x-kubernetes-list-type", list_type, text)
    if items.get("type") == "object" and map_type != "atomic":
        # Kubernetes shows the list type here.
        yield invalid(f"{path}.items.x-kubernetes-map-type", list_type, text)


def check_identity(schema: Schema, path: str) -> Iterator[FieldError]:
    """Yield items of sets and maps that may be null, and keys that an item may lack."""
    items, list_type = _items(schema), schema.get("x-kubernetes-list-type")
    if items is None or list_type not in ("set", "map"):
        return
    if items.get("nullable"):
        yield forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}")
    for key in _keys(schema) if list_type == "map" else ():
        field, where = items.get("properties", {}).get(key), f"{path}.items.properties[{key}]"
        if field is None:
            continue
        text = "this property is in x-kubernetes-list-map-keys, so it"
        if key not in (items.get("required") or ()) and field.get("default") is None:
            yield required(f"{where}.default", f"{text} must have a default or be a required property")
        if field.get("nullable"):
            yield forbidden(f"{where}.nullable", f"{text} cannot be nullable")


def _type(schema: Schema, path: str, wanted: str, extension: str) -> Iterator[FieldError]:
    kind, text = schema.get("type", ""), f"must be {wanted} if {extension} is specified"
    if kind != wanted:
        yield invalid(f"{path}.type", kind, text) if kind else required(f"{path}.type", text)


def _items(schema: Schema) -> Schema | None:
    items = schema.get("items")
    return items if isinstance(items, dict) else None


def _keys(schema: Schema) -> list[str]:
    return list(schema.get("x-kubernetes-list-map-keys") or ())


def _keyed(schema: Schema, keys: list[str], path: str) -> Iterator[FieldError]:
    here, items = f"{path}.x-kubernetes-list-map-keys", _items(schema)
    if not keys:
        yield required(here, f"must not be empty {_IF_MAP}")
    if "items" not in schema:
        yield required(f"{path}.items", f"must have a schema {_IF_MAP}")
    elif items is None:
        yield invalid(f"{path}.items", schema["items"], f"must only have a single schema {_IF_MAP}")
    elif items.get("type") != "object":
        yield invalid(f"{path}.items.type", items.get("type", ""), f"must be object {_IF_PARENT_MAP}")
    else:
        for index, key in enumerate(keys):
            field = items.get("properties", {}).get(key)
            if field is None:
                yield invalid(here, go_strings(keys), "entries must all be names of item properties")
            elif field.get("type") in ("array", "object"):
                where = f"{path}.items.properties[{key}].type"
                yield invalid(where, items["type"], f"must be a scalar type {_IF_PARENT_MAP}")
            if key in keys[:index]:
                yield invalid(here, go_strings(keys), "must not contain duplicate entries")
