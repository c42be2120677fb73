"""Finds fields that a JSON body names twice, for requests that ask for strict reading."""

import json
from typing import Any


class _Doubled(dict[str, Any]):
    """An object with the names that occurred more than once in it."""

    names: list[str]


def doubled_fields(raw: bytes) -> list[str]:
    """Return the paths of the fields that occur more than once beside each other; [] for what is no JSON."""
    met: list[_Doubled] = []

    def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        seen: set[str] = set()
        again: dict[str, None] = {}
        for name, _ in pairs:
            if name in seen:
                again[name] = None
            seen.add(name)
        doubled = _Doubled(found)
        doubled.names = list(again)
        met.append(doubled)
        return doubled

    try:
        body = json.loads(raw, object_pairs_hook=read)
    except (ValueError, RecursionError):
        return []
    paths: list[str] = []
    if met:
        _walk(body, "", paths)
    return paths


def _walk(value: Any, path: str, paths: list[str]) -> None:
    if isinstance(value, list):
        for index, item in enumerate(value):
            _walk(item, f"{path}[{index}]", paths)
    elif isinstance(value, dict):
        before = f"{path}." if path else ""
        if isinstance(value, _Doubled):
            paths += [f"{before}{name}" for name in value.names]
        for name, item in value.items():
            _walk(item, f"{before}{name}", paths)
