"""The JSON Patch (RFC 6902) that turns one object into another, of `add`, `remove` and `replace` only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from schemas.manifest import Manifest
from services._rules.kubernetes.patch.json_patch import same_json


def json_difference(before: Manifest, after: Manifest) -> list[dict[str, Any]]:
    """Operations in the order of application; none where both objects are the same.

    A list whose length changes is replaced as a whole.
    """
    return list(_members("", before, after))


def _members(path: str, before: Manifest, after: Manifest) -> Iterator[dict[str, Any]]:
    for name, value in before.items():
        place = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        if name not in after:
            yield {"op": "remove", "path": place}
        elif after[name] is not value:
            yield from _value(place, value, after[name])
    for name, value in after.items():
        if name not in before:
            yield {"op": "add", "path": f"{path}/{name.replace('~', '~0').replace('/', '~1')}", "value": value}


def _value(path: str, before: Any, after: Any) -> Iterator[dict[str, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _members(path, before, after)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for position, (old, new) in enumerate(zip(before, after, strict=True)):
            if new is not old:
                yield from _value(f"{path}/{position}", old, new)
    elif not same_json(before, after):
        yield {"op": "replace", "path": path, "value": after}
