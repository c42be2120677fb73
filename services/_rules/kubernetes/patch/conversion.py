"""Reports why a strategically merged object does not fit its kind, in the words of the API server's converter."""

from collections.abc import Callable
from typing import Any, Final

from services._rules.kubernetes.patch.go_text import go_format, go_kind
from services._rules.kubernetes.patch.json_patch import PatchError

Schema = dict[str, Any]
Resolve = Callable[[Schema], Schema]

_OWN_DECODING: Final = frozenset({"int-or-string", "date-time", "byte"})


def check_conversion(
    obj: dict[str, Any], patch: Any, schema: Schema | None, resolve: Resolve = lambda schema: schema
) -> None:
    """Raise PatchError (422, field `patch`) when a field of `obj` has a type that the schema does not allow."""
    text = _mismatch(obj, schema, resolve) if schema else ""
    if not text:
        return
    message = f'Invalid value: "{go_format(patch)}": {text}'
    raise PatchError(
        f' "" is invalid: patch: {message}',
        status=422,
        reason="Invalid",
        details={"causes": [{"reason": "FieldValueInvalid", "message": message, "field": "patch"}]},
    )


def _mismatch(value: Any, schema: Schema, resolve: Resolve) -> str:
    if value is None:
        return ""
    schema = _resolved(schema, resolve)
    kind = schema.get("type", "object" if "properties" in schema else "")
    if schema.get("format") in _OWN_DECODING or schema.get("x-kubernetes-int-or-string") or _is_quantity(schema):
        return ""
    match kind:
        case "object":
            return _object(value, schema, resolve)
        case "array":
            if not isinstance(value, list):
                return f"cannot restore slice from {go_kind(value)}"
            items = schema.get("items")
            return next((text for item in value if (text := _mismatch(item, items, resolve))), "") if items else ""
        case "string":
            if isinstance(value, str):
                return ""
            whole = isinstance(value, int) and not isinstance(value, bool)
            return "cannot convert int64 to string" if whole else "unrecognized type: string"
        case "boolean":
            return "" if isinstance(value, bool) else "unrecognized type: bool"
        case "integer" | "number":
            if isinstance(value, int | float) and not isinstance(value, bool):
                if kind == "integer" and isinstance(value, float) and not value.is_integer():
                    return f"cannot convert float64 to {schema.get('format', 'int64')}"
                return ""
            return f"unrecognized type: {schema.get('format', 'int64' if kind == 'integer' else 'float64')}"
        case _:
            return ""


def _object(value: Any, schema: Schema, resolve: Resolve) -> str:
    properties = schema.get("properties")
    more = schema.get("additionalProperties")
    if not isinstance(value, dict):
        target = "map from" if properties is None else "struct from:"
        return f"cannot restore {target} {go_kind(value)}"
    for name, item in value.items():
        field = properties.get(name) if properties is not None else more
        if isinstance(field, dict) and (text := _mismatch(item, field, resolve)):
            return text
    return ""


def _is_quantity(schema: Schema) -> bool:
    return "oneOf" in schema or "anyOf" in schema or schema.get("title") == "Quantity"


def _resolved(schema: Schema, resolve: Resolve) -> Schema:
    while True:
        if "$ref" in schema:
            schema = resolve(schema)
        elif len(schema.get("allOf", ())) == 1:
            schema = schema["allOf"][0]
        else:
            return schema
