"""Checks the schema of a CustomResourceDefinition version: what is supported, list and map types, defaults, rules."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from services._rules.kubernetes.patch.go_text import go_syntax
from services._rules.kubernetes.patterns import problem
from services._rules.kubernetes.validation.field_errors import (
    ErrorType,
    FieldError,
    Raw,
    forbidden,
    invalid,
    not_supported,
)
from services.apiserver.crds.checks.default_values import check_defaults
from services.apiserver.crds.checks.demands import TYPES, Demands
from services.apiserver.crds.checks.list_types import check_identity, check_list_type, check_map_type, check_set_items
from services.apiserver.crds.checks.rule_forms import check_rule_forms
from services.apiserver.crds.rule_checks import check_rules
from services.apiserver.crds.structural import any_schema, check_structural, compositions, inconvertible, is_set

Schema = dict[str, Any]

_UNSUPPORTED: Final = ("id", "patternProperties", "definitions")
_UNSUPPORTED_EVEN_EMPTY: Final = ("additionalItems", "dependencies", "$ref")
_META_FIELDS: Final = ("metadata", "kind", "apiVersion")
_ROOT_WITH_STATUS: Final = {
    "description": "Description",
    "type": "Type",
    "format": "Format",
    "title": "Title",
    "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum",
    "minimum": "Minimum",
    "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength",
    "minLength": "MinLength",
    "pattern": "Pattern",
    "maxItems": "MaxItems",
    "minItems": "MinItems",
    "uniqueItems": "UniqueItems",
    "multipleOf": "MultipleOf",
    "required": "Required",
    "items": "Items",
    "properties": "Properties",
    "externalDocs": "ExternalDocs",
    "example": "Example",
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields",
    "x-kubernetes-validations": "XValidations",
}


class _Scope(msgspec.Struct, frozen=True):
    """What applies at one place of the schema: why defaults are refused there, and whether it is object metadata."""

    no_default: str | None = None
    in_metadata: bool = False
    root: bool = False


def check_schema(schema: Schema, path: str, demands: Demands, *, status: bool = False) -> list[FieldError]:
    """Return what is wrong with the schema of one version; `status`: the version has the status subresource."""
    found: list[FieldError] = []
    if status:
        found += _root_with_status(schema, path)
    if schema.get("nullable"):
        found.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    unreadable, typed = "", False
    if demands.structural:
        unreadable = inconvertible(schema)
        loose = [] if unreadable else check_structural(schema, path)
        if not unreadable and not loose:
            loose = check_defaults(schema, path, pruned=demands.pruned_defaults)
            typed = not loose
        found += loose
    forms = list(_check(schema, path, _Scope(root=True), demands))
    found += forms
    if typed:
        found += check_rules(schema, path, [error.field for error in forms])
    if not found and unreadable:
        found.append(invalid(path, "", unreadable))
    if not found:
        found += _patterns(schema, path)
    return found


def _root_with_status(schema: Schema, path: str) -> Iterator[FieldError]:
    tail = "if the status subresource is enabled"
    for name in schema:
        if name == "type":
            if schema["type"] and schema["type"] != "object":
                text = f'only "object" is allowed as the type at the root of the schema {tail}'
                yield invalid(f"{path}.type", schema["type"], text)
                return
        elif name not in _ROOT_WITH_STATUS and is_set(schema, name):
            text = f"only [{' '.join(_ROOT_WITH_STATUS.values())}] fields are allowed at the root of the schema {tail}"
            yield invalid(path, Raw(go_syntax(schema)), text)
            return


def _check(schema: Schema, path: str, scope: _Scope, demands: Demands) -> Iterator[FieldError]:
    yield from _supported(schema, path, scope, demands)
    more = schema.get("additionalProperties")
    if schema.get("properties") and more is not None and more is not True:
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    for suffix, part, inner in _inner(schema, scope):
        yield from _check(part, path + suffix, inner, demands)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    yield from check_map_type(schema, path)
    yield from check_list_type(schema, path)
    if demands.atomic_sets:
        yield from check_set_items(schema, path)
    if demands.identity:
        yield from check_identity(schema, path)
    yield from check_rule_forms(schema, path)


def _inner(schema: Schema, scope: _Scope) -> Iterator[tuple[str, Schema, _Scope]]:
    """Iterate over the schemas directly inside one, each with its path suffix and what applies there."""
    below = msgspec.structs.replace(scope, root=False)
    more, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(more, dict):
        barred = "inside additionalProperties applying to object metadata"
        yield ".additionalProperties", more, _Scope(barred, in_metadata=True) if scope.in_metadata else below
    for name, field in schema.get("properties", {}).items():
        inner = below
        if name in _META_FIELDS and (scope.root or schema.get("x-kubernetes-embedded-resource")):
            inner = _Scope(f"in top-level {name}" if scope.root else scope.no_default, in_metadata=True)
        yield f".properties[{name}]", field, inner
    for suffix, part in compositions(schema):
        yield suffix, part, below
    for suffix, part in [("", items)] if isinstance(items, dict) else _numbered(items):
        yield f".items{suffix}", part, below


def _numbered(items: Any) -> list[tuple[str, Schema]]:
    return [(f"[{index}]", item) for index, item in enumerate(items)] if isinstance(items, list) else []


def _supported(schema: Schema, path: str, scope: _Scope, demands: Demands) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    if demands.known_types and kind and kind not in TYPES:
        yield not_supported(f"{path}.type", kind, TYPES)
    if schema.get("default") is not None and scope.no_default is not None:
        yield forbidden(f"{path}.default", f"must not be set {scope.no_default}".strip())
    for names, even_empty in ((_UNSUPPORTED, False), (_UNSUPPORTED_EVEN_EMPTY, True)):
        for name in names:
            if schema.get(name) or (even_empty and schema.get(name) is not None):
                yield forbidden(f"{path}.{name}", f"{name} is not supported")
    if kind == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list) and schema["items"]:
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if scope.in_metadata and schema.get("x-kubernetes-embedded-resource"):
        yield forbidden(f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta")
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", text)


def _patterns(schema: Schema, path: str) -> Iterator[FieldError]:
    """Complain about regular expressions that do not compile."""

    def broken(part: Schema) -> bool:
        return bool(problem(part.get("pattern") or ""))

    if any_schema(schema, broken):
        text = "error building validator: a pattern is not a valid regular expression"
        yield FieldError(ErrorType.INVALID, path.removesuffix(".openAPIV3Schema"), text, "")
