"""Compares states and decisions by value, private attributes included: `==` of some classes leaves parts out."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import msgspec

MEMOS: Final[dict[tuple[str, str], str]] = {
    ("ClusterIndex", "_memory"): "results of filters by placement, each kept with the generation that it is right for",
    ("Capacity", "memo"): "counts by demand of one immutable capacity",
    ("MemberRooms", "_made"): "nodes with what is left on them, each made anew after it changed",
    ("Answers", "_known"): "counts by requirements, each kept with the version of the picture that it was counted from",
}
"""Attributes that a decision may fill in and that change no answer: by class and name, with the reason."""
_OPAQUE: Final = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)


def image(value: Any) -> Any:
    """A value as plain data that compares by content; functions compare by name, memos not at all."""
    return _image(value, ())


def _image(value: Any, above: tuple[int, ...]) -> Any:
    if value is None or isinstance(value, str | int | float | bytes):
        return value
    if isinstance(value, msgspec.Raw):
        return bytes(value)
    if isinstance(value, types.MethodType):
        return ("method", value.__func__.__qualname__)
    if isinstance(value, _OPAQUE):
        return (type(value).__name__, getattr(value, "__qualname__", str(value)))
    if id(value) in above:
        return "itself"
    above = (*above, id(value))
    if isinstance(value, Mapping):
        return [(_image(key, above), _image(item, above)) for key, item in value.items()]
    if isinstance(value, set | frozenset):
        return sorted(repr(_image(item, above)) for item in value)
    if isinstance(value, list | tuple | deque):
        return [_image(item, above) for item in value]
    parts = _attributes(value)
    if not parts and type(value).__eq__ is not object.__eq__:
        return value
    return (type(value).__name__, {name: _image(item, above) for name, item in parts.items()})


def _attributes(value: Any) -> dict[str, Any]:
    name = type(value).__name__
    found = dict(getattr(value, "__dict__", {}))
    for owner in type(value).__mro__:
        slots = owner.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, slot):
                found[slot] = getattr(value, slot)
    if isinstance(value, msgspec.Struct):
        found.update((item, getattr(value, item)) for item in value.__struct_fields__)
    return {part: item for part, item in found.items() if (name, part) not in MEMOS and not part.startswith("__")}


def difference(before: Any, after: Any, path: str = "") -> str:
    """Where two images first differ; empty where they are equal."""
    if before == after:
        return ""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        pairs = [(f"{path}.{name}", before[name], after[name]) for name in before]
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple) and len(before) == len(after):
        pairs = [(f"{path}[{place}]", *pair) for place, pair in enumerate(zip(before, after, strict=True))]
    else:
        return f"{path}: {before!r:.300} became {after!r:.300}"
    return next(found for name, one, other in pairs if (found := difference(one, other, name)))
