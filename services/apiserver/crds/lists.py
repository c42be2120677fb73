"""Checks custom objects for what a schema cannot express: unique items of set and map lists, embedded resources."""

from collections.abc import Callable
from typing import Any

import msgspec

from services._rules.kubernetes.patch.go_text import go_syntax
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import FieldError, Raw, duplicate, invalid, required
from services._rules.kubernetes.validation.object_metadata import annotations as check_annotations
from services._rules.kubernetes.validation.object_metadata import labels as check_labels
from services.apiserver.crds.objectmeta import metadata_error

Schema = dict[str, Any]
Check = Callable[[Any, str, list[FieldError]], None]


def compile_lists(schema: Schema) -> Check | None:
    """Return a function that complains about duplicates in lists of type set and map; None if there are none."""
    return _walk(schema, _unique_items)


def compile_embedded(schema: Schema) -> Check | None:
    """Return a function that complains about embedded resources; None if the schema embeds none."""
    return _walk(schema, _embedded)


def compile_embedded_shapes(schema: Schema) -> Check | None:
    """Return a function that complains about embedded metadata of a wrong shape; None if the schema embeds none."""
    return _walk(schema, _embedded_shape)


def compile_embedded_types(schema: Schema) -> Callable[[Any], str] | None:
    """Return a function from an object to the decoder's complaint about embedded metadata, empty if there is none."""
    walk = compile_embedded_shapes(schema)
    if walk is None:
        return None

    def first(value: Any) -> str:
        found: list[FieldError] = []
        walk(value, "", found)
        return str(found[0]) if found else ""

    return first


def _walk(schema: Schema, probe: Callable[[Schema], Check | None]) -> Check | None:
    own = probe(schema)
    fields = {name: inner for name, field in schema.get("properties", {}).items() if (inner := _walk(field, probe))}
    more_schema, items_schema = schema.get("additionalProperties"), schema.get("items")
    more = _walk(more_schema, probe) if isinstance(more_schema, dict) else None
    items = _walk(items_schema, probe) if isinstance(items_schema, dict) else None
    known = schema.get("properties", {}).keys()
    if own is None and not fields and more is None and items is None:
        return None

    def check(value: Any, path: str, found: list[FieldError]) -> None:
        if own is not None:
            own(value, path, found)
        if isinstance(value, dict):
            for name, item in value.items():
                field = fields.get(name)
                if field is not None:
                    field(item, f"{path}.{name}" if path else name, found)
                elif more is not None and name not in known:
                    more(item, f"{path}[{name}]", found)
        elif isinstance(value, list) and items is not None:
            for index, item in enumerate(value):
                items(item, f"{path}[{index}]", found)

    return check


def _unique_items(schema: Schema) -> Check | None:
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return lambda value, path, found: _duplicates(value, path, found, None)
        case "map":
            keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
            return lambda value, path, found: _duplicates(value, path, found, keys)
        case _:
            return None


def _duplicates(value: Any, path: str, found: list[FieldError], keys: tuple[str, ...] | None) -> None:
    if not isinstance(value, list):
        return
    seen: set[bytes] = set()
    for index, item in enumerate(value):
        key = item
        if keys is not None:
            if not isinstance(item, dict):
                found.append(invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map"))
                return
            key = {name: item[name] for name in keys if name in item}
        mark = msgspec.json.encode(key, order="sorted")
        if mark in seen:
            shown = Raw(go_syntax(key)) if isinstance(key, dict | list) else key
            found.append(duplicate(f"{path}[{index}]", shown))
        seen.add(mark)


def _embedded_shape(schema: Schema) -> Check | None:
    return _check_shape if schema.get("x-kubernetes-embedded-resource") else None


def _check_shape(value: Any, path: str, found: list[FieldError]) -> None:
    if isinstance(value, dict) and (text := metadata_error(value.get("metadata"))):
        found.append(invalid(f"{path}.metadata", Raw(go_syntax(value["metadata"])), text))


def _embedded(schema: Schema) -> Check | None:
    return _check_embedded if schema.get("x-kubernetes-embedded-resource") else None


def _check_embedded(value: Any, path: str, found: list[FieldError]) -> None:
    if not isinstance(value, dict):
        return
    for name, problems in (("apiVersion", _version_problems), ("kind", _kind_problems)):
        given, here = value.get(name), f"{path}.{name}".removeprefix(".")
        if name not in value:
            found.append(required(here, "must not be empty"))
        elif not isinstance(given, str):
            found.append(invalid(here, Raw(go_syntax(given)), "must be a string"))
        elif not given:
            found.append(invalid(here, given, "must not be empty"))
        else:
            found += [invalid(here, given, text) for text in problems(given)]
    _check_metadata(value.get("metadata"), f"{path}.metadata".removeprefix("."), found)


def _version_problems(version: str) -> list[str]:
    return [f"unexpected GroupVersion string: {version}"] if version.count("/") > 1 else []


def _kind_problems(kind: str) -> list[str]:
    texts = names.dns1035(kind.lower())
    return [f"may have mixed case, but should otherwise match: {','.join(texts)}"] if texts else []


def _check_metadata(metadata: Any, path: str, found: list[FieldError]) -> None:
    if not isinstance(metadata, dict):
        return
    for name, rest in (("name", ""), ("generateName", "x")):
        if given := metadata.get(name):
            found += [invalid(f"{path}.{name}", given, text) for text in names.path_segment(given + rest)]
    found += check_labels(metadata.get("labels") or {}, f"{path}.labels")
    found += check_annotations(metadata.get("annotations") or {}, f"{path}.annotations")
