"""ConfigMaps, Secrets and ServiceAccounts."""

from __future__ import annotations

import base64
from collections.abc import Collection

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
from services._rules.kubernetes.validation.json_text import json_object_problem
from services.apiserver.kinds.builtin import BuiltinKind

SIZE_LIMIT = 1024 * 1024
REDACTED = "<secret contents redacted>"
ACCOUNT_NAME = "kubernetes.io/service-account.name"
ACCOUNT_TOKEN = "kubernetes.io/service-account-token"
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
        found = [*_keys(data, "data", binary), *_keys(binary, "binaryData")] if data or binary else []
        size = sum([len(value.encode()) for value in data.values()])
        if size + sum([len(value) * 3 // 4 for value in binary.values()]) > SIZE_LIMIT:
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
        if kind == ACCOUNT_TOKEN and not annotations.get(ACCOUNT_NAME):
            return [required(f"metadata.annotations[{ACCOUNT_NAME}]")]
        if kind == "kubernetes.io/basic-auth" and not {"username", "password"}.intersection(data):
            return [required("data[username]"), required("data[password]")]
        if kind == "kubernetes.io/ssh-auth":
            return [] if data.get("ssh-privatekey") else [required("data[ssh-privatekey]")]
        found = [required(f"data[{key}]") for key in _NEEDED_KEYS.get(kind, ()) if key not in data]
        if kind in ("kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson") and not found:
            key = _NEEDED_KEYS[kind][0]
            if text := json_object_problem(base64.b64decode(data[key])):
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


class ServiceAccount(BuiltinKind):
    """core/v1 ServiceAccount; of the Secrets that it may use, only the names count."""

    def default(self, obj: Manifest) -> None:
        """Drop all but the names of Secrets."""
        for reference in obj.get("secrets") or ():
            for name in [name for name in reference if name != "name"]:
                del reference[name]
