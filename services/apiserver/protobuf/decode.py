"""Reads a Kubernetes object in protobuf encoding into the manifest that its JSON form would give."""

import base64
import datetime as dt
import functools
import gzip
import importlib.resources
import struct
from collections.abc import Iterator
from typing import Any

import msgspec

from services._rules.kubernetes.document_bounds import DEEPEST, MOST_VALUES, check_depth, too_deep, too_many
from services.apiserver.protobuf.wire import WireError, fields, text

_MAGIC = b"k8s\x00"
_META = "k8s.io.apimachinery.pkg.apis.meta.v1."
_TIME, _MICRO = _META + "Time", _META + "MicroTime"
_QUANTITY = "k8s.io.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "k8s.io.apimachinery.pkg.util.intstr.IntOrString"
_RAW = {"k8s.io.apimachinery.pkg.runtime.RawExtension", _META + "FieldsV1"}
_LISTS = {
    _META + "Verbs",
    "k8s.io.api.authentication.v1.ExtraValue",
    "k8s.io.api.authorization.v1.ExtraValue",
    "k8s.io.api.certificates.v1.ExtraValue",
}


_EARLIEST, _LATEST = -62_000_000_000, 253_402_300_799
"""Seconds of moments that have a text; those before stand for the zero time."""


_NOTHING = memoryview(b"")


class UnknownType(ValueError):
    """There is no field table for the type of the body."""


@functools.cache
def _table() -> dict[str, dict[int, tuple[str, str, str]]]:
    raw = importlib.resources.files(__package__ or "").joinpath("fields.json.gz").read_bytes()
    found: dict[str, list[list[Any]]] = msgspec.json.decode(gzip.decompress(raw))
    return {name: {f[0]: (f[1], f[2], f[3]) for f in rows} for name, rows in found.items()}


def decode(body: bytes, schema_name: str) -> dict[str, Any]:
    """The manifest of a body; `schema_name` is the OpenAPI name of the type that the request's path takes.

    Raises WireError for malformed bytes, OutOfBounds for too many or too deep ones and UnknownType where there is no
    table.
    """
    if not body.startswith(_MAGIC):
        raise WireError("the body does not begin with the mark of Kubernetes' protobuf encoding")
    reader = _Reader()
    api_version = kind = ""
    raw = memoryview(b"")
    for number, value in reader.fields(memoryview(body)[len(_MAGIC) :]):
        if number == 1 and isinstance(value, memoryview):
            for tag, part in reader.fields(value):
                if tag == 1 and isinstance(part, memoryview):
                    api_version = text(part)
                elif tag == 2 and isinstance(part, memoryview):
                    kind = text(part)
        elif number == 2 and isinstance(value, memoryview):
            raw = value
    name = "k8s.io." + schema_name.removeprefix("io.k8s.").replace("-", "_")
    if kind and not name.endswith(f".{kind}"):
        # Another kind than the path takes; the caller's check of kinds refuses it.
        return {"apiVersion": api_version, "kind": kind}
    if name not in _table():
        raise UnknownType(schema_name)
    found = {"kind": kind, "apiVersion": api_version, **reader.message(raw, name, 0)}
    check_depth(found)
    return found


class _Reader:
    """Reads one body; counts the fields that it takes from it."""

    def __init__(self) -> None:
        self._left = MOST_VALUES

    def fields(self, raw: memoryview) -> Iterator[tuple[int, int | memoryview]]:
        """The fields of a message; raises OutOfBounds once the body had too many of them."""
        for field in fields(raw):
            self._left -= 1
            if self._left < 0:
                raise too_many()
            yield field

    def message(self, raw: memoryview, name: str, depth: int) -> Any:
        """The JSON form of a message of that type."""
        if depth > DEEPEST:
            raise too_deep()
        if name in (_TIME, _MICRO):
            return _time(raw, micro=name == _MICRO)
        table = _table().get(name)
        if table is None:
            raise UnknownType(name)
        out: dict[str, Any] = {}
        for number, value in self.fields(raw):
            field = table.get(number)
            if field is None:
                continue
            key, code, target = field
            inner = value if isinstance(value, memoryview) else _NOTHING
            if code == "[m" and target.startswith(name + ".") and target.endswith("Entry"):
                entry = self.message(inner, target, depth + 1)
                out.setdefault(key, {})[entry.get("key", "")] = entry.get("value", self._zero(target))
            elif code[0] == "[":
                if code == "[i" and isinstance(value, memoryview):
                    continue  # packed numbers occur in no type here
                out.setdefault(key, []).append(self._value(value, code[1:], target, depth))
            elif code == "<":
                out.update(self.message(inner, target, depth + 1))
            else:
                out[key] = self._value(value, code, target, depth)
        return _special(name, out)

    def _zero(self, entry: str) -> Any:
        """What a map entry without a value holds."""
        _, code, target = _table()[entry].get(2, ("", "s", ""))
        if code == "m":
            return self.message(_NOTHING, target, 0)
        return {"s": "", "y": "", "b": False, "i": 0}.get(code)

    def _value(self, value: int | memoryview, code: str, target: str, depth: int) -> Any:
        if code == "m":
            return self.message(value if isinstance(value, memoryview) else _NOTHING, target, depth + 1)
        return _scalar(value, code)


def _special(name: str, out: dict[str, Any]) -> Any:
    if name == _QUANTITY:
        return out.get("string", "0")
    if name == _INT_OR_STRING:
        return out.get("strVal", "") if out.get("type") == 1 else out.get("intVal", 0)
    if name in _RAW:
        data = base64.b64decode(out.get("raw") or out.get("Raw") or "")
        return msgspec.json.decode(data) if data else None
    if name in _LISTS:
        return out.get("items", [])
    return out


def _scalar(value: int | memoryview, code: str) -> Any:
    if isinstance(value, int):
        if code == "b":
            return value != 0
        return value - (1 << 64) if value >= 1 << 63 else value
    if code == "s":
        return text(value)
    if code == "y":
        return base64.b64encode(value).decode()
    if code == "d" and len(value) in (4, 8):
        return struct.unpack("<d" if len(value) == 8 else "<f", value)[0]
    raise WireError("a value has another wire type than its field")


def _time(raw: memoryview, *, micro: bool) -> str | None:
    """RFC 3339; the zero time is null."""
    seconds = nanos = 0
    for number, value in fields(raw):
        if isinstance(value, int):
            if number == 1:
                seconds = value - (1 << 64) if value >= 1 << 63 else value
            elif number == 2:
                nanos = value % 1_000_000_000
    if not raw or (seconds, nanos) == (0, 0) or seconds < _EARLIEST:
        return None
    if seconds > _LATEST:
        raise WireError("a moment is after the year 9999")
    moment = dt.datetime.fromtimestamp(seconds, dt.UTC)
    if micro:
        return moment.strftime("%Y-%m-%dT%H:%M:%S") + f".{nanos // 1000:06d}Z"
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
