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
}


def check_structural(schema: Schema, path: str) -> list[FieldError]:
    """Return what keeps a schema from being structural."""
    return [*_invariants(schema, path, ROOT), *_completeness(schema, path)]


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


def _invariants(schema: Schema, path: str, level: str) -> Iterator[FieldError]:
    for suffix, child in children(schema):
        yield from _invariants(child, path + suffix, ITEM if suffix == ".items" else FIELD)
    if level == ROOT and "additionalProperties" in schema:
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    yield from _type(schema, path, level)
    yield from _extensions(schema, path)
    excused = _excused_any_of(schema)
    for suffix, part in compositions(schema):
        yield from _nested(part, path + suffix, excused, path)
    yield from _pattern(schema, path)
    if level == ROOT or schema.get("x-kubernetes-embedded-resource"):
        yield from _resource(schema, path)


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
    if kind == "array" and not schema.get("items"):
        yield required(f"{path}.items", "must be specified")


def _extensions(schema: Schema, path: str) -> Iterator[FieldError]:
    if schema.get("x-kubernetes-int-or-string"):
        for name in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if schema.get(name):
                yield invalid(f"{path}.{name}", True, "must be false if x-kubernetes-int-or-string is true")
    if schema.get("x-kubernetes-embedded-resource"):
        if "additionalProperties" in schema:
            text = "must not be used if x-kubernetes-embedded-resource is set"
            yield forbidden(f"{path}.additionalProperties", text)
        if not schema.get("properties") and not schema.get("x-kubernetes-preserve-unknown-fields"):
            text = (
                "must not be empty if x-kubernetes-embedded-resource is true "
                "without x-kubernetes-preserve-unknown-fields"
            )
            yield required(f"{path}.properties", text)


def _excused_any_of(schema: Schema) -> str:
    """Return where an int-or-string schema may repeat its two types, which is nowhere for any other schema."""
    if not schema.get("x-kubernetes-int-or-string"):
        return ""
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
        value = schema.get(name)
        if value or (name in ("default", "additionalProperties") and name in schema):
            yield forbidden(f"{path}.{name}", text)
    within = path.removeprefix(root)
    if schema.get("x-kubernetes-validations") and any(name in within for name in (".anyOf[", ".oneOf[", ".not")):
        yield forbidden(f"{path}.x-kubernetes-validations", "must be empty to be structural")
    if "metadata" in schema.get("properties", {}):
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _pattern(schema: Schema, path: str) -> Iterator[FieldError]:
    pattern = schema.get("pattern")
    if pattern and (text := problem(pattern)):
        yield invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {text}")


def _resource(schema: Schema, path: str) -> Iterator[FieldError]:
    fields = schema.get("properties", {})
    for name in ("kind", "apiVersion"):
        if name in fields and fields[name].get("type") != "string":
            yield invalid(f"{path}.properties[{name}].type", fields[name].get("type", ""), "must be string")
    meta = fields.get("metadata")
    if meta is None:
        return
    where = f"{path}.properties[metadata]"
    if meta.get("type") != "object":
        yield invalid(f"{where}.type", meta.get("type", ""), "must be object")
    named = meta.get("properties", {}).keys() <= {"name", "generateName"}
    plain = all(name in ("type", "properties", "default") or not value for name, value in meta.items())
    if not named or not plain:
        text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden(where, text)


def _completeness(schema: Schema, path: str) -> Iterator[FieldError]:
    for suffix, part in compositions(schema):
        yield from _complete(part, schema, path, path + suffix)
    for suffix, child in children(schema):
        yield from _completeness(child, path + suffix)


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
    if test(schema):
        return True
    below = (*children(schema), *compositions(schema))
    return any(any_schema(child, test) for _, child in below)
