"""Finds the fields of a custom object that its schema does not specify, for requests with field validation."""

from typing import Any

Schema = dict[str, Any]

_RESOURCE_FIELDS = frozenset({"apiVersion", "kind", "metadata"})


def unknown_fields(schema: Schema, value: Any, *, root: bool = True) -> list[str]:
    """Return the paths of unspecified fields, in document order."""
    found: list[str] = []
    _walk(schema, value, "", found, resource=root)
    return found


def _walk(schema: Schema, value: Any, path: str, found: list[str], *, resource: bool = False) -> None:
    if isinstance(value, dict):
        fields, more = schema.get("properties", {}), schema.get("additionalProperties")
        preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or more is True
        implied = resource or bool(schema.get("x-kubernetes-embedded-resource"))
        for name, item in value.items():
            here = f"{path}.{name}" if path else name
            if implied and name in _RESOURCE_FIELDS:
                continue
            if name in fields:
                _walk(fields[name], item, here, found)
            elif isinstance(more, dict):
                _walk(more, item, here, found)
            elif not preserve:
                found.append(here)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            _walk(schema["items"], item, f"{path}[{index}]", found)
