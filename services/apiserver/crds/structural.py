"""Checks that the schema of a CustomResourceDefinition is structural: all typed, nothing hidden in value rules."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from services._rules.kubernetes.patterns import problem
from services._rules.kubernetes.validation.field_errors import FieldError, forbidden, invalid, required

Schema = dict[str, Any]

ROOT: Final = "must not be empty at the root"
ITEM: Final = "must not be empty for specified array items"
FIELD: Final = "must not be empty for specified object fields"

_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_FORBIDDEN_NESTED: Final = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
_INCONVERTIBLE: Final = (
    *("id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"),
)
"""Keywords that a structural schema has no place for."""
_METADATA_KEYWORDS: Final = ("type", "properties", "default")
"""What the schema of the metadata of an object may have; a default is refused for another reason."""


def check_structural(schema: Schema, path: str) -> list[FieldError]:
    """Return what keeps a schema from being structural, which has to be convertible."""
    return sorted([*_invariants(schema, path, ROOT), *_completeness(schema, path)], key=str)


def inconvertible(schema: Schema) -> str:
    """Return why a schema cannot be read as a structural one at all; empty if it can."""
    for name in _INCONVERTIBLE:
        if schema.get(name) or (name == "additionalItems" and schema.get(name) is not None):
            return f"OpenAPIV3Schema '{name.removeprefix('$') if name == '$schema' else name}' is not supported"
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        return "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
    if isinstance(schema.get("items"), list) and schema["items"]:
        return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    return next((text for _, part in (*children(schema), *compositions(schema)) if (text := inconvertible(part))), "")


def children(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Iterate over the schemas directly below one, each with its path suffix."""
    if isinstance(schema.get("items"), dict):
        yield ".items", schema["items"]
    for name, field in schema.get("properties", {}).items():
        yield f".properties[{name}]", field
    if isinstance(schema.get("additionalProperties"), dict):
        yield ".additionalProperties", schema["additionalProperties"]


def compositions(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Iterate over the value rules of a schema (allOf, anyOf, oneOf, not), each with its path suffix."""
    for name in ("allOf", "anyOf", "oneOf"):
        for index, part in enumerate(schema.get(name) or ()):
            yield f".{name}[{index}]", part
    if isinstance(schema.get("not"), dict):
        yield ".not", schema["not"]


def is_set(schema: Schema, name: str) -> bool:
    """Return whether a schema has a keyword: one that is empty, or false where that is the same, counts as left out."""
    value = schema.get(name)
    if name in ("not", "items", "default", "example", "additionalProperties", "additionalItems"):
        return value is not None
    return value is not None and value is not False and value not in ("", [], {})


def _invariants(schema: Schema, path: str, level: str) -> Iterator[FieldError]:
    for suffix, child in children(schema):
        yield from _invariants(child, path + suffix, ITEM if suffix == ".items" else FIELD)
    if level == ROOT and is_set(schema, "additionalProperties"):
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    yield from _type(schema, path, level)
    yield from _extensions(schema, path)
    excused = _excused_any_of(schema)
    for suffix, part in compositions(schema):
        yield from _nested(part, path + suffix, excused, path)
    yield from _pattern(schema, path)
    if level == ROOT or schema.get("x-kubernetes-embedded-resource"):
        yield from _resource(schema, path)
    if level == ROOT and "metadata" in schema.get("properties", {}):
        yield from _metadata(schema["properties"]["metadata"], f"{path}.properties[metadata]")


def _type(schema: Schema, path: str, level: str) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
    if embedded and kind != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(f"{path}.type", kind, text) if kind else required(f"{path}.type", text)
    elif not kind and not int_or_string and not schema.get("x-kubernetes-preserve-unknown-fields"):
        yield required(f"{path}.type", level)
    if level == ROOT and kind and kind != "object":
        yield invalid(f"{path}.type", kind, "must be object at the root")
    if kind == "array" and not isinstance(schema.get("items"), dict):
        yield required(f"{path}.items", "must be specified")


def _extensions(schema: Schema, path: str) -> Iterator[FieldError]:
    if schema.get("x-kubernetes-int-or-string"):
        for name in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if schema.get(name):
                yield invalid(f"{path}.{name}", True, "must be false if x-kubernetes-int-or-string is true")
    if schema.get("x-kubernetes-embedded-resource"):
        if is_set(schema, "additionalProperties"):
            text = "must not be used if x-kubernetes-embedded-resource is set"
            yield forbidden(f"{path}.additionalProperties", text)
        if not schema.get("properties") and not schema.get("x-kubernetes-preserve-unknown-fields"):
            text = (
                "must not be empty if x-kubernetes-embedded-resource is true "
                "without x-kubernetes-preserve-unknown-fields"
            )
            yield required(f"{path}.properties", text)


def _excused_any_of(schema: Schema) -> str:
    """Return where a schema may name the two types of int-or-string; empty if nowhere."""
    if schema.get("anyOf") == _INT_OR_STRING:
        return ".anyOf"
    all_of = schema.get("allOf") or [{}]
    return ".allOf[0].anyOf" if all_of[0].get("anyOf") == _INT_OR_STRING else ""


def _nested(schema: Schema, path: str, excused: str, root: str) -> Iterator[FieldError]:
    if excused and path.removeprefix(root).startswith(excused):
        return
    yield from _pattern(schema, path)
    for suffix, child in (*children(schema), *compositions(schema)):
        if suffix != ".additionalProperties":
            yield from _nested(child, path + suffix, excused, root)
    for name, text in _FORBIDDEN_NESTED.items():
        if is_set(schema, name) and not (name == "additionalProperties" and schema[name] is False):
            yield forbidden(f"{path}.{name}", text)
    if "metadata" in schema.get("properties", {}):
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _pattern(schema: Schema, path: str) -> Iterator[FieldError]:
    pattern = schema.get("pattern")
    if pattern and (text := problem(pattern)):
        yield invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {text}")


def _resource(schema: Schema, path: str) -> Iterator[FieldError]:
    fields = schema.get("properties", {})
    for name, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        if name in fields and fields[name].get("type", "") != wanted:
            yield invalid(f"{path}.properties[{name}].type", fields[name].get("type", ""), f"must be {wanted}")


def _metadata(schema: Schema, path: str) -> Iterator[FieldError]:
    named = schema.get("properties", {}).keys() <= {"name", "generateName"}
    if not named or any(name not in _METADATA_KEYWORDS and is_set(schema, name) for name in schema):
        text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden(path, text)


def _completeness(schema: Schema, path: str) -> Iterator[FieldError]:
    # Kubernetes looks at the value rules of the root only.
    for suffix, part in compositions(schema):
        yield from _complete(part, schema, path, path + suffix)


def _complete(rule: Schema, schema: Schema, path: str, rule_path: str) -> Iterator[FieldError]:
    """Return errors for fields that a value rule names and the schema itself does not have."""
    for suffix, part in compositions(rule):
        yield from _complete(part, schema, path, rule_path + suffix)
    known: dict[str, Schema] = dict(children(schema))
    for suffix, child in children(rule):
        if suffix == ".additionalProperties":
            continue
        if suffix in known:
            yield from _complete(child, known[suffix], path + suffix, rule_path + suffix)
        else:
            yield required(path + suffix, f"because it is defined in {rule_path}{suffix}")


def any_schema(schema: Schema, test: Callable[[Schema], bool]) -> bool:
    """Return whether a schema or any schema inside it passes the test."""
    return any(test(part) for part in every_schema(schema))


def every_schema(schema: Schema) -> Iterator[Schema]:
    """Iterate over a schema and all schemas inside it, those of value rules included."""
    yield schema
    for _, child in (*children(schema), *compositions(schema)):
        yield from every_schema(child)
