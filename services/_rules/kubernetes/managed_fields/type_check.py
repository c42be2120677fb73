"""Reports why an applied configuration does not fit its schema, in the words of an API server's typed converter."""

from collections.abc import Iterator
from typing import Any, Final

Schema = dict[str, Any]

_FREE: Final = "x-kubernetes-preserve-unknown-fields"


def configuration_errors(schema: Schema | None, config: dict[str, Any]) -> list[str]:
    """Return what does not fit, each with its path; fields that the schema does not have are errors."""
    return list(_check(schema, config, "")) if schema else []


def _check(schema: Schema, value: Any, path: str) -> Iterator[str]:
    if value is None:
        return
    kind = schema.get("type", "object" if "properties" in schema else "")
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "quantity":
        kind = ""
    match kind:
        case "object":
            yield from _object(schema, value, path)
        case "array":
            if not isinstance(value, list):
                yield f"{path}: expected list, got &{{{_plain(value)}}}"
            elif isinstance(schema.get("items"), dict):
                for index, item in enumerate(value):
                    yield from _check(schema["items"], item, f"{path}[{index}]")
        case "string" if not isinstance(value, str):
            yield f"{path}: expected string, got &{{{_plain(value)}}}"
        case "boolean" if not isinstance(value, bool):
            yield f"{path}: expected boolean, got &{{{_plain(value)}}}"
        case "integer" | "number" if not isinstance(value, int | float) or isinstance(value, bool):
            yield f"{path}: expected numeric (int or float), got *value.valueUnstructured"


def _object(schema: Schema, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: expected map, got &{{{_plain(value)}}}"
        return
    fields, more = schema.get("properties"), schema.get("additionalProperties")
    for name, item in value.items():
        here = f"{path}.{name}"
        field = (fields or {}).get(name)
        if field is not None:
            yield from _check(field, item, here)
        elif isinstance(more, dict):
            yield from _check(more, item, here)
        elif fields is not None and not schema.get(_FREE):
            yield f"{here}: field not declared in schema"


def _plain(value: Any) -> str:
    from services._rules.kubernetes.patch.go_text import go_format

    return go_format(value)
