"""Field tables of the built-in kinds: reading a body into canonical form, unknown fields, and linked schemas.

Reading a body does what decoding into typed fields and encoding again would do: unknown fields and nulls go,
zero values of optional fields go, fields that are always written appear, quantities and times get their one spelling.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import functools
from collections.abc import Callable
from typing import Any

import msgspec

from schemas.api.field_types import kubernetes_types
from services.apiserver.kinds.checks import quantities as quantity

Schema = dict[str, Any]
Object = dict[str, Any]

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_INT_LIMITS = {"i": 1 << 31, "l": 1 << 63}


class ShapeError(ValueError):
    """A value does not have the JSON type of its field; `path` is the place, `wanted` the expected type."""

    def __init__(self, path: list[str], wanted: str, value: Any, detail: str = "") -> None:
        self.path, self.wanted, self.value, self.detail = path, wanted, value, detail
        shown = msgspec.json.encode(value).decode()
        super().__init__(f"{_join(path)}: {detail or f'expected {wanted}, found {shown[:80]}'}")


class Field:
    """One field: its type code (see `kubernetes_types`), and when it is written although it is empty."""

    __slots__ = ("code", "element", "go_name", "keep", "marks", "name", "pointer", "ref", "required")

    def __init__(self, name: str, code: str, flags: str = "", go_name: str = "", marks: Schema | None = None) -> None:
        self.name = name
        self.code = code[0]
        self.element = Field(name, code[2:], "k") if code[0] in "[{" else None
        self.ref = code[1:] if code[0] == "@" else ""
        self.pointer = "p" in flags
        self.keep = "k" in flags
        self.required = "r" in flags
        self.go_name = go_name or name[:1].upper() + name[1:]
        self.marks = marks or {}


class Definition:
    """The fields of one type, and which of them are written even when a body does not have them."""

    __slots__ = ("always", "fields", "kinds", "name")

    def __init__(self, name: str, raw: dict[str, Any]) -> None:
        self.name = name
        self.fields = {row[0]: Field(*row) for row in raw["f"]}
        self.kinds = [tuple(item) for item in raw.get("g", ())]
        self.always = [f for f in self.fields.values() if not f.pointer and (f.keep or f.code in "@tmqxo")]


@functools.cache
def definition(name: str) -> Definition:
    """Return the definition of that OpenAPI name; one that is not in the table has no fields."""
    raw = kubernetes_types().get(name)
    return Definition(name, msgspec.json.decode(raw) if raw else {"f": []})


def is_known(name: str) -> bool:
    """Return whether the table has fields for that OpenAPI name."""
    return name in kubernetes_types()


# Reading a body.


def normalise(name: str, obj: Any, path: list[str] | None = None) -> None:
    """Bring an object of that definition into canonical form, in place; raises ShapeError."""
    _struct(definition(name), obj, path or [])


def _struct(shape: Definition, obj: Any, path: list[str]) -> None:
    if type(obj) is not dict:
        raise ShapeError(path, "an object", obj)
    fields = shape.fields
    for key in list(obj):
        field = fields.get(key)
        value = obj[key]
        if field is None or value is None:
            del obj[key]
            continue
        code = field.code
        if code == "s" and type(value) is str and value:
            continue  # most values are texts, and such a one is canonical as it is
        path.append(key)
        value = _READ[code](field, value, path)
        path.pop()
        if value or code not in "sbildy[{" or (field.pointer and code not in "[{"):
            obj[key] = value
        elif field.keep:
            # An empty list or map that is always written reads back from the store as null.
            obj[key] = None if code in "[{" else value
        else:
            del obj[key]
    for field in shape.always:
        if field.name not in obj:
            obj[field.name] = _zero(field)


def _zero(field: Field) -> Any:
    if field.code == "@":
        value: Object = {}
        for inner in definition(field.ref).always:
            value[inner.name] = _zero(inner)
        return value
    return {"s": "", "i": 0, "l": 0, "d": 0, "b": False, "q": "0", "x": 0}.get(field.code)


def _string(_: Field, value: Any, path: list[str]) -> str:
    if type(value) is not str:
        raise ShapeError(path, "a string", value)
    return value


def _bool(_: Field, value: Any, path: list[str]) -> bool:
    if type(value) is not bool:
        raise ShapeError(path, "true or false", value)
    return value


def _int(field: Field, value: Any, path: list[str]) -> int:
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int:
        raise ShapeError(path, "a whole number", value)
    limit = _INT_LIMITS[field.code]
    if not -limit <= value < limit:
        raise ShapeError(
            path, "a whole number", value, f"{value} does not fit into {32 if field.code == 'i' else 64} bits"
        )
    return value


def _float(_: Field, value: Any, path: list[str]) -> Any:
    if type(value) not in (int, float):
        raise ShapeError(path, "a number", value)
    return value


def _time(_: Field, value: Any, path: list[str]) -> str:
    if type(value) is not str:
        raise ShapeError(path, "a time", value)
    if len(value) == 20 and value[-1] == "Z":
        _instant(value, path)
        return value
    return _instant(value, path).strftime("%Y-%m-%dT%H:%M:%SZ")


def _instant(value: str, path: list[str]) -> datetime.datetime:
    try:
        found = datetime.datetime.fromisoformat(value)
        if found.tzinfo is None:
            raise ValueError
    except ValueError:
        raise ShapeError(path, "a time such as 2006-01-02T15:04:05Z", value) from None
    return found.astimezone(datetime.UTC)


def _micro_time(_: Field, value: Any, path: list[str]) -> str:
    if type(value) is not str:
        raise ShapeError(path, "a time", value)
    if len(value) < 27 or value[19] != "." or not value[20:26].isdigit():
        raise ShapeError(path, "a time such as 2006-01-02T15:04:05.000000Z", value)
    return _instant(value, path).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _bytes(_: Field, value: Any, path: list[str]) -> str:
    if type(value) is not str:
        raise ShapeError(path, "a base64 string", value)
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        stripped = value.replace("\n", "").replace("\r", "")
        try:
            base64.b64decode(stripped, validate=True)
        except (binascii.Error, ValueError):
            raise ShapeError(path, "a base64 string", value) from None
        return stripped
    return value


def _quantity(_: Field, value: Any, path: list[str]) -> str:
    if type(value) not in (str, int, float):
        raise ShapeError(path, "a quantity", value)
    try:
        return quantity.canonical(value if type(value) is str else str(value))
    except ValueError as error:
        raise ShapeError(path, "a quantity", value, str(error)) from None


def _int_or_string(_: Field, value: Any, path: list[str]) -> int | str:
    if type(value) not in (str, int):
        raise ShapeError(path, "a whole number or a string", value)
    return value  # type: ignore[no-any-return]


def _any(_: Field, value: Any, path: list[str]) -> Any:  # noqa: ARG001
    return value


def _object(field: Field, value: Any, path: list[str]) -> Any:
    _struct(definition(field.ref), value, path)
    return value


def _nothing(element: Field) -> Any:
    """What a null among items is read as; bytes come back from the store as none at all, not as null."""
    return "" if element.code == "y" else _zero(element)


def _list(field: Field, value: Any, path: list[str]) -> Any:
    if type(value) is not list:
        raise ShapeError(path, "a list", value)
    element = field.element
    assert element is not None
    read = _READ[element.code]
    for index, item in enumerate(value):
        path.append(f"[{index}]")
        if item is None:
            value[index] = _nothing(element)
        else:
            value[index] = read(element, item, path)
        path.pop()
    return value


def _map(field: Field, value: Any, path: list[str]) -> Any:
    if type(value) is not dict:
        raise ShapeError(path, "an object", value)
    element = field.element
    assert element is not None
    if element.code == "s" and all(type(item) is str for item in value.values()):
        return value
    read = _READ[element.code]
    for key, item in value.items():
        path.append(key)
        value[key] = _nothing(element) if item is None else read(element, item, path)
        path.pop()
    return value


_READ: dict[str, Callable[[Field, Any, list[str]], Any]] = {
    "s": _string,
    "b": _bool,
    "i": _int,
    "l": _int,
    "d": _float,
    "t": _time,
    "m": _micro_time,
    "y": _bytes,
    "q": _quantity,
    "x": _int_or_string,
    "o": _any,
    "@": _object,
    "[": _list,
    "{": _map,
}


def read_scalar(field: Field, value: Any) -> Any:
    """Return the canonical form of one value; raises ShapeError."""
    return _READ[field.code](field, value, [field.name])


# Unknown fields.


def unknown_fields(name: str, obj: Any) -> list[str]:
    """Return the paths of the fields of an object that its definition does not know, in document order."""
    found: list[str] = []
    _unknown(Field("", "@" + name), obj, [], found)
    return found


def _unknown(field: Field, value: Any, path: list[str], found: list[str]) -> None:
    if field.code == "@" and type(value) is dict:
        fields = definition(field.ref).fields
        for key, item in value.items():
            inner = fields.get(key)
            if inner is None:
                found.append(_join([*path, key]))
            else:
                _unknown(inner, item, [*path, key], found)
    elif field.element is not None and field.element.code in "@[{":
        items = enumerate(value) if type(value) is list else value.items() if type(value) is dict else ()
        for key, item in items:
            _unknown(field.element, item, [*path, key if isinstance(key, str) else f"[{key}]"], found)


def _join(path: list[str]) -> str:
    return ".".join(path).replace(".[", "[")


# Linked schemas.

_SCALARS: dict[str, Schema] = {
    "s": {"type": "string"},
    "b": {"type": "boolean"},
    "i": {"type": "integer", "format": "int32"},
    "l": {"type": "integer", "format": "int64"},
    "d": {"type": "number", "format": "double"},
    "t": {"type": "string", "format": "date-time"},
    "m": {"type": "string", "format": "date-time"},
    "y": {"type": "string", "format": "byte"},
    "q": {"type": "string", "format": "quantity"},
    "x": {"x-kubernetes-int-or-string": True},
    "o": {"x-kubernetes-preserve-unknown-fields": True},
}
_linked: dict[str, Schema] = {}


def linked(name: str) -> Schema:
    """Return the schema of a definition with nested definitions in place (shared; cyclic where the types are).

    The result is shared by all callers and must not be changed.
    """
    if name not in _linked:
        schema: Schema = {"type": "object"}
        _linked[name] = schema
        shape = definition(name)
        schema["properties"] = {field.name: _property(field) for field in shape.fields.values()}
        if needed := sorted(field.name for field in shape.fields.values() if field.required):
            schema["required"] = needed
    return _linked[name]


def _property(field: Field) -> Schema:
    if field.code == "@":
        schema = linked(field.ref)
        return {**schema, **field.marks} if field.marks else schema
    if field.element is not None:
        inner = "items" if field.code == "[" else "additionalProperties"
        return {"type": "array" if field.code == "[" else "object", inner: _property(field.element), **field.marks}
    return {**_SCALARS[field.code], **field.marks} if field.marks else _SCALARS[field.code]


def empty(name: str, field: str) -> Any:
    """Return what a field holds when a body does not have it; None when it is left out."""
    found = definition(name).fields.get(field)
    return None if found is None or found not in definition(name).always else _zero(found)


def drop_unknown(name: str, obj: Any) -> None:
    """Remove the fields that a definition does not know, in place; values of a wrong type are left alone."""
    _drop(Field("", "@" + name), obj)


def _drop(field: Field, value: Any) -> None:
    if field.code == "@" and type(value) is dict:
        fields = definition(field.ref).fields
        for key in list(value):
            inner = fields.get(key)
            if inner is None:
                del value[key]
            elif inner.code in "@[{":
                _drop(inner, value[key])
    elif field.element is not None and field.element.code in "@[{":
        for item in value if type(value) is list else value.values() if type(value) is dict else ():
            _drop(field.element, item)
