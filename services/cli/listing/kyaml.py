"""Writes KYAML: YAML in braces with quoted texts, which no reader can take for anything else."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_AMBIGUOUS: Final = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"))


def as_kyaml(value: Any) -> str:
    """One document."""
    return f"---\n{_written(value, 0)}\n"


def _written(value: Any, depth: int) -> str:
    inner, outer = "  " * (depth + 1), "  " * depth
    if isinstance(value, dict) and value:
        lines = "".join(f"{inner}{_key(key)}: {_written(value[key], depth + 1)},\n" for key in sorted(value))
        return f"{{\n{lines}{outer}}}"
    if isinstance(value, list) and value:
        if all(isinstance(item, dict) and item for item in value):
            return "[" + ", ".join(_written(item, depth) for item in value) + "]"
        lines = "".join(f"{inner}{_written(item, depth + 1)},\n" for item in value)
        return f"[\n{lines}{outer}]"
    return msgspec.json.encode(value).decode()


def _key(key: str) -> str:
    plain = _PLAIN_KEY.fullmatch(key) and key.lower() not in _AMBIGUOUS
    return key if plain else msgspec.json.encode(key).decode()
