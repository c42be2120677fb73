"""The changes of one kind in all members for every client that watches them: each is read, marked and encoded once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Final

from msgspec import Struct

from services.search.index.change_history import Entry
from services.search.index.member_index import Shelf
from services.search.index.member_part import Stored
from services.search.union.object_forms import ObjectForms
from services.search.union.provenance_marks import marked
from services.search.union.version_map import VersionMap

WINDOW_BYTES: Final = 32 << 20
"""Bytes of objects that are kept for clients that have not taken them yet; one that needs older ones is dropped."""
VERSIONS_BYTES: Final = 64 << 20
"""Bytes of versions beside them, which are 28 KB for each line over a thousand members."""
WINDOW_LINES: Final = 20_000
CHUNK_LINES: Final = 256
"""Lines that are written to a client at a time."""
GATHER_SECONDS: Final = 0.02
"""How long changes are collected before clients hear of them."""
BOOKMARK_SECONDS: Final = 10.0
"""Between bookmarks while members say that nothing changed."""
MOST_VIEWS: Final = 1_000
"""Requests that share their bytes with equal ones."""
_TRIMMED: Final = 8

Shown = tuple[str, Stored]
"""ADDED, MODIFIED or DELETED, and the state that is shown."""


class View(Struct, frozen=True, eq=False):
    """What a client wants of changes: equal requests have one view, and share their bytes."""

    changes: Callable[[Entry], Shown | None]
    forms: ObjectForms
    bookmarks: bool
    shared: bool
    """Whether lines are the same for all clients of the view; those of a table are not."""


class Late(Exception):
    """A client has not taken what is not kept any more."""


class Line(Struct, gc=False):
    """A change, or a bookmark without one, with the versions of all members up to then."""

    entry: Entry | None
    versions: str
    size: int = 0
    """Bytes of the object, without the versions."""


class SharedFeed:
    """The lines since a client watches; positions count them. Closed after the last client."""

    def __init__(self, shelf: Shelf, kind: str) -> None:
        self.shelf = shelf
        self.broken = 0
        """How often what follows was not complete: a watch that began before that has to end."""
        self.why = ""
        self._kind = kind
        self._lines: list[Line] = []
        self.first = 0
        """The position of the oldest line that is kept."""
        self._shown = 0
        self._bytes = self._versions_bytes = 0
        self._marked: dict[tuple[int, bool], bytes] = {}
        self._chunks: dict[tuple[int, View], tuple[bytes, int]] = {}
        self._views: dict[Hashable, View] = {}
        self._news = asyncio.Event()
        self._telling: asyncio.TimerHandle | None = None
        self._bookmarked_at = 0.0
        self._loop = asyncio.get_running_loop()
        shelf.audience = self

    def close(self) -> None:
        """Hear of nothing any more."""
        self.shelf.audience = None
        if self._telling is not None:
            self._telling.cancel()

    @property
    def head(self) -> int:
        """The position after the last line."""
        return self.first + len(self._lines)

    def versions(self) -> dict[str, str]:
        """Up to where each member was read, as text."""
        return {cluster: str(version) for cluster, version in self.shelf.history.versions.items()}

    def view(self, asked: Hashable, make: Callable[[], View]) -> View:
        """The view of equal requests."""
        found = self._views.get(asked)
        if found is None:
            if len(self._views) >= MOST_VIEWS:
                self._views.clear()
            found = self._views[asked] = make()
        return found

    def told(self, entry: Entry) -> None:
        """Take a change in."""
        self._append(entry)

    def reached(self) -> None:
        """Tell clients of versions now and then, though nothing changed: theirs grow old otherwise."""
        now = self._loop.time()
        if now - self._bookmarked_at >= BOOKMARK_SECONDS:
            self._bookmarked_at = now
            self._append(None)

    def broke_off(self, cluster: str, why: str) -> None:
        """End all watches that are open: members that are not heard are not left out in silence."""
        self.broken += 1
        self.why = f"cluster {cluster}: {why}"
        self._tell()

    def read(self, position: int, view: View) -> tuple[bytes, int]:
        """The next lines from a position, and the position after them; raises Late, and BadAnswer."""
        if position < self.first:
            raise Late
        known = self._chunks.get((position, view))
        if known is None:
            # Up to what all have heard of, and to places where those who are behind meet.
            until = max(position, min(self._shown, (position // CHUNK_LINES + 1) * CHUNK_LINES))
            lines = [self.line(place, view) for place in range(position, until)]
            known = b"".join(lines), until
            if view.shared:
                self._chunks[position, view] = known
        return known

    def line(self, position: int, view: View) -> bytes:
        """One line for a view; empty where it is not meant. Raises BadAnswer."""
        line = self._lines[position - self.first]
        if line.entry is None:
            return view.forms.bookmark(self._kind, self.api_version, line.versions, {}) if view.bookmarks else b""
        shown = view.changes(line.entry)
        if shown is None:
            return b""
        change, stored = shown
        place = position, stored is line.entry.stored
        data = self._marked.get(place)
        if data is None:
            data = self._marked[place] = self.object(line.entry.cluster, stored, line.versions)
            line.size += len(data) - len(line.versions)
            self._bytes += len(data) - len(line.versions)
        return view.forms.event(change, data)

    def changes(self, start: int, stop: int) -> list[Entry]:
        """The changes between two positions; raises Late."""
        if start < self.first:
            raise Late
        lines = self._lines[start - self.first : stop - self.first]
        return [line.entry for line in lines if line.entry is not None]

    @property
    def api_version(self) -> str:
        """Of the objects."""
        return self.shelf.gvr.api_version

    def object(self, cluster: str, stored: Stored, versions: str) -> bytes:
        """An object with the versions of all members; raises BadAnswer."""
        return marked(self.shelf.data(stored), cluster, versions)

    async def news(self) -> None:
        """Return when there is more, or the feed broke off."""
        await self._news.wait()

    def _append(self, entry: Entry | None) -> None:
        line = Line(entry, VersionMap(self.versions()).text())
        line.size = len(entry.stored.data) if entry is not None else 0
        self._bytes += line.size
        self._versions_bytes += len(line.versions)
        self._lines.append(line)
        too_large = self._bytes > WINDOW_BYTES or self._versions_bytes > VERSIONS_BYTES
        if too_large or len(self._lines) > WINDOW_LINES:
            self._trim(max(1, len(self._lines) // _TRIMMED))
        if self._telling is None:
            self._telling = self._loop.call_later(GATHER_SECONDS, self._tell)

    def _trim(self, count: int) -> None:
        for place in range(self.first, self.first + count):
            self._marked.pop((place, True), None)
            self._marked.pop((place, False), None)
        self._bytes -= sum(line.size for line in self._lines[:count])
        self._versions_bytes -= sum(len(line.versions) for line in self._lines[:count])
        del self._lines[:count]
        self.first += count

    def _tell(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        # Those who are in step ask for the same chunk next.
        self._chunks.clear()
        self._shown = self.head
        news, self._news = self._news, asyncio.Event()
        news.set()
