"""Last changes of one kind in all members, in the order in which they came: what watches that go on have missed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from services.search.index.member_part import OVERHEAD, MemberPart, Stored

MOST_ENTRIES: Final = 10_000
MOST_BYTES: Final = 16 << 20
"""Bytes that the changes of one kind take, about."""
_TRIMMED: Final = 4
"""What is too much goes in parts of this share of the whole."""


class TooOld(Exception):
    """What came after a version is not known any more; the text names the member."""


class Entry(Struct, frozen=True, gc=False):
    """One change: ADDED, MODIFIED or DELETED; `stored` is the last state, `before` the one until then."""

    type: str
    cluster: str
    key: str
    stored: Stored
    before: Stored | None
    version: int


class ChangeHistory:
    """Bounded; versions of members are compared, so that one with versions that are no numbers is not in it."""

    def __init__(self, most_entries: int = MOST_ENTRIES, most_bytes: int = MOST_BYTES) -> None:
        self.versions: dict[str, int] = {}
        """Up to where each member was read."""
        self._complete_after: dict[str, int] = {}
        self._entries: list[Entry] = []
        self._bytes = 0
        self._most_entries = most_entries
        self._most_bytes = most_bytes

    def begin(self, part: MemberPart) -> None:
        """A member was listed: what it was before does not lead to what it is now."""
        self.end(part.cluster)
        version = number_of(part.version)
        if version is not None:
            self.versions[part.cluster] = self._complete_after[part.cluster] = version

    def end(self, cluster: str) -> None:
        """A member is not read any more."""
        if self.versions.pop(cluster, None) is not None:
            del self._complete_after[cluster]
            self._entries = [entry for entry in self._entries if entry.cluster != cluster]
            self._bytes = sum(map(_size, self._entries))

    def add(self, entry: Entry) -> None:
        """Keep a change, and forget the oldest where there are too many."""
        self.reached(entry.cluster, entry.version)
        self._entries.append(entry)
        self._bytes += _size(entry)
        if len(self._entries) > self._most_entries or self._bytes > self._most_bytes:
            count = len(self._entries) // _TRIMMED + 1
            for gone in self._entries[:count]:
                self._bytes -= _size(gone)
                self._complete_after[gone.cluster] = max(self._complete_after[gone.cluster], gone.version)
            del self._entries[:count]

    def reached(self, cluster: str, version: int) -> bool:
        """Note up to where a member was read; whether that is further than before."""
        known = self.versions.get(cluster)
        if known is None or version <= known:
            return False
        self.versions[cluster] = version
        return True

    def since(self, versions: Mapping[str, int]) -> list[Entry]:
        """The changes of some members after a version of each, in order; raises TooOld."""
        for cluster, version in versions.items():
            first = self._complete_after.get(cluster)
            if first is None or version < first:
                raise TooOld(f"cluster {cluster}: version {version} is too old, changes are known after {first}")
        if all(self.versions[cluster] <= version for cluster, version in versions.items()):
            return []
        return [entry for entry in self._entries if entry.version > versions.get(entry.cluster, entry.version)]


def number_of(version: str) -> int | None:
    """A resourceVersion that can be compared; None for any other."""
    return int(version) if version.isascii() and version.isdecimal() and len(version) < 20 else None


def _size(entry: Entry) -> int:
    return len(entry.stored.data) + OVERHEAD + (len(entry.before.data) if entry.before is not None else 0)
