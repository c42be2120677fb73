"""Splits a page of a list without decoding it whole: a page of many small values must not fill the memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from services._kit.base.answer_limits import Limits
from services._kit.kube.answers.shapes import readable
from services._kit.kube.api import BadAnswer

FIRST_PAGE: Final = 100
LARGEST_PAGE: Final = 500
SMALLEST_PAGE: Final = 10
_PAGE_BYTES: Final = 1 << 20
"""What a page is to have about."""
_AT_ONCE: Final = 1 << 20
"""Pages up to this size may be decoded at once, where their values are not too small."""
_TINY: Final = 64 << 10
_BYTES_PER_VALUE: Final = 6
_SHALLOW: Final = 8
"""Levels of nesting that are passed over in one step."""
_DEEPEST: Final = 500


class ListMeta(Struct, frozen=True, rename={"resource_version": "resourceVersion", "next": "continue"}):
    """Where a list stands and goes on."""

    resource_version: str = ""
    next: str = ""


class _Page(Struct):
    kind: str = ""
    metadata: ListMeta | None = None
    items: list[Raw] | UnsetType | None = UNSET


_page: Final = msgspec.json.Decoder(_Page)
_metadata: Final = msgspec.json.Decoder(ListMeta)


_TEXT: Final = r'[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+"'


def _nested(depth: int) -> str:
    """A pattern of one JSON value in brackets: it finds where the value ends, not whether it is right."""
    pattern = rf"[{{\[](?:{_TEXT})*+[}}\]]"
    for _ in range(depth - 1):
        pattern = rf"[{{\[](?:{_TEXT}|{pattern})*+[}}\]]"
    return pattern


_shallow: Final = re.compile(_nested(_SHALLOW).encode(), re.DOTALL)
_run: Final = re.compile(rf"(?:{_TEXT}|{_nested(_SHALLOW)})*+".encode(), re.DOTALL)
_key: Final = re.compile(rb'\s*("(?:[^"\\]++|\\.)*+")\s*:\s*')
_scalar: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[^\s,"{}\[\]]++')
_gap: Final = re.compile(rb"\s*+([,\]}])\s*+")
_opening: Final = re.compile(rb"\s*+([{\[])\s*+")


class Page:
    """One page of a list: iterate it for its items, then `meta` holds the position of the next page.

    Iterating raises BadAnswer for what is no list of objects, or exceeds a limit.
    """

    def __init__(self, data: bytes, limits: Limits) -> None:
        self.meta = ListMeta()
        self._data = data
        self._limits = limits

    def __iter__(self) -> Iterator[Raw]:
        return self._decoded() if _fits(self._data) else self._cut()

    def _decoded(self) -> Iterator[Raw]:
        page = readable(_page, self._data, "a list")
        self.meta = page.metadata or ListMeta()
        if isinstance(page.items, UnsetType):
            self._check_empty(page.kind)
            return
        for item in page.items or ():
            if len(memoryview(item)) > self._limits.object_bytes:
                raise BadAnswer(f"an object has more than {self._limits.object_bytes} bytes")
            yield item

    def _cut(self) -> Iterator[Raw]:
        """Item by item, whatever the order of the members."""
        data, place = self._data, self._open(0, b"{")
        kind, has_items = b"", False
        while (key := _key.match(data, place)) is not None:
            place = key.end()
            if key[1] == b'"items"' and data[place : place + 4] != b"null":
                has_items = True
                place = self._open(place, b"[")
                while data[place : place + 1] != b"]":
                    end = self._end(place)
                    yield Raw(data[place:end])
                    place = self._after(end, b"]")
                place += 1
            else:
                end = self._end(place)
                if key[1] == b'"metadata"':
                    self.meta = readable(_metadata, data[place:end], "the metadata of a list")
                elif key[1] == b'"kind"':
                    kind = data[place:end]
                has_items = has_items or key[1] == b'"items"'
                place = end
            place = self._after(place, b"}")
        if data[place:].strip() != b"}":
            raise BadAnswer(f"it is no JSON at byte {place}")
        if not has_items:
            self._check_empty(kind.strip(b'"').decode(errors="replace"))

    @staticmethod
    def _check_empty(kind: str) -> None:
        """An answer without items is an empty list only if its kind is a list: absence counts as deletion."""
        if not kind.endswith("List"):
            raise BadAnswer(f"it is no list: it has no items, and its kind is {kind[:60] or 'not given'}")

    def _open(self, place: int, bracket: bytes) -> int:
        found = _opening.match(self._data, place)
        if found is None or found[1] != bracket:
            raise BadAnswer(f"it is no list at byte {place}")
        return found.end()

    def _end(self, place: int) -> int:
        """Where the value ends that begins here."""
        data, within = self._data, place + self._limits.object_bytes
        if data[place : place + 1] not in (b"{", b"["):
            found = _scalar.match(data, place, within)
        elif (found := _shallow.match(data, place, within)) is None:
            return self._end_of_deep(place, within)
        if found is None:
            raise BadAnswer(f"it is no JSON at byte {place}")
        return found.end()

    def _end_of_deep(self, place: int, within: int) -> int:
        """The same for a value that is nested deeply, or ill-formed."""
        data, depth, at = self._data, 0, place
        within = min(within, len(data))
        while at < within and depth <= _DEEPEST:
            depth += 1 if data[at] in b"{[" else -1
            if data[at] not in b"{[}]":
                break
            if not depth:
                return at + 1
            found = _run.match(data, at + 1, within)
            at = found.end() if found is not None else within
        raise BadAnswer(
            f"the value at byte {place} is no JSON, nested deeper than {_DEEPEST} levels, or larger than "
            f"{self._limits.object_bytes} bytes"
        )

    def _after(self, place: int, end: bytes) -> int:
        """Past the comma that follows a value, or at the bracket that ends all of them."""
        found = _gap.match(self._data, place)
        if found is None or found[1] not in (b",", end):
            raise BadAnswer(f"it is no JSON at byte {place}")
        return found.end() if found[1] == b"," else found.start(1)


def _fits(data: bytes) -> bool:
    """Whether a page may be decoded at once: it is small, or its values are not so many."""
    if len(data) <= _TINY:
        return True
    return len(data) <= _AT_ONCE and (data.count(b",") + data.count(b"{")) * _BYTES_PER_VALUE <= len(data)


def next_size(size: int, received: int) -> int:
    """How many objects to ask for, after a page of `size` objects took this many bytes."""
    wanted = size * _PAGE_BYTES // max(received, 1)
    return max(SMALLEST_PAGE, min(wanted, LARGEST_PAGE))
