"""Names the fields in which two manifests differ, with numbers and, where they hold no secrets, short texts.

Environment variables and data of ConfigMaps are texts that may be secret: only the fields are named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from schemas.manifest import Manifest

MOST: Final = 3
"""Fields that are named."""
_LONGEST: Final = 40
_DEEPEST: Final = 12
_SKIPPED: Final = frozenset(
    {"status", "metadata.generation", "metadata.managedFields", "metadata.resourceVersion", "metadata.uid"}
)
_NAMES: Final = ("name", "type", "key")
_OPEN: Final = (".image", ".type")
_NONE: Final = object()


def changed_fields(before: bytes, after: bytes, *, texts: bool = False) -> str:
    """`spec.replicas 2 -> 5, spec.paused gone`; empty for what cannot be read, or where nothing differs.

    `texts` shows texts, too; else only images are.
    """
    try:
        old, new = msgspec.json.decode(before), msgspec.json.decode(after)
    except msgspec.MsgspecError:
        return ""
    return field_words(old, new, texts=texts)


def field_words(before: Manifest, after: Manifest, *, texts: bool = False) -> str:
    """The same of decoded manifests."""
    found: list[str] = []
    # What its author wrote comes before labels and annotations.
    for path, old, new in _differences(_metadata_last(before), _metadata_last(after), "", 0):
        if len(found) == MOST:
            return f"{', '.join(found)}, …"
        found.append(_words(path, old, new, texts or path.endswith(_OPEN)))
    return ", ".join(found)


def _metadata_last(manifest: Manifest) -> Manifest:
    return {name: manifest[name] for name in sorted(manifest, key="metadata".__eq__)}


def _words(path: str, old: Any, new: Any, texts: bool) -> str:
    if new is _NONE:
        return f"{path} gone"
    shown = _short(new, texts)
    if old is _NONE:
        return f"{path} {shown}".rstrip()
    was = _short(old, texts)
    return f"{path} {was} -> {shown}" if was and shown else path


def _short(value: Any, texts: bool) -> str:
    """A value that may be shown and fits into a line; empty for any other."""
    if isinstance(value, Mapping | list) or (isinstance(value, str) and not texts):
        return ""
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= _LONGEST and "\n" not in text else ""


def _differences(old: Any, new: Any, path: str, depth: int) -> Iterator[tuple[str, Any, Any]]:
    if old == new or path in _SKIPPED:
        return
    if depth < _DEEPEST and isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in (*old, *(name for name in new if name not in old)):
            shown = name if "." not in name and "/" not in name else f"[{name}]"
            dot = "." if path and not shown.startswith("[") else ""
            yield from _differences(old.get(name, _NONE), new.get(name, _NONE), f"{path}{dot}{shown}", depth + 1)
        return
    if depth < _DEEPEST and isinstance(old, list) and isinstance(new, list):
        yield from _in_lists(old, new, path, depth)
        return
    yield path, old, new


def _in_lists(old: list[Any], new: list[Any], path: str, depth: int) -> Iterator[tuple[str, Any, Any]]:
    """Items of lists belong together by their name, where all have one, else by their place."""
    for mark in _NAMES:
        if all(isinstance(item, Mapping) and isinstance(item.get(mark), str) for item in (*old, *new)):
            left, right = ({item[mark]: item for item in items} for items in (old, new))
            if len(left) == len(old) and len(right) == len(new):
                for name in (*left, *(name for name in right if name not in left)):
                    yield from _differences(left.get(name, _NONE), right.get(name, _NONE), f"{path}[{name}]", depth + 1)
                return
    if len(old) != len(new):
        yield path, old, new
        return
    for index, (one, other) in enumerate(zip(old, new, strict=True)):
        yield from _differences(one, other, f"{path}[{index}]", depth + 1)
