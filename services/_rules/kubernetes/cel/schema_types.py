"""What expressions see of values that a schema describes: declared types, the largest sizes, and the values themselves.

Objects are declared to the checker as messages, field by field; values stay plain JSON but for what CEL has types of
its own: times, durations, bytes, numbers with a fraction, and fields whose names are no identifiers.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from services._rules.kubernetes.cel.functions import OPAQUE_TYPES
from services._rules.kubernetes.cel.value_sizes import Shape

Schema = Mapping[str, Any]
Convert = Callable[[Any], Any]

LARGEST_REQUEST: Final = 3 * 1024 * 1024
_KEYWORDS: Final = frozenset(
    ["true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import"]
) | frozenset(["let", "loop", "package", "namespace", "return", "var", "void", "while"])
_NAME: Final = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*", re.ASCII)
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_SPECIAL: Final = re.compile(r"__|[./-]")
_META: Final[Schema] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
}
_ROOT_FIELDS: Final[dict[str, Schema]] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": _META,
}
_SCALARS: Final = {"boolean": "bool", "integer": "int", "number": "double", "string": "string"}
_STRING_FORMATS: Final = {
    "byte": "bytes",
    "date": "timestamp",
    "date-time": "timestamp",
    "duration": "duration",
}
_SMALLEST: Final = {"bool": 4, "int": 1, "double": 1, "string": 2, "bytes": 2}
_FORMATS: Final = {"date": (12, 12), "date-time": (21, 32), "duration": (3, 32)}
"""Bytes of the shortest value of a format and characters of the longest, whatever maxLength says."""
_MOST_BYTES: Final = 4
"""Bytes of a character: lengths of strings are counted in bytes."""
_NUMBER: Final = Shape(0)


def escaped(name: str) -> str | None:
    """Return a field's name as expressions write it; None for one that they cannot name."""
    if name in _KEYWORDS:
        return f"__{name}__"
    if not _NAME.fullmatch(name):
        return None
    return _SPECIAL.sub(lambda match: _ESCAPES[match.group()], name)


class Type(msgspec.Struct):
    """The declared type of a schema."""

    name: str
    """As the checker's tables write it: int, list(k8s.M1), dyn."""
    smallest: int
    """Bytes that the smallest value takes in a request."""
    shape: Shape
    convert: Convert | None = None
    """Makes of JSON what expressions see; None where that is the same."""


def with_object_fields(schema: Schema) -> Schema:
    """Return the schema of a resource with what expressions may use of every object."""
    return {**schema, "type": "object", "properties": {**schema.get("properties", {}), **_ROOT_FIELDS}}


class Types:
    """The declared types of one schema; `pool` has the messages once all wanted types were asked for."""

    def __init__(self) -> None:
        self._messages: list[tuple[str, list[tuple[str, Type]]]] = []
        self._numbers = itertools.count()
        self._known: dict[int, tuple[Schema, Type | None]] = {}

    def of(self, schema: Schema, *, resource: bool = False) -> Type | None:
        """Return the type of a schema, None for one without a type; of one object the same each time."""
        known = self._known.get(id(schema))
        if known is None:
            # The schema is kept with its type, so that no other gets its identity.
            known = self._known[id(schema)] = (schema, self._make(schema, resource))
        return known[1]

    def _make(self, schema: Schema, resource: bool) -> Type | None:
        if schema.get("x-kubernetes-int-or-string"):
            return Type("dyn", 1, Shape(_bound(schema, _MOST_BYTES), text=True))
        if resource or schema.get("x-kubernetes-embedded-resource"):
            schema = with_object_fields(schema)
        match schema.get("type"):
            case "object":
                more = schema.get("additionalProperties")
                return self._map(schema, more) if isinstance(more, dict) else self._object(schema)
            case "array":
                return self._list(schema)
            case "string":
                return _string(schema)
            case str() as name if name in _SCALARS:
                kind = _SCALARS[name]
                return Type(kind, _SMALLEST[kind], _NUMBER, float if kind == "double" else None)
            case _:
                return None

    def _list(self, schema: Schema) -> Type | None:
        inner = self.of(schema["items"]) if isinstance(schema.get("items"), dict) else None
        if inner is None:
            return None
        size = _limit(schema, "maxItems")
        if size is None:
            size = (LARGEST_REQUEST - 2) // (inner.smallest + 1)
        convert = inner.convert
        shape = Shape(size, items=inner.shape)
        return Type(f"list({inner.name})", 2, shape, None if convert is None else _each(convert))

    def _map(self, schema: Schema, more: Schema) -> Type | None:
        inner = self.of(more)
        if inner is None:
            return None
        size = _limit(schema, "maxProperties")
        if size is None:
            # A key of two bytes, two quotes, a colon and a comma beside the value.
            size = (LARGEST_REQUEST - 2) // (inner.smallest + 6)
        convert = inner.convert
        shape = Shape(size, items=inner.shape, keys=_KEY)
        return Type(f"map(string, {inner.name})", 2, shape, None if convert is None else _each_value(convert))

    def _object(self, schema: Schema) -> Type:
        required, smallest = schema.get("required") or (), 2
        fields: list[tuple[str, Type]] = []
        changes: dict[str, tuple[str, Convert | None]] = {}
        for name, field in schema.get("properties", {}).items():
            shown, found = escaped(name), self.of(field)
            if found is None:
                continue
            if name in required and "default" not in field:
                smallest += found.smallest + len(name) + 4
            if shown is None:
                continue
            fields.append((shown, found))
            if found.convert is not None or shown != name:
                changes[name] = (shown, found.convert)
        message = f"k8s.M{next(self._numbers)}"
        self._messages.append((message, fields))
        shape = Shape(0, fields={name: found.shape for name, found in fields})
        return Type(message, smallest, shape, _fields(changes) if changes else None)

    def pool(self) -> Any:
        """Return the messages of all types made so far."""
        from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, struct_pb2, timestamp_pb2

        pool = descriptor_pool.DescriptorPool()
        standard = (struct_pb2, timestamp_pb2, duration_pb2)
        for module in standard:
            pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
        for package, names in itertools.groupby(sorted(OPAQUE_TYPES), lambda name: name.rpartition(".")[0]):
            file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto2")
            for name in names:
                file.message_type.add(name=name.rpartition(".")[2])
            pool.AddSerializedFile(file.SerializeToString())
        file = descriptor_pb2.FileDescriptorProto(
            name="k8s.proto",
            package="k8s",
            syntax="proto2",
            dependency=[module.DESCRIPTOR.name for module in standard],
        )
        for name, fields in self._messages:
            _add_message(file.message_type.add(name=name.removeprefix("k8s.")), fields)
        pool.AddSerializedFile(file.SerializeToString())
        return pool


_FIELD_TYPES: Final = {"double": 1, "int": 3, "bool": 8, "string": 9, "bytes": 12}
_FIELD_MESSAGES: Final = {
    "timestamp": ".google.protobuf.Timestamp",
    "duration": ".google.protobuf.Duration",
    "dyn": ".google.protobuf.Value",
}
_MESSAGE: Final = 11
_REPEATED: Final = 3


def _add_message(message: Any, fields: list[tuple[str, Type]]) -> None:
    entries: set[str] = set()
    # Names that differ in underscores and capitals only are no conflict here.
    message.options.deprecated_legacy_json_field_conflicts = True
    for number, (name, kind) in enumerate(fields, 1):
        given = kind.name
        # Fields from 19,000 to 19,999 are reserved.
        field = message.field.add(name=name, number=number + 20_000, label=1, json_name=f"f{number}")
        if given.startswith("list("):
            field.label, given = _REPEATED, given[5:-1]
        elif given.startswith("map("):
            entry = "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"
            if entry in entries or not _plain(given[12:-1]):
                given = "dyn"
            else:
                entries.add(entry)
                nested = message.nested_type.add(name=entry)
                nested.options.map_entry = True
                nested.field.add(name="key", number=1, type=_FIELD_TYPES["string"], label=1)
                _set_type(nested.field.add(name="value", number=2, label=1), given[12:-1])
                field.label, field.type = _REPEATED, _MESSAGE
                field.type_name = f".k8s.{message.name}.{entry}"
                continue
        _set_type(field, given if _plain(given) else "dyn")


def _plain(name: str) -> bool:
    """Return whether a message can hold the type as one field: lists of lists and maps of lists are not declared."""
    return not name.startswith(("list(", "map("))


def _set_type(field: Any, name: str) -> None:
    if name in _FIELD_TYPES:
        field.type = _FIELD_TYPES[name]
    else:
        field.type, field.type_name = _MESSAGE, _FIELD_MESSAGES.get(name, f".{name}")


_KEY: Final = Shape(LARGEST_REQUEST - 2, text=True)


def _limit(schema: Schema, name: str) -> int | None:
    given = schema.get(name)
    return None if given is None else max(0, given)


def _bound(schema: Schema, times: int) -> int:
    longest = _limit(schema, "maxLength")
    return LARGEST_REQUEST - 2 if longest is None else longest * times


def _string(schema: Schema) -> Type:
    form = schema.get("format", "")
    kind = _STRING_FORMATS.get(form, "string")
    if form in _FORMATS:
        smallest, longest = _FORMATS[form]
        return Type(kind, smallest, Shape(longest, text=True), _CONVERSIONS.get(form))
    size = _bound(schema, 1 if kind == "bytes" else _MOST_BYTES)
    if kind == "string" and "maxLength" not in schema and schema.get("enum"):
        size = max(len(item.encode()) if isinstance(item, str) else 0 for item in schema["enum"])
    return Type(kind, _SMALLEST[kind], Shape(size, text=True), _CONVERSIONS.get(form))


def _bytes(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else value
    except (binascii.Error, ValueError):
        return value


_UNITS: Final = {"h": 3_600e9, "m": 60e9, "s": 1e9, "ms": 1e6, "us": 1e3, "µs": 1e3, "μs": 1e3, "ns": 1.0}
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)


def _duration(value: Any) -> Any:
    from google.protobuf import duration_pb2

    if not isinstance(value, str):
        return value
    text, sign = value.lstrip("+-"), -1 if value.startswith("-") else 1
    parts = _PART.findall(text)
    if text != "0" and "".join(number + unit for number, unit in parts) != text:
        return value
    nanos = sign * int(sum(float(number) * _UNITS[unit] for number, unit in parts))
    found = duration_pb2.Duration()
    try:
        found.FromNanoseconds(nanos)
    except ValueError:
        return value
    return found


def _time(value: Any) -> Any:
    from google.protobuf import timestamp_pb2

    if not isinstance(value, str):
        return value
    found = timestamp_pb2.Timestamp()
    try:
        found.FromJsonString(value if "T" in value.upper() else f"{value}T00:00:00Z")
    except (ValueError, AttributeError):
        return value
    return found


_CONVERSIONS: Final[dict[str, Convert]] = {"byte": _bytes, "date": _time, "date-time": _time, "duration": _duration}


def _each(convert: Convert) -> Convert:
    return lambda value: [_safe(convert, item) for item in value] if isinstance(value, list) else value


def _each_value(convert: Convert) -> Convert:
    def change(value: Any) -> Any:
        return {name: _safe(convert, item) for name, item in value.items()} if isinstance(value, dict) else value

    return change


def _fields(changes: dict[str, tuple[str, Convert | None]]) -> Convert:
    def change(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        found: dict[str, Any] = {}
        for name, item in value.items():
            shown, convert = changes.get(name, (name, None))
            found[shown] = item if convert is None else _safe(convert, item)
        return found

    return change


def _safe(convert: Convert, value: Any) -> Any:
    """Convert a value of the expected kind; null and values of other types stay what they are."""
    if value is None or (convert is float and (isinstance(value, bool) or not isinstance(value, int))):
        return value
    return convert(value)


def seen(kind: Type, value: Any) -> Any:
    """Return a value as expressions see it."""
    return value if kind.convert is None else _safe(kind.convert, value)
