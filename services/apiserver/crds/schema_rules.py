"""Checks the OpenAPI schema of a CustomResourceDefinition version: what is supported, list and map types, defaults."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from services._rules.kubernetes.patch.go_text import go_syntax
from services._rules.kubernetes.patch.json_patch import same_json
from services._rules.kubernetes.patterns import problem
from services._rules.kubernetes.validation.field_errors import (
    ErrorType,
    FieldError,
    Raw,
    forbidden,
    invalid,
    not_supported,
    required,
)
from services.apiserver.crds.rule_checks import check_rules
from services.apiserver.crds.rules import RULES
from services.apiserver.crds.shape import compile_prune
from services.apiserver.crds.structural import any_schema, check_structural, children, compositions
from services.apiserver.crds.validate import NO_FIELD, compile_validate

Schema = dict[str, Any]

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
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
}


class Rules(msgspec.Struct, frozen=True):
    """What applies at one place of the schema: why defaults are refused there, and whether it is object metadata."""

    no_default: str | None = None
    in_metadata: bool = False


def check_schema(schema: Schema, path: str, *, status: bool, structural: bool, defaults: bool) -> list[FieldError]:
    """Return what is wrong with the schema of one version.

    `status`: the version has the status subresource; `structural`: the schema must be structural; `defaults`: the API
    version of the definition allows them.
    """
    found: list[FieldError] = []
    if status:
        found += _root_with_status(schema, path)
    if schema.get("nullable"):
        found.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    found += _check(schema, path, Rules(None if defaults else ""), root=True)
    if structural:
        more = check_structural(schema, path)
        found += more or list(_defaults(schema, path, root=True))
    if not found and structural:
        found += check_rules(schema, path)
    if not found:
        found += _patterns(schema, path)
    return found


def _root_with_status(schema: Schema, path: str) -> Iterator[FieldError]:
    tail = "if the status subresource is enabled"
    for name, value in schema.items():
        if name == "type":
            if value != "object":
                text = f'only "object" is allowed as the type at the root of the schema {tail}'
                yield invalid(f"{path}.type", value, text)
                return
        elif name not in _ROOT_WITH_STATUS and name != RULES and value not in (None, [], {}, "", False):
            text = f"only [{' '.join(_ROOT_WITH_STATUS.values())}] fields are allowed at the root of the schema {tail}"
            yield invalid(path, Raw(go_syntax(schema)), text)
            return


def _check(schema: Schema, path: str, rules: Rules, *, root: bool = False) -> Iterator[FieldError]:
    yield from _supported(schema, path, rules)
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", text)
    more = schema.get("additionalProperties")
    if more is not None:
        if schema.get("properties") and more is not True:
            yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
        if isinstance(more, dict):
            inner = rules
            if rules.in_metadata:
                inner = Rules("inside additionalProperties applying to object metadata", in_metadata=True)
            yield from _check(more, f"{path}.additionalProperties", inner)
    for name, field in schema.get("properties", {}).items():
        inner = rules
        if name in _META_FIELDS and (root or schema.get("x-kubernetes-embedded-resource")):
            inner = Rules(f"in top-level {name}" if root else rules.no_default, in_metadata=True)
        yield from _check(field, f"{path}.properties[{name}]", inner)
    for suffix, part in compositions(schema):
        where = suffix[1:].partition("[")[0]
        yield from _check(part, path + suffix, Rules(f"inside {where}", in_metadata=rules.in_metadata))
    if isinstance(schema.get("items"), dict):
        yield from _check(schema["items"], f"{path}.items", rules)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    yield from _map_type(schema, path)
    yield from _list_type(schema, path)


def _supported(schema: Schema, path: str, rules: Rules) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if "default" in schema and rules.no_default is not None:
        yield forbidden(f"{path}.default", f"must not be set {rules.no_default}".strip())
    for name in _UNSUPPORTED:
        if schema.get(name):
            yield forbidden(f"{path}.{name}", f"{name} is not supported")
    if kind == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if rules.in_metadata and schema.get("x-kubernetes-embedded-resource"):
        yield forbidden(f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta")


def _map_type(schema: Schema, path: str) -> Iterator[FieldError]:
    map_type, kind = schema.get("x-kubernetes-map-type"), schema.get("type", "")
    if map_type is None:
        return
    if kind != "object":
        text = "must be object if x-kubernetes-map-type is specified"
        yield invalid(f"{path}.type", kind, text) if kind else required(f"{path}.type", text)
    if map_type not in ("atomic", "granular"):
        yield not_supported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular"))


def _list_type(schema: Schema, path: str) -> Iterator[FieldError]:
    list_type, kind, keys = schema.get("x-kubernetes-list-type"), schema.get("type", ""), _keys(schema)
    here = f"{path}.x-kubernetes-list-type"
    items = schema.get("items") if isinstance(schema.get("items"), dict) else None
    if list_type is not None and kind != "array":
        text = "must be array if x-kubernetes-list-type is specified"
        yield invalid(f"{path}.type", kind, text) if kind else required(f"{path}.type", text)
    elif list_type == "set" and items is not None:
        yield from _set_items(items, f"{path}.items")
    if list_type is not None and list_type not in ("atomic", "set", "map"):
        yield not_supported(here, list_type, ("atomic", "set", "map"))
    if keys and list_type != "map":
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield required(here, text) if list_type is None else invalid(here, list_type, text)
    if list_type == "map":
        yield from _map_list(schema, items, keys, path)
    if list_type in ("set", "map") and items is not None and items.get("nullable"):
        yield forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}")


def _keys(schema: Schema) -> list[str]:
    return list(schema.get("x-kubernetes-list-map-keys") or ())


def _set_items(items: Schema, path: str) -> Iterator[FieldError]:
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    list_type, map_type = items.get("x-kubernetes-list-type"), items.get("x-kubernetes-map-type")
    if items.get("type") == "array" and list_type not in (None, "atomic"):
        yield invalid(f"{path}.x-kubernetes-list-type", list_type, text)
    if items.get("type") == "object" and map_type != "atomic":
        yield invalid(f"{path}.x-kubernetes-map-type", map_type, text)


def _map_list(schema: Schema, items: Schema | None, keys: list[str], path: str) -> Iterator[FieldError]:
    here = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        yield required(here, "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        if schema.get("items") is None:
            yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
        return
    if items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), text)
        return
    fields = items.get("properties", {})
    needed = items.get("required") or ()
    shown = Raw("[]string{" + ", ".join(f'"{key}"' for key in keys) + "}")
    for index, key in enumerate(keys):
        field, where = fields.get(key), f"{path}.items.properties[{key}]"
        if field is None:
            yield invalid(here, shown, "entries must all be names of item properties")
        elif field.get("type") in ("array", "object"):
            text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{where}.type", items.get("type"), text)
        if key in keys[:index]:
            yield invalid(here, shown, "must not contain duplicate entries")
        if field is not None and key not in needed and "default" not in field:
            text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            yield required(f"{where}.default", text)
        if field is not None and field.get("nullable"):
            text = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            yield forbidden(f"{where}.nullable", text)


def _defaults(schema: Schema, path: str, *, root: bool = False) -> Iterator[FieldError]:
    if "default" in schema and not root:
        value, here = schema["default"], f"{path}.default"
        prune = compile_prune(schema)
        if prune is not None and not same_json(prune(value), value):
            yield invalid(here, Raw(go_syntax(value)), "must not have unknown fields")
        else:
            for error in compile_validate(schema)(value):
                field = here if error.field == NO_FIELD else f"{here}.{error.field}"
                yield FieldError(error.type, field, error.detail, error.bad_value)
    for suffix, child in children(schema):
        yield from _defaults(child, path + suffix)


def _patterns(schema: Schema, path: str) -> Iterator[FieldError]:
    """Complain about regular expressions that do not compile."""

    def broken(part: Schema) -> bool:
        return bool(problem(part.get("pattern") or ""))

    if any_schema(schema, broken):
        text = "error building validator: a pattern is not a valid regular expression"
        yield FieldError(ErrorType.INVALID, path.removesuffix(".openAPIV3Schema"), text, "")
