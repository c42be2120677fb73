"""Encodes bytes as the difference from other bytes, where that is much shorter.

A copy of a large manifest for the clusters differs from its template in a few marks: what is stored of it is where it
begins and ends like the template, and what stands between.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

import msgspec
from msgspec import Struct

WORTH: Final = 32 << 10
"""Bytes below which nothing is gained."""
_RUN: Final = re.compile(rb'[^"]{512,}')
"""Within what differs, long texts without quotes are looked for: values of JSON beside one that changed."""
_WINDOW: Final = 256 << 10
_MAGIC: Final = b"FLD1"
_MARKER: Final = "like-"
_MARKER_OF: Final = re.compile(r"like-([0-9a-f]{64})-([0-9a-f]{64})")


class Splice(Struct, frozen=True, array_like=True):
    """Bytes one after the other: as they are, or from where to where they stand in what is named `base`."""

    base: str
    parts: list[bytes | tuple[int, int]]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Splice).decode


def splice(name: str, base: bytes, data: bytes) -> bytes | None:
    """The short form of `data`, given the bytes that are named `name`; None when it would not be half as long."""
    if len(data) < WORTH:
        return None
    head = _alike(base, data)
    tail = _alike(base[head:][::-1], data[head:][::-1])
    parts: list[bytes | tuple[int, int]] = [(0, head)]
    done, place = head, head
    for run in _RUN.finditer(data, head, len(data) - tail):
        at = base.find(run.group(), place, place + len(run.group()) + _WINDOW)
        if at >= 0:
            place = at + len(run.group())
            parts += (data[done : run.start()], (at, place))
            done = run.end()
    parts += (data[done : len(data) - tail], (len(base) - tail, len(base)))
    short = _MAGIC + _encode(Splice(name, parts))
    return short if 2 * len(short) < len(data) else None


def base_of(stored: bytes) -> str:
    """The name of the bytes that a short form builds on; empty when it is none."""
    found = _read(stored)
    return found.base if found is not None else ""


def decode_delta(stored: bytes, base: bytes) -> bytes:
    """The bytes of a short form; something else when `base` is not what it was made from."""
    found = _read(stored)
    if found is None:
        return stored
    return b"".join(part if isinstance(part, bytes) else base[part[0] : part[1]] for part in found.parts)


def marker(name: str, base: str) -> str:
    """The name of an empty message that marks bytes as delta-encoded against a base."""
    return f"{_MARKER}{name}-{base}"


def referenced(names: Collection[str]) -> set[str]:
    """Of all that is stored, what must stay because of what else is there: markers, and what short forms build on."""
    stay: set[str] = set()
    for name in names:
        found = _MARKER_OF.fullmatch(name) if name.startswith(_MARKER) else None
        if found is not None and found[1] in names:
            stay.update((name, found[2]))
    return stay


def _read(stored: bytes) -> Splice | None:
    if not stored.startswith(_MAGIC):
        return None
    try:
        return _decode(stored[len(_MAGIC) :])
    except msgspec.MsgspecError:
        return None


def _alike(one: bytes, other: bytes) -> int:
    """How many bytes two texts begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
