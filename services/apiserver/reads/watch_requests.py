"""Watches: what there is at their beginning, changes with selector transitions, bookmarks and expiry."""

import asyncio
from collections.abc import AsyncIterator

from services.apiserver.core import status_errors as status
from services.apiserver.core.request import ListOptions, revision_of
from services.apiserver.reads.list_requests import matching, present, refuse_future, slices
from services.apiserver.reads.request_selectors import Selection
from services.apiserver.reads.responses import View, error_frame
from services.apiserver.store.store_port import Compacted, Entry, Event, Reads

BOOKMARK_SECONDS = 60.0
TICK_SECONDS = 5.0
CHUNK_BYTES = 512 << 10
"""Bytes of frames that are sent together."""


class WatchRequest:
    """A watch about to run: everything that can be refused with a plain answer is checked in the constructor."""

    def __init__(self, store: Reads, view: View, namespace: str, options: ListOptions, selection: Selection) -> None:
        self._store, self._view, self._namespace = store, view, namespace
        self._options, self._selection = options, selection
        self._kind = view.kind
        self._asked = revision_of(options.revision)
        self._initial: list[Entry] | None = None
        self._too_old: Compacted | None = None
        start = self._asked
        if options.send_initial:
            refuse_future(start, store.revision, retry=1)
        if options.send_initial or (start == 0 and options.initial is None):
            self._initial = list(present(store, self._kind, namespace, selection))
        if self._initial is not None or start == 0:
            start = store.revision
        try:
            self._cursor = store.watch(self._kind.store_group, self._kind.resource.plural, start)
        except Compacted as e:
            self._too_old = e

    async def frames(self, seconds: float) -> AsyncIterator[bytes]:
        """Chunks of frames until the time is over or the history was lost; an empty one now and then when quiet."""
        view, options = self._view, self._options
        if self._too_old is not None:
            yield error_frame(status.expired(self._too_old.requested, self._too_old.floor).status)
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        first = True
        cursor = self._cursor
        if self._initial is not None:
            for some in slices(self._initial):
                entries, _ = await matching(some, self._selection)
                if view.fetches:
                    await view.load(entries)
                if entries:
                    yield b"".join([view.initial(e, columns=first and i == 0) for i, e in enumerate(entries)])
                    first = False
                await asyncio.sleep(0)
            if options.send_initial and options.bookmarks:
                yield view.bookmark(cursor.revision, {"k8s.io/initial-events-end": "true"})
            self._initial = None
        sent = cursor.revision
        next_bookmark = loop.time() + BOOKMARK_SECONDS
        while True:
            wait = min(end - loop.time(), TICK_SECONDS)
            if wait <= 0:
                break
            try:
                events = await cursor.next(wait)
            except Compacted as e:
                yield error_frame(status.expired(e.requested, e.floor).status)
                return
            chunk, size = [], 0
            if view.fetches:
                both = [(event.entry, None if self._selection.everything else event.prev) for event in events]
                await view.load([entry for pair in both for entry in pair if entry is not None])
            for event in events:
                frame = self._frame(event, columns=first)
                if frame is not None:
                    first = False
                    chunk.append(frame)
                    sent, size = event.revision, size + len(frame)
                if size > CHUNK_BYTES:
                    # One event may be a megabyte; others wait until the client took it.
                    yield b"".join(chunk)
                    chunk, size = [], 0
            if chunk:
                yield b"".join(chunk)
            if options.bookmarks and loop.time() >= next_bookmark:
                next_bookmark = loop.time() + BOOKMARK_SECONDS
                if cursor.revision > sent:
                    sent = cursor.revision
                    yield view.bookmark(sent)
            if not events:
                yield b""
        if options.bookmarks and cursor.revision > sent:
            yield view.bookmark(cursor.revision)

    def _frame(self, event: Event, *, columns: bool) -> bytes | None:
        """An event as this watcher sees it: entering and leaving the selection are ADDED and DELETED."""
        key = event.entry.key
        if self._namespace and key.namespace != self._namespace:
            return None
        selection, view, kind, prev = self._selection, self._view, self._kind, event.prev
        if selection.everything:
            return view.event(event, 2 if event.deleted else 1 if prev is not None else 0, columns=columns)
        if selection.name and key.name != selection.name:
            return None
        was = prev is not None and selection.matches(kind.from_store(prev.obj))
        if event.deleted:
            return view.event(event, 2, columns=columns) if was else None
        if selection.matches(kind.from_store(event.entry.obj)):
            return view.event(event, 1 if was else 0, columns=columns)
        return view.left(prev, event.revision, columns=columns) if was and prev is not None else None
