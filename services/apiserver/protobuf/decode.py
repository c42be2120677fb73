"""Reads a Kubernetes object in protobuf encoding into the manifest that its JSON form would give."""

import base64
import datetime as dt
import functools
import gzip
import importlib.resources
import struct
from typing import Any

import msgspec

from services.apiserver.protobuf.wire import WireError, fields

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


class UnknownType(ValueError):
    """There is no field table for the type of the body."""


@functools.cache
def _table() -> dict[str, dict[int, tuple[str, str, str]]]:
    raw = importlib.resources.files(__package__ or "").joinpath("fields.json.gz").read_bytes()
    found: dict[str, list[list[Any]]] = msgspec.json.decode(gzip.decompress(raw))
    return {name: {f[0]: (f[1], f[2], f[3]) for f in rows} for name, rows in found.items()}


def decode(body: bytes, schema_name: str) -> dict[str, Any]:
    """The manifest of a body; `schema_name` is the OpenAPI name of the type that the request's path takes.

    Raises WireError for malformed bytes and UnknownType where there is no table.
    """
    if not body.startswith(_MAGIC):
        raise WireError("the body does not begin with the mark of Kubernetes' protobuf encoding")
    api_version = kind = ""
    raw = b""
    for number, value in fields(body[len(_MAGIC) :]):
        if number == 1 and isinstance(value, bytes):
            for tag, text in fields(value):
                if tag == 1 and isinstance(text, bytes):
                    api_version = text.decode()
                elif tag == 2 and isinstance(text, bytes):
                    kind = text.decode()
        elif number == 2 and isinstance(value, bytes):
            raw = value
    name = "k8s.io." + schema_name.removeprefix("io.k8s.").replace("-", "_")
    if kind and not name.endswith(f".{kind}"):
        # Another kind than the path takes; the caller's check of kinds refuses it.
        return {"apiVersion": api_version, "kind": kind}
    if name not in _table():
        raise UnknownType(schema_name)
    return {"kind": kind, "apiVersion": api_version, **_message(raw, name)}


def _message(raw: bytes, name: str) -> Any:
    if name in (_TIME, _MICRO):
        return _time(raw, micro=name == _MICRO)
    table = _table().get(name)
    if table is None:
        raise UnknownType(name)
    out: dict[str, Any] = {}
    for number, value in fields(raw):
        field = table.get(number)
        if field is None:
            continue
        key, code, target = field
        if code == "[m" and target.startswith(name + ".") and target.endswith("Entry"):
            entry = _message(value if isinstance(value, bytes) else b"", target)
            out.setdefault(key, {})[entry.get("key", "")] = entry.get("value", _zero(target))
        elif code[0] == "[":
            if code == "[i" and isinstance(value, bytes):
                continue  # packed numbers occur in no type here
            out.setdefault(key, []).append(_value(value, code[1:], target))
        elif code == "<":
            out.update(_message(value if isinstance(value, bytes) else b"", target))
        else:
            out[key] = _value(value, code, target)
    return _special(name, out)


def _zero(entry: str) -> Any:
    """What a map entry without a value holds."""
    _, code, target = _table()[entry].get(2, ("", "s", ""))
    return {"s": "", "y": "", "b": False, "i": 0}.get(code, _message(b"", target) if code == "m" else None)


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


def _value(value: int | bytes, code: str, target: str) -> Any:
    if code == "m":
        return _message(value if isinstance(value, bytes) else b"", target)
    if isinstance(value, int):
        if code == "b":
            return value != 0
        return value - (1 << 64) if value >= 1 << 63 else value
    if code == "s":
        return value.decode()
    if code == "y":
        return base64.b64encode(value).decode()
    if code == "d":
        return struct.unpack("<d" if len(value) == 8 else "<f", value)[0]
    raise WireError("a value has another wire type than its field")


def _time(raw: bytes, *, micro: bool) -> str | None:
    """RFC 3339; the zero time is null."""
    seconds = nanos = 0
    for number, value in fields(raw):
        if isinstance(value, int):
            if number == 1:
                seconds = value - (1 << 64) if value >= 1 << 63 else value
            elif number == 2:
                nanos = value
    if not raw or (seconds, nanos) == (0, 0) or seconds < -62_000_000_000:
        return None
    moment = dt.datetime.fromtimestamp(seconds, dt.UTC)
    if micro:
        return moment.strftime("%Y-%m-%dT%H:%M:%S") + f".{nanos // 1000:06d}Z"
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
