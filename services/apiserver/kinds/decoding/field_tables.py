"""Field tables of the built-in kinds: reading a body into canonical form, unknown fields, and linked schemas.

Reading a body does what decoding into typed fields and encoding again would do: unknown fields and nulls go,
zero values of optional fields go, fields that are always written appear, quantities and times get their one spelling.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import decimal
import functools
import re
from collections.abc import Callable
from typing import Any

import msgspec

from schemas.api.field_types import UNTOLD, kubernetes_types
from services._rules.kubernetes.quantity import Quantity, QuantityError, parse

Schema = dict[str, Any]
Object = dict[str, Any]

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_INT_LIMITS = {"i": 1 << 31, "l": 1 << 63}
_LARGEST_EXACT = 1 << 53
"""Whole numbers up to this are floats without loss."""


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

    @property
    def always(self) -> bool:
        """Whether the field is written when a body does not have it: an optional one that points to nothing as null."""
        return self.keep and not self.required if self.pointer else self.keep or self.code in "@tmqxo"


class Definition:
    """The fields of one type, and which of them are written even when a body does not have them."""

    __slots__ = ("always", "fields", "kinds", "name")

    def __init__(self, name: str, raw: dict[str, Any]) -> None:
        self.name = name
        self.fields = {row[0]: Field(*row) for row in raw["f"]}
        self.kinds = [tuple(item) for item in raw.get("g", ())]
        self.always = [field for field in self.fields.values() if field.always]


@functools.cache
def definition(name: str) -> Definition:
    """Return the definition of that OpenAPI name; one that is not in the table has no fields."""
    raw = kubernetes_types().get(name)
    table = msgspec.json.decode(raw) if raw else {"f": []}
    known = {row[0]: row for row in table["f"]}
    for field, code in UNTOLD.get(name, {}).items():
        known[field] = [field, code, *(known.get(field, [])[2:] or ["p"])]
    return Definition(name, {**table, "f": list(known.values())})


def is_known(name: str) -> bool:
    """Return whether the table has fields for that OpenAPI name."""
    return name in kubernetes_types() or name in UNTOLD


# Reading a body.


class _Place(list[str]):
    """The way from an object to where its reading is, and the paths of the unknown fields on it so far."""

    __slots__ = ("unknown",)

    def __init__(self, path: list[str]) -> None:
        super().__init__(path)
        self.unknown: list[str] = []


Read = Callable[[Field, Any, _Place], Any]


def normalise(name: str, obj: Any, path: list[str] | None = None) -> list[str]:
    """Bring an object of that definition into canonical form, in place, and return the paths of what it drops.

    These are the fields that the definition does not know, in document order. Raises ShapeError.
    """
    place = _Place(path or [])
    _struct(definition(name), obj, place)
    return place.unknown


def _struct(shape: Definition, obj: Any, path: _Place) -> None:
    if type(obj) is not dict:
        raise ShapeError(path, "an object", obj)
    fields = shape.fields
    for key in list(obj):
        field = fields.get(key)
        value = obj[key]
        if field is None or value is None:
            del obj[key]
            if field is None:
                path.unknown.append(_join([*path, key]))
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
    if field.pointer:
        return None
    if field.code == "@":
        value: Object = {}
        for inner in definition(field.ref).always:
            value[inner.name] = _zero(inner)
        return value
    return {"s": "", "i": 0, "l": 0, "d": 0, "b": False, "q": "0", "x": 0}.get(field.code)


def _scalar(wanted: str, *types: type) -> Read:
    """Return what reads a value that is canonical as it is, of one of the types."""

    def read(_: Field, value: Any, path: _Place) -> Any:
        if type(value) not in types:
            raise ShapeError(path, wanted, value)
        return value

    return read


_text_of_time = _scalar("a time", str)


def _int(field: Field, value: Any, path: _Place) -> int:
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


def _float(_: Field, value: Any, path: _Place) -> float:
    if type(value) not in (int, float):
        raise ShapeError(path, "a number", value)
    if type(value) is int and abs(value) > _LARGEST_EXACT:
        # What it is written as again: the digits that tell a float from others, and noughts.
        return int(decimal.Decimal(repr(float(value))))
    return value  # type: ignore[no-any-return]


def _time(field: Field, value: Any, path: _Place) -> Any:
    _text_of_time(field, value, path)
    if len(value) == 20 and value[-1] == "Z":
        _instant(value, path)
        return value
    return _instant(value, path).strftime("%Y-%m-%dT%H:%M:%SZ")


def _instant(value: str, path: _Place) -> datetime.datetime:
    try:
        found = datetime.datetime.fromisoformat(value)
        if found.tzinfo is None:
            raise ValueError
    except ValueError:
        raise ShapeError(path, "a time such as 2006-01-02T15:04:05Z", value) from None
    return found.astimezone(datetime.UTC)


def _micro_time(field: Field, value: Any, path: _Place) -> str:
    _text_of_time(field, value, path)
    if len(value) < 27 or value[19] != "." or not value[20:26].isdigit():
        raise ShapeError(path, "a time such as 2006-01-02T15:04:05.000000Z", value)
    return _instant(value, path).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


_text_of_bytes = _scalar("a base64 string", str)


def _bytes(field: Field, value: Any, path: _Place) -> str:
    _text_of_bytes(field, value, path)
    for text in (value, value.replace("\n", "").replace("\r", "")):
        try:
            base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            continue
        return text  # type: ignore[no-any-return]
    raise ShapeError(path, "a base64 string", value)


def _quantity(_: Field, value: Any, path: _Place) -> str:
    if type(value) not in (str, int, float):
        raise ShapeError(path, "a quantity", value)
    try:
        return canonical_quantity(str(value))
    except ValueError as error:
        raise ShapeError(path, "a quantity", value, str(error)) from None


_LOOSE_QUANTITY = re.compile(r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$")


@functools.lru_cache(maxsize=4096)
def canonical_quantity(text: str) -> str:
    """Return the canonical spelling: no fraction digits, the largest suffix of its own family; raises ValueError."""
    text = text.strip()
    if not (_LOOSE_QUANTITY.match(text) and re.search("[0-9]", text)):
        raise ValueError(f"quantities must match the regular expression '{_LOOSE_QUANTITY.pattern}'")
    try:
        found = parse(text)
    except QuantityError:
        raise ValueError("unable to parse quantity's suffix") from None
    return str(Quantity(found.nano, found.format))


def _object(field: Field, value: Any, path: _Place) -> Any:
    _struct(definition(field.ref), value, path)
    return value


def _nothing(element: Field) -> Any:
    """What a null among items is read as; bytes come back from the store as none at all, not as null."""
    return "" if element.code == "y" else _zero(element)


def _list(field: Field, value: Any, path: _Place) -> Any:
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


def _map(field: Field, value: Any, path: _Place) -> Any:
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


_as_int_or_text = _scalar("a whole number or a string", str, int)


def _int_or_text(field: Field, value: Any, path: _Place) -> Any:
    limit = _INT_LIMITS["i"]
    if type(value) is int and not -limit <= value < limit:
        detail = f"json: cannot unmarshal number {value} into Go value of type int32"
        raise ShapeError(path, "a whole number or a string", value, detail)
    return _as_int_or_text(field, value, path)


_READ: dict[str, Read] = {
    "s": _scalar("a string", str),
    "b": _scalar("true or false", bool),
    "i": _int,
    "l": _int,
    "d": _float,
    "t": _time,
    "m": _micro_time,
    "y": _bytes,
    "q": _quantity,
    "x": _int_or_text,
    "o": lambda _field, value, _path: value,
    "@": _object,
    "[": _list,
    "{": _map,
}


def read_scalar(field: Field, value: Any) -> Any:
    """Return the canonical form of one value; raises ShapeError."""
    return _READ[field.code](field, value, _Place([field.name]))


# Unknown fields.


def unknown_fields(name: str, obj: Any) -> list[str]:
    """Return the paths of the fields of an object that its definition does not know, in document order."""
    found: list[str] = []
    _walk(Field("", "@" + name), obj, [], lambda path, _: found.append(_join(path)))
    return found


def drop_unknown(name: str, obj: Any) -> None:
    """Remove the fields that a definition does not know, in place; values of a wrong type are left alone."""
    _walk(Field("", "@" + name), obj, [], lambda path, holder: holder.pop(path[-1]))


def _walk(field: Field, value: Any, path: list[str], found: Callable[[list[str], Object], Any]) -> None:
    """Hand over each field that the definitions do not know: its path, and the object that has it."""
    if field.code == "@" and type(value) is dict:
        fields = definition(field.ref).fields
        for key in list(value):
            inner = fields.get(key)
            if inner is None:
                found([*path, key], value)
            elif inner.code in "@[{":
                _walk(inner, value[key], [*path, key], found)
    elif field.element is not None and field.element.code in "@[{":
        items = enumerate(value) if type(value) is list else value.items() if type(value) is dict else ()
        for key, item in items:
            _walk(field.element, item, [*path, key if isinstance(key, str) else f"[{key}]"], found)


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
