"""Answers get, list and watch from the collections, as the API server answers them from its store."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from schemas.manifest import Manifest
from services._kit.base.clock import Clock
from services.apiserver.core.request import ListOptions, RequestInfo, revision_of
from services.apiserver.core.status_errors import bad_request, expired, not_found
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.reads.list_requests import list_page, refuse_future
from services.apiserver.reads.list_stream import as_json, parts_of
from services.apiserver.reads.request_selectors import Selection
from services.apiserver.reads.watch_requests import WatchRequest
from services.apiserver.store.store_port import Key
from services.apiserver.tables.printer import table
from services.gateway.protocol.rendered_views import Encoder, FactView
from services.gateway.protocol.served_kinds import ServedKind
from services.gateway.views.catalog import Catalog, Collection
from services.gateway.views.view_shapes import GROUP

PATIENCE: Final = 3.0
"""Seconds that a request waits for a revision the log has not reached here."""


class Reader:
    """Reads of all collections; `grown` waits until the catalog changed, `watches` counts the watches that run."""

    def __init__(self, catalog: Catalog, encoder: Encoder, clock: Clock, grown: Callable[[], Awaitable[None]]) -> None:
        self._catalog = catalog
        self._grown = grown
        self._clock = clock
        self.encoder = encoder
        self._turns = asyncio.Lock()
        self.watches = 0

    def table(self, kind: Kind, objects: list[Manifest], include: str, version: str, columns: bool) -> Manifest:
        """The columns and rows of a Table."""
        assert isinstance(kind, ServedKind)
        now = dt.datetime.fromtimestamp(self._clock.now(), dt.UTC)
        return table(kind.printer, objects, include, version, columns, now)

    async def get(self, info: RequestInfo, view: FactView) -> bytes:
        """One object; raises ApiError 404."""
        resource = view.kind.resource
        entry = self._catalog[resource.plural].get(Key(GROUP, resource.plural, info.namespace, info.name))
        if entry is None:
            raise not_found(resource, info.name)
        await view.load([entry])
        return view.encoded(entry)

    async def listing(self, info: RequestInfo, view: FactView, options: ListOptions) -> bytes:
        """Objects of a collection; raises ApiError 400, 410 and 504."""
        collection = self._catalog[view.kind.resource.plural]
        await self._reach(collection, options)
        selection = _selection(view, info, options)
        page = await list_page(collection, view.kind, info.namespace, options, selection, self._turns)
        return b"".join([chunk async for chunk in as_json(view, page, parts_of(view, page, self._turns))])

    async def watching(self, info: RequestInfo, view: FactView, options: ListOptions) -> WatchRequest:
        """A watch that can begin; raises ApiError 400 and 504."""
        collection = self._catalog[view.kind.resource.plural]
        await self._reach(collection, options)
        return WatchRequest(collection, view, info.namespace, options, _selection(view, info, options))

    async def frames(self, watch: WatchRequest, seconds: float) -> AsyncIterator[bytes]:
        """Chunks of frames until the time is over."""
        self.watches += 1
        try:
            async for chunk in watch.frames(seconds):
                yield chunk
        finally:
            self.watches -= 1

    async def _reach(self, collection: Collection, options: ListOptions) -> None:
        """Wait until the collection has come to the revision that is asked for; raises ApiError 504 and 410.

        Afterwards a list asks for a revision of this instance.
        """
        if not options.revision.isdecimal() and options.revision:
            raise bad_request(f"resourceVersion: Invalid value: {options.revision!r}: it is no whole number")
        asked = revision_of(options.revision)
        own = collection.own(asked) if asked else 0
        try:
            async with asyncio.timeout(PATIENCE):
                while collection.revision < own:
                    await self._grown()
        except TimeoutError:
            refuse_future(own, collection.revision, retry=1)
        if options.watch or own == asked:
            return
        if options.match == "Exact" or options.limit:
            raise expired(asked, collection.revision)
        options.revision = str(own)


def _selection(view: FactView, info: RequestInfo, options: ListOptions) -> Selection:
    """The selectors of a request, with the name that its path has."""
    named = [f"metadata.name={info.name}"] if info.name else []
    return Selection(view.kind, options.label, ",".join([*named, *filter(None, [options.field])]))
