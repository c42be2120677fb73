"""ConfigMaps, Secrets and ServiceAccounts."""

from __future__ import annotations

import base64
from collections.abc import Collection

import msgspec

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    forbidden,
    invalid,
    required,
    too_long,
)
from services._rules.kubernetes.validation.field_rules import immutable
from services.apiserver.kinds.builtin import BuiltinKind

SIZE_LIMIT = 1024 * 1024
REDACTED = "<secret contents redacted>"
ACCOUNT_NAME = "kubernetes.io/service-account.name"
FROZEN = "field is immutable when `immutable` is set"


def _keys(values: dict[str, str], field: str, others: Collection[str] = ()) -> Errors:
    for key in sorted(values):
        if texts := names.config_key(key):
            yield from [invalid(f"{field}[{key}]", key, text) for text in texts]
        if key in others:
            yield invalid(f"{field}[{key}]", key, "duplicate of key present in binaryData")


class ConfigMap(BuiltinKind):
    """core/v1 ConfigMap."""

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check keys and total size."""
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        found = [*_keys(data, "data", binary), *_keys(binary, "binaryData")]
        size = sum(len(value.encode()) for value in data.values())
        if size + sum(len(value) * 3 // 4 for value in binary.values()) > SIZE_LIMIT:
            found.append(too_long("[]", "", SIZE_LIMIT))
        return found

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """An immutable ConfigMap keeps its data and stays immutable."""
        return [*_frozen(new, old, ("data", "binaryData")), *self.check(new)]


def _frozen(new: Manifest, old: Manifest, fields: tuple[str, ...]) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    found = [] if new.get("immutable") else [forbidden("immutable", FROZEN)]
    return found + [forbidden(name, FROZEN) for name in fields if (new.get(name) or {}) != (old.get(name) or {})]


_NEEDED_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
}


class Secret(BuiltinKind):
    """core/v1 Secret."""

    selectable = {"type": ""}

    def default(self, obj: Manifest) -> None:
        """Set the type and move stringData into data."""
        obj.setdefault("type", "Opaque")
        if plain := obj.pop("stringData", None):
            obj["data"] = {**(obj.get("data") or {}), **{key: _encode(value) for key, value in plain.items()}}

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check keys, total size and what the type demands."""
        data = obj.get("data") or {}
        found = [*_keys(data, "data")]
        if sum(len(value) for value in data.values()) * 3 // 4 > SIZE_LIMIT:
            found.append(too_long("data", "", SIZE_LIMIT))
        return found + self._check_type(obj, data)

    @staticmethod
    def _check_type(obj: Manifest, data: dict[str, str]) -> list[FieldError]:
        kind = obj.get("type", "")
        annotations = obj["metadata"].get("annotations") or {}
        if kind == "kubernetes.io/service-account-token" and not annotations.get(ACCOUNT_NAME):
            return [required(f"metadata.annotations[{ACCOUNT_NAME}]")]
        if kind == "kubernetes.io/basic-auth" and not {"username", "password"}.intersection(data):
            # The stray %s is part of what clients see.
            return [required("data[%s][username]"), required("data[%s][password]")]
        found = [required(f"data[{key}]") for key in _NEEDED_KEYS.get(kind, ()) if key not in data]
        if kind in ("kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson") and not found:
            key = _NEEDED_KEYS[kind][0]
            if text := _json_problem(base64.b64decode(data[key])):
                found.append(invalid(f"data[{key}]", REDACTED, text))
        return found

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """The type may not change; an immutable Secret keeps its data."""
        found = immutable("type", new.get("type"), old.get("type"))
        return [*found, *_frozen(new, old, ("data",)), *self.check(new)]

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Take over the type when the new object has none of its own."""
        if not new.get("type"):
            new["type"] = old.get("type", "Opaque")
        super().prepare_update(new, old)


def _encode(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


_LITERALS = {"n": "null", "t": "true", "f": "false"}


def _json_problem(text: bytes) -> str:
    """Return what is wrong with JSON text, in the words of the scanner that dockercfg secrets are checked with."""
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        source = text.decode(errors="replace").lstrip()
        if not source:
            return "unexpected end of JSON input"
        literal = _LITERALS.get(source[0])
        if literal is None:
            return f"invalid character '{source[0]}' looking for beginning of value"
        for got, wanted in zip(source[1:], literal[1:], strict=False):
            if got != wanted:
                return f"invalid character '{got}' in literal {literal} (expecting '{wanted}')"
        return "unexpected end of JSON input"
    return ""
