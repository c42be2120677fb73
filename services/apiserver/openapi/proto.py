"""Protobuf form of an OpenAPI v2 document, as old clients ask for it (message numbers of gnostic's openapi.v2)."""

from __future__ import annotations

import struct
from typing import Any

import msgspec

# Clients ask for "...spec.v2@v1.0+protobuf", but "@" is no character of a media type: it is answered with a dot.
MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
Schema = dict[str, Any]


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode()) if value else b""


def _int(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value) if value else b""


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value) if value else b""


def _any(value: Any) -> bytes:
    """Any: its YAML text; JSON is YAML."""
    return _text(2, msgspec.json.encode(value).decode() + "\n")


def _named(name: str, value: bytes) -> bytes:
    return _text(1, name) + _bytes(2, value)


def _extensions(number: int, values: dict[str, Any]) -> bytes:
    return b"".join(_bytes(number, _named(key, _any(value))) for key, value in values.items() if key.startswith("x-"))


# Schema: JSON key -> (field number, encoder)
_SCHEMA_TEXTS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_SCHEMA_NUMBERS = {"multipleOf": 6, "maximum": 7, "minimum": 9}
_SCHEMA_INTS = {
    "exclusiveMaximum": 8,
    "exclusiveMinimum": 10,
    "maxLength": 11,
    "minLength": 12,
    "maxItems": 14,
    "minItems": 15,
    "uniqueItems": 16,
    "maxProperties": 17,
    "minProperties": 18,
}


def _schema(value: Schema) -> bytes:
    parts = [_text(number, value[key]) for key, number in _SCHEMA_TEXTS.items() if key in value]
    if "default" in value:
        parts.append(_bytes(5, _any(value["default"])))
    parts += [_double(number, value[key]) for key, number in _SCHEMA_NUMBERS.items() if key in value]
    parts += [_int(number, int(value[key])) for key, number in _SCHEMA_INTS.items() if key in value]
    parts += [_bytes(19, name.encode()) for name in value.get("required", ())]
    parts += [_bytes(20, _any(item)) for item in value.get("enum", ())]
    if isinstance(value.get("additionalProperties"), dict):
        parts.append(_bytes(21, _bytes(1, _schema(value["additionalProperties"]))))
    if "type" in value:
        parts.append(_bytes(22, _text(1, value["type"])))
    if isinstance(value.get("items"), dict):
        parts.append(_bytes(23, _bytes(1, _schema(value["items"]))))
    if "properties" in value:
        inner = b"".join(_bytes(1, _named(key, _schema(item))) for key, item in value["properties"].items())
        parts.append(_bytes(25, inner))
    parts.append(_extensions(31, value))
    return b"".join(parts)


def _parameter(value: dict[str, Any]) -> bytes:
    if value["in"] == "body":
        body = _text(2, value["name"]) + _text(3, "body") + _int(4, int(value.get("required", False)))
        return _bytes(1, _bytes(1, body + _bytes(5, _schema(value["schema"]))))
    common = _int(1, int(value.get("required", False))) + _text(2, value["in"]) + _text(4, value["name"])
    if value["in"] == "query":
        inner = _bytes(3, common + _text(6, value["type"]))
    else:
        inner = _bytes(4, common + _text(5, value["type"]))
    return _bytes(1, _bytes(2, inner))


def _operation(value: dict[str, Any]) -> bytes:
    parts = [_text(5, value["operationId"])]
    parts += [_text(6, media) for media in value.get("produces", ())]
    parts += [_text(7, media) for media in value.get("consumes", ())]
    parts += [_bytes(8, _parameter(item)) for item in value.get("parameters", ())]
    responses = b""
    for code, answer in value["responses"].items():
        response = _text(1, answer["description"])
        if "schema" in answer:
            response += _bytes(2, _bytes(1, _schema(answer["schema"])))
        responses += _bytes(1, _named(code, _bytes(1, response)))
    parts.append(_bytes(9, responses))
    parts.append(_extensions(13, value))
    return b"".join(parts)


_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}


def _path(item: dict[str, Any]) -> bytes:
    parts = [_bytes(number, _operation(item[method])) for method, number in _METHODS.items() if method in item]
    parts += [_bytes(9, _parameter(value)) for value in item.get("parameters", ())]
    return b"".join(parts)


def encode(document: dict[str, Any]) -> bytes:
    """Return the protobuf form of an OpenAPI v2 document."""
    info = document["info"]
    paths = b"".join(_bytes(2, _named(name, _path(item))) for name, item in document["paths"].items())
    definitions = b"".join(_bytes(1, _named(name, _schema(item))) for name, item in document["definitions"].items())
    return b"".join(
        (
            _text(1, document["swagger"]),
            _bytes(2, _text(1, info["title"]) + _text(2, info["version"])),
            _bytes(8, paths),
            _bytes(9, definitions),
        )
    )
