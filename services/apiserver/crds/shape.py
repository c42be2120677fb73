"""Compiles a structural schema into functions that prune unknown fields and fill in defaults.

Both take a value and return it, or a changed copy: what they are given is never changed, and unchanged parts are
shared. A subtree in which there is nothing to do compiles to None and is not walked at all.
"""

from collections.abc import Callable
from typing import Any, Final

from services.apiserver.crds.objectmeta import pruned_metadata

Schema = dict[str, Any]
Change = Callable[[Any], Any]

_KEEP: Final = object()


def compile_prune(schema: Schema, *, root: bool = False) -> Change | None:
    """Return a function that drops what the schema does not specify; None if it lets everything through.

    At the root and in embedded resources apiVersion, kind and metadata stay, and metadata loses its unknown fields.
    """
    resource = root or bool(schema.get("x-kubernetes-embedded-resource"))
    preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    fields = {name: compile_prune(field) for name, field in schema.get("properties", {}).items()}
    more = schema.get("additionalProperties")
    rest: Any = _KEEP if preserve or more is True else None
    if isinstance(more, dict):
        rest = compile_prune(more) or _KEEP
    items = compile_prune(schema["items"]) if isinstance(schema.get("items"), dict) else None
    if resource:
        fields |= {"apiVersion": None, "kind": None, "metadata": None if root else pruned_metadata}
    kind = schema.get("type")
    if rest is _KEEP and not any(fields.values()) and items is None:
        return None
    if kind not in ("object", "array", None) or (kind == "array" and items is None):
        return None
    return _pruner(fields, rest, items)


def _pruner(fields: dict[str, Change | None], rest: Any, items: Change | None) -> Change:
    def prune(value: Any) -> Any:
        if isinstance(value, dict):
            return prune_map(value)
        if isinstance(value, list) and items is not None:
            return _map_list(value, items)
        return value

    def prune_map(value: dict[str, Any]) -> dict[str, Any]:
        changed: dict[str, Any] | None = None
        for name, item in value.items():
            change = fields.get(name, rest)
            if change is _KEEP or (change is None and name in fields):
                continue
            if change is None:
                changed = dict(value) if changed is None else changed
                del changed[name]
                continue
            new = change(item)
            if new is not item:
                changed = dict(value) if changed is None else changed
                changed[name] = new
        return value if changed is None else changed

    return prune


def compile_default(schema: Schema) -> Change | None:
    """Return a function that sets defaults and drops nulls where the schema is not nullable; None if there are none."""
    fields: dict[str, tuple[Any, bool, Change | None]] = {}
    for name, field in schema.get("properties", {}).items():
        fields[name] = (field.get("default", _KEEP), bool(field.get("nullable")), compile_default(field))
    more = schema.get("additionalProperties")
    rest = compile_default(more) if isinstance(more, dict) else None
    rest_null = _null(more) if isinstance(more, dict) else _KEEP
    items_schema = schema.get("items")
    items = compile_default(items_schema) if isinstance(items_schema, dict) else None
    items_null = _null(items_schema) if isinstance(items_schema, dict) else _KEEP
    if not fields and rest is None and items is None and rest_null is _KEEP and items_null is _KEEP:
        return None
    with_default = [
        (name, default, nullable) for name, (default, nullable, _) in fields.items() if default is not _KEEP
    ]

    def fill(value: Any) -> Any:
        if isinstance(value, dict):
            return fill_map(value)
        if isinstance(value, list):
            if items_null is not _KEEP and None in value:
                value = [items_null if item is None else item for item in value]
            return value if items is None else _map_list(value, items)
        return value

    def fill_map(value: dict[str, Any]) -> dict[str, Any]:
        changed: dict[str, Any] | None = None
        for name, default, nullable in with_default:
            current = value.get(name, _KEEP)
            if current is _KEEP or (current is None and not nullable):
                changed = dict(value) if changed is None else changed
                changed[name] = default
        for name, item in value.items() if changed is None else list(changed.items()):
            field = fields.get(name)
            if field is None:
                change, new = rest, rest_null if item is None and rest_null is not _KEEP else item
            else:
                change, new = field[2], item
                if item is None and not field[1]:
                    # Neither nullable nor defaulted: a null means that the field is not there.
                    changed = dict(value) if changed is None else changed
                    del changed[name]
                    continue
            if change is not None:
                new = change(new)
            if new is not item:
                changed = dict(value) if changed is None else changed
                changed[name] = new
        return value if changed is None else changed

    return fill


def _null(schema: Schema) -> Any:
    """Return what stands for a null entry of a list or map: its default; or `_KEEP` if a null may stay."""
    if schema.get("nullable") or "default" not in schema:
        return _KEEP
    return schema["default"]


def _map_list(value: list[Any], change: Change) -> list[Any]:
    changed: list[Any] | None = None
    for index, item in enumerate(value):
        new = change(item)
        if new is not item:
            changed = list(value) if changed is None else changed
            changed[index] = new
    return value if changed is None else changed
