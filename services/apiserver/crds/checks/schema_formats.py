"""Formats that a schema names and that objects are not checked for: a definition is taken with a warning."""

from collections.abc import Iterator
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.kubernetes.patch.go_text import go_quote
from services._rules.kubernetes.validation.string_formats import checker
from services.apiserver.crds.structural import every_schema

_OF_NUMBERS: Final = {"integer": ("int32", "int64"), "number": ("float", "double")}


def is_enforced(name: str, kind: str) -> bool:
    """Return whether values of a type (empty for any) are checked for a format."""
    if kind in ("", "string"):
        return checker(name) is not None
    return name in _OF_NUMBERS.get(kind, ())


def format_warnings(crd: Manifest, old: Manifest | None = None) -> list[str]:
    """Return a warning for each format of a definition that is not known; only for those that `old` has not."""
    known = set(_unknown(old)) if old is not None else set()
    fresh = dict.fromkeys(name for name in _unknown(crd) if name not in known)
    return [f"unrecognized format {go_quote(name)}" for name in fresh]


def _unknown(crd: Manifest) -> Iterator[str]:
    for version in crd["spec"].get("versions") or ():
        schema: dict[str, Any] = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        for part in every_schema(schema):
            name = part.get("format")
            if name and not is_enforced(name, part.get("type", "")):
                yield name
