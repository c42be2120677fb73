"""Checks custom objects for what a schema cannot express: unique items of set and map lists, embedded resources."""

from collections.abc import Callable
from typing import Any

import msgspec

from services._rules.kubernetes.patch.go_text import go_syntax
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import FieldError, Raw, duplicate, invalid, required
from services._rules.kubernetes.validation.object_metadata import annotations as check_annotations
from services._rules.kubernetes.validation.object_metadata import labels as check_labels
from services.apiserver.crds.objectmeta import embedded_error

Schema = dict[str, Any]
Check = Callable[[Any, str, list[FieldError]], None]


def compile_lists(schema: Schema) -> Check | None:
    """Return a function that complains about duplicates in lists of type set and map; None if there are none."""
    return _walk(schema, _unique_items)


def compile_embedded(schema: Schema) -> Check | None:
    """Return a function that complains about embedded resources; None if the schema embeds none."""
    return _walk(schema, _embedded)


def compile_embedded_types(schema: Schema) -> Callable[[Any], str] | None:
    """Return a function from an object to the decoder's complaint about embedded metadata, empty if there is none."""

    def probe(node: Schema) -> Check | None:
        if not node.get("x-kubernetes-embedded-resource"):
            return None
        return lambda value, path, found: _decode_embedded(value, path, found)

    walk = _walk(schema, probe)
    if walk is None:
        return None

    def first(value: Any) -> str:
        found: list[FieldError] = []
        walk(value, "", found)
        return found[0].detail if found else ""

    return first


def _decode_embedded(value: Any, path: str, found: list[FieldError]) -> None:
    if isinstance(value, dict) and (text := embedded_error(f"{path}.metadata", value.get("metadata"))):
        found.append(invalid(path, None, text))


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
        key = (
            item if keys is None or not isinstance(item, dict) else {name: item[name] for name in keys if name in item}
        )
        mark = msgspec.json.encode(key, order="sorted")
        if mark in seen:
            shown = Raw(go_syntax(key)) if isinstance(key, dict | list) else key
            found.append(duplicate(f"{path}[{index}]", shown))
        seen.add(mark)


def _embedded(schema: Schema) -> Check | None:
    return _check_embedded if schema.get("x-kubernetes-embedded-resource") else None


def _check_embedded(value: Any, path: str, found: list[FieldError]) -> None:
    if not isinstance(value, dict):
        return
    version, kind = value.get("apiVersion"), value.get("kind")
    if not version:
        found.append(required(f"{path}.apiVersion", "must not be empty"))
    elif isinstance(version, str) and version.count("/") > 1:
        found.append(invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}"))
    if not kind:
        found.append(required(f"{path}.kind", "must not be empty"))
    elif isinstance(kind, str):
        found += [invalid(f"{path}.kind", kind, text) for text in names.dns1035(kind.lower())]
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        inner = f"{path}.metadata"
        if name := metadata.get("name"):
            found += [invalid(f"{inner}.name", name, text) for text in names.path_segment(name)]
        found += check_labels(metadata.get("labels") or {}, f"{inner}.labels")
        found += check_annotations(metadata.get("annotations") or {}, f"{inner}.annotations")
