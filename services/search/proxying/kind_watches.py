"""Decides how a watch of one kind is served: from what search reads of members for all, or by watches of its own."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from aiohttp import web
from aiohttp.web_request import BaseRequest

from services.apiserver.core.request import ListOptions
from services.search.proxying.answer_reading import AnswerReader
from services.search.proxying.feed_watches import FeedWatch, Meant, servable
from services.search.proxying.shared_feed import SharedFeed, View
from services.search.proxying.shared_feeds import SharedFeeds, WatchRights
from services.search.proxying.union_lists import within_namespace
from services.search.proxying.union_watches import UnionWatch, fields_of, watched_path
from services.search.proxying.view_ports import AtHand, Caller, Scopes, Selected
from services.search.registries.member_facts import Gvr
from services.search.union.object_forms import ObjectForms
from services.search.union.resource_names import Asked
from services.search.union.selector_filter import SelectorFilter

READY_SECONDS: Final = 2.0
"""How long a watch waits for the list of a member that has just come."""
_LOOK_SECONDS: Final = 0.05


class KindWatches:
    """All watches of clients."""

    def __init__(self, selected: Selected, at_hand: AtHand, reader: AnswerReader) -> None:
        self._selected = selected
        self._at_hand = at_hand
        self._reader = reader
        self._feeds = SharedFeeds(at_hand)
        self._rights = WatchRights(reader, time.monotonic)

    async def answer(
        self, http: BaseRequest, asked: Asked, gvr: Gvr, options: ListOptions, forms: ObjectForms, caller: Caller
    ) -> web.StreamResponse:
        """Watch until it ends; raises ApiError where it does not begin."""
        selectors = SelectorFilter(options.label, fields_of(asked, options))
        with self._feeds.used(gvr) as feed:
            if feed is not None and selectors.evaluable:
                watch = await self._shared(feed, asked, gvr, options, selectors, forms, caller)
                if watch is not None:
                    return await watch.send(http, forms)
        own = UnionWatch(asked, gvr, options, forms, self._selected, self._reader, self._at_hand)
        return await own.send(http, caller)

    async def _shared(
        self,
        feed: SharedFeed,
        asked: Asked,
        gvr: Gvr,
        options: ListOptions,
        selectors: SelectorFilter,
        forms: ObjectForms,
        caller: Caller,
    ) -> FeedWatch | None:
        """A watch that the caller may have, on a feed; None where the feed does not have what it asks for."""
        await self._ready(feed, asked, gvr)
        known = self._selected.scopes(gvr)
        scopes = within_namespace(known, asked.namespace)
        if not servable(feed, scopes, selectors, options):
            return None
        for cluster in feed.shelf.silent & scopes.keys():
            self._rights.forget(cluster)
        paths = {cluster: watched_path(asked, gvr, scopes, cluster, self._at_hand) for cluster in scopes}
        query = {"labelSelector": options.label, "fieldSelector": fields_of(asked, options)}
        await self._rights.check(paths, query, feed.shelf.history.versions, caller)
        # Members may have come and gone meanwhile.
        if self._selected.scopes(gvr) != known or not servable(feed, scopes, selectors, options):
            return None
        meant = Meant(selectors, scopes, asked.namespace)
        view = self._view(feed, asked, options, scopes, meant, forms)
        return FeedWatch(feed, gvr, scopes, known, meant, view, options, self._selected)

    async def _ready(self, feed: SharedFeed, asked: Asked, gvr: Gvr) -> None:
        """Wait for members that have just come: watches of all clients ended with that, and begin again."""
        until = time.monotonic() + READY_SECONDS
        while time.monotonic() < until:
            scopes = within_namespace(self._selected.scopes(gvr), asked.namespace)
            if scopes.keys() <= feed.shelf.parts.keys():
                return
            await asyncio.sleep(_LOOK_SECONDS)

    @staticmethod
    def _view(
        feed: SharedFeed, asked: Asked, options: ListOptions, scopes: Scopes, meant: Meant, forms: ObjectForms
    ) -> View:
        if forms.form.view == "Table":
            # Its first row has the columns, and ages are those of the moment.
            return View(meant.change, forms, options.bookmarks, shared=False)
        same = (
            *(forms.form, options.label, fields_of(asked, options), asked.namespace, options.bookmarks),
            frozenset(scopes.items()),
        )
        return feed.view(same, lambda: View(meant.change, forms, options.bookmarks, shared=True))
