"""Schemas of OpenAPI documents: from the field tables for built-in kinds, from their own schema for custom kinds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schemas.api.descriptions import kubernetes_description
from services.apiserver.kinds.decoding import field_tables as schemas
from services.apiserver.kinds.kind_model import Kind, Resource

Schema = dict[str, Any]

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
TIME, MICRO_TIME = META + "Time", META + "MicroTime"
ALWAYS = tuple(META + name for name in ("DeleteOptions", "Status", "ObjectMeta", "ListMeta", "Patch"))
SPECIAL: dict[str, Schema] = {
    QUANTITY: {"type": "string"},
    INT_OR_STRING: {"type": "string", "format": "int-or-string"},
    TIME: {"type": "string", "format": "date-time"},
    MICRO_TIME: {"type": "string", "format": "date-time"},
    META + "Patch": {"type": "object"},
}
_SCALARS: dict[str, Schema] = {
    "s": {"type": "string"},
    "b": {"type": "boolean"},
    "i": {"type": "integer", "format": "int32"},
    "l": {"type": "integer", "format": "int64"},
    "d": {"type": "number", "format": "double"},
    "y": {"type": "string", "format": "byte"},
    "o": {"type": "object"},
}
_REFS = {"q": QUANTITY, "x": INT_OR_STRING, "t": TIME, "m": MICRO_TIME}
_V2_KEYS = (
    "format",
    "title",
    "description",
    "default",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxProperties",
    "minProperties",
    "enum",
    "required",
)


def custom_name(resource: Resource) -> str:
    """Return the definition name of a custom kind: its group backwards, version, kind."""
    return ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])


def name_of(kind: Kind) -> str:
    """Return the definition name of any kind."""
    return kind.schema_name or custom_name(kind.resource)


class Definitions:
    """The definitions that a set of kinds needs; `root` is where references point."""

    def __init__(self, root: str, *, version: int) -> None:
        self._root = root
        self._version = version
        self.schemas: dict[str, Schema] = {}

    def add_all(self, kinds: Iterable[Kind]) -> None:
        """Add all kinds, their lists, and what every document has."""
        for name in ALWAYS:
            self._builtin(name)
        for kind in kinds:
            self.add(kind)

    def add(self, kind: Kind) -> None:
        """Add a kind and its list."""
        name, resource = name_of(kind), kind.resource
        if kind.schema_name:
            self._builtin(name)
            for item in resource.subresources:
                if item.kind and item.group is not None:
                    self._builtin(f"io.k8s.api.{item.group.partition('.')[0]}.{item.version}.{item.kind}")
        else:
            self.schemas[name] = self._custom(kind)
            self._builtin(META + "ObjectMeta")
        if "list" in resource.verbs:
            self._list(kind, name)

    def _list(self, kind: Kind, name: str) -> None:
        resource = kind.resource
        list_kind = resource.list_kind or f"{resource.kind}List"
        list_name = name.rpartition(".")[0] + "." + list_kind
        if kind.schema_name and schemas.is_known(list_name):
            self._builtin(list_name)
            return
        self._builtin(META + "ListMeta")
        self.schemas[list_name] = {
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": self._ref(META + "ListMeta"),
                "items": {"type": "array", "items": self._ref(name)},
            },
            "x-kubernetes-group-version-kind": [_gvk(resource.group, resource.version, list_kind)],
        }

    def _ref(self, name: str) -> Schema:
        return {"$ref": f"{self._root}{name}"}

    def _builtin(self, name: str) -> None:
        if name in self.schemas:
            return
        if name in SPECIAL:
            self.schemas[name] = SPECIAL[name]
            return
        shape = schemas.definition(name)
        schema: Schema = {"type": "object"}
        self.schemas[name] = schema
        if text := kubernetes_description(name):
            schema["description"] = text
        if needed := sorted(field.name for field in shape.fields.values() if field.required):
            schema["required"] = needed
        schema["properties"] = {
            field: self._described(self._field(shape.fields[field]), kubernetes_description(name, field))
            for field in sorted(shape.fields)
        }
        if shape.kinds:
            schema["x-kubernetes-group-version-kind"] = [_gvk(*item) for item in shape.kinds]

    def _field(self, field: schemas.Field) -> Schema:
        if field.code == "@":
            self._builtin(field.ref)
            found = self._ref(field.ref)
        elif field.code in _REFS:
            self._builtin(_REFS[field.code])
            found = self._ref(_REFS[field.code])
        elif field.element is not None:
            inner = "items" if field.code == "[" else "additionalProperties"
            found = {"type": "array" if field.code == "[" else "object", inner: self._field(field.element)}
        else:
            found = _SCALARS[field.code]
        return {**found, **field.marks} if field.marks else found

    def _described(self, schema: Schema, text: str) -> Schema:
        """A schema with a description, which OpenAPI v3 does not allow beside a reference."""
        if not text:
            return schema
        if self._version == 3 and "$ref" in schema:
            more = {name: value for name, value in schema.items() if name != "$ref"}
            return {"description": text, "allOf": [{"$ref": schema["$ref"]}], **more}
        return {"description": text, **schema}

    def _custom(self, kind: Kind) -> Schema:
        resource = kind.resource
        given = kind.schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        schema = dict(given) if self._version == 3 else _to_v2(given)
        schema.setdefault("type", "object")
        if self._version == 3 or not given.get("x-kubernetes-preserve-unknown-fields"):
            schema["properties"] = {
                **schema.get("properties", {}),
                **{name: self._described({"type": "string"}, _said(given, name)) for name in ("apiVersion", "kind")},
                "metadata": self._described(self._ref(META + "ObjectMeta"), _said(given, "metadata")),
            }
        schema["x-kubernetes-group-version-kind"] = [_gvk(resource.group, resource.version, resource.kind)]
        return schema


def _said(schema: Schema, field: str) -> str:
    """What a custom kind says of a field that every object has, or what is true of it in all of them."""
    given = (schema.get("properties") or {}).get(field) or {}
    return str(given.get("description") or kubernetes_description("", field))


def _gvk(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "kind": kind, "version": version}


def _to_v2(schema: Schema) -> Schema:
    """Return the part of a custom kind's schema that OpenAPI v2 can express, without what old clients would reject."""
    if schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-int-or-string"):
        return {key: value for key, value in schema.items() if key.startswith("x-kubernetes-") or key == "description"}
    if schema.get("nullable"):
        # Old clients refuse null for a typed field, so a nullable field has to be untyped for them.
        return {key: schema[key] for key in ("description",) if key in schema}
    result = {key: schema[key] for key in _V2_KEYS if key in schema}
    result |= {
        key: value
        for key, value in schema.items()
        if key.startswith("x-kubernetes-") and key != "x-kubernetes-validations"
    }
    if "type" in schema:
        result["type"] = schema["type"]
    if "properties" in schema:
        result["properties"] = {key: _to_v2(value) for key, value in schema["properties"].items()}
    if isinstance(schema.get("items"), dict):
        result["items"] = _to_v2(schema["items"])
    elif schema.get("type") == "array":
        result["items"] = {}
    if isinstance(schema.get("additionalProperties"), dict):
        result["additionalProperties"] = _to_v2(schema["additionalProperties"])
    return result
