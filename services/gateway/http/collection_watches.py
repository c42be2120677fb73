"""Serves watches: every change from a revision on, one line each, until the timeout or the end of the kept history."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Final

from services.gateway.http.collection_reads import CHUNK, Reader
from services.gateway.protocol import rendered_views as views
from services.gateway.protocol.query_selectors import QueryOptions
from services.gateway.protocol.served_resources import Resource
from services.gateway.protocol.status_answers import Failure, Form, expired
from services.gateway.views.catalog import Change, Collection, Entry, Gone
from services.gateway.views.view_shapes import encode

BOOKMARK_SECONDS: Final = 30.0
IDLE_SECONDS: Final = 5.0
LIFETIME: Final = (1800.0, 3600.0)
"""Seconds after which a watch without a time of its own ends; drawn from this range so that not all return at once."""


class CollectionWatch:
    """What one watch asks for."""

    def __init__(self, resource: Resource, form: Form, options: QueryOptions) -> None:
        self.resource = resource
        self.form = form
        self.options = options
        self.initial = options.initial or options.revision in ("", "0")
        """Whether it begins with everything there is."""


class Watching:
    """Runs watches over what a reader reads; `running` counts them."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.running = 0

    async def frames(self, watch: CollectionWatch) -> AsyncIterator[bytes]:
        """Lines of a watch in chunks; an empty chunk now and then while nothing happens."""
        self.running += 1
        try:
            async for chunk in self._frames(watch):
                yield chunk
        except (Gone, Failure) as error:
            failure = error if isinstance(error, Failure) else expired(watch.options.revision or "0")
            yield views.frame("ERROR", failure.encode())
        finally:
            self.running -= 1

    async def _frames(self, watch: CollectionWatch) -> AsyncIterator[bytes]:
        collection, options = self._reader.collection(watch.resource), watch.options
        loop = asyncio.get_running_loop()
        end = loop.time() + (options.timeout or random.uniform(*LIFETIME))
        cursor = await self._begin(watch, collection)
        first = True
        if watch.initial:
            entries = [entry for entry in collection.select(options.namespace) if options.wants(entry)]
            for start in range(0, len(entries), CHUNK):
                part = entries[start : start + CHUNK]
                yield b"".join(
                    [await self._line(watch, "ADDED", entry, head=first and not i) for i, entry in enumerate(part)]
                )
                first = False
            if options.initial and options.bookmarks:
                yield views.bookmark(watch.resource, watch.form, collection.version(cursor), initial_end=True)
        sent, next_bookmark = cursor, loop.time() + BOOKMARK_SECONDS
        while (left := end - loop.time()) > 0:
            changes = collection.since(cursor)
            lines = [line for change in changes if (line := await self._change(watch, change, head=first))]
            if changes:
                cursor = changes[-1].revision
            if lines:
                first, sent = False, cursor
                yield b"".join(lines)
            if changes:
                continue
            cursor = max(cursor, collection.revision)
            if options.bookmarks and cursor > sent and loop.time() >= next_bookmark:
                sent, next_bookmark = cursor, loop.time() + BOOKMARK_SECONDS
                yield views.bookmark(watch.resource, watch.form, collection.version(cursor))
                continue
            try:
                async with asyncio.timeout(min(left, IDLE_SECONDS)):
                    await self._reader.grown()
            except TimeoutError:
                yield b""
        if options.bookmarks and cursor > sent:
            yield views.bookmark(watch.resource, watch.form, collection.version(cursor))

    async def _begin(self, watch: CollectionWatch, collection: Collection) -> int:
        """The revision after which a watch begins; raises Failure or Gone when it cannot."""
        asked = watch.options.revision
        if asked in ("", "0"):
            return collection.revision
        revision, ours = collection.parse(int(asked))
        await self._reader.reach(collection, revision, asked)
        if watch.initial:
            return collection.revision
        if not ours:
            raise expired(asked)
        return revision

    async def _change(self, watch: CollectionWatch, change: Change, *, head: bool) -> bytes:
        """A change as this watch sees it: entering and leaving the selection are ADDED and DELETED."""
        options = watch.options
        before = change.before is not None and options.wants(change.before)
        after = change.after is not None and options.wants(change.after)
        if not before and not after:
            return b""
        word = "DELETED" if not after else "MODIFIED" if before else "ADDED"
        entry = change.after if after else change.before
        assert entry is not None
        if change.after is not None and not after:
            # It left the selection: its last matching state, at the revision of the change.
            entry = Entry(entry.place, entry.source, change.revision, change.version, entry.created)
        return await self._line(watch, word, entry, head=head)

    async def _line(self, watch: CollectionWatch, word: str, entry: Entry, *, head: bool) -> bytes:
        resource, form = watch.resource, watch.form
        if form.table:
            include = watch.options.include
            whole = await self._reader.encoder.one(resource, entry) if include == "Object" else None
            row = views.row(entry, resource, form, include, self._reader.clock.now(), whole)
            return views.frame(
                word, encode(views.table(resource, form, {"resourceVersion": entry.version}, [row], head=head))
            )
        if form.partial:
            return views.frame(word, encode(views.partial(entry, form)))
        return views.frame(word, await self._reader.encoder.one(resource, entry))
