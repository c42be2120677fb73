"""Lists and watches over HTTP: what a request asks for is read, the objects are taken, the answer is begun."""

from __future__ import annotations

import random

import msgspec
from aiohttp import web

from services.apiserver.core import status_errors as status
from services.apiserver.core.request import ListOptions, RequestInfo
from services.apiserver.http.handler import Answer, HttpFace, Request
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.reads.list_requests import Page, list_page, turn
from services.apiserver.reads.list_stream import is_short
from services.apiserver.reads.request_selectors import Selection, refuse_unreadable
from services.apiserver.reads.responses import View
from services.apiserver.reads.watch_requests import WatchRequest
from services.apiserver.store.store_port import Reads

_WATCH_SECONDS = (1800.0, 3600.0)


class CollectionReads:
    """Answers lists and watches from a store."""

    def __init__(self, store: Reads, face: HttpFace) -> None:
        self._store = store
        self._face = face

    async def answer(self, request: Request, info: RequestInfo, kind: Kind, view: View) -> Answer | web.StreamResponse:
        """List or watch a collection; raises ApiError."""
        options, selection = self.asked(request, info, kind)
        if options.watch:
            async with turn(self._face.turns, self._store, kind, info.namespace):
                watch = WatchRequest(self._store, view, info.namespace, options, selection)
            return await self._face.stream(request, view, watch, options.timeout or random.uniform(*_WATCH_SECONDS))
        return self.listed(request, view, await self.page(kind, info.namespace, options, selection))

    def asked(self, request: Request, info: RequestInfo, kind: Kind) -> tuple[ListOptions, Selection]:
        """The options and selectors of a request; raises 400 and 422."""
        options = ListOptions(request.query)
        options.watch = options.watch or info.watch_prefix
        refuse_unreadable(options.label, options.field)
        options.check()
        field = options.field
        if info.watch_prefix and info.name and not field:
            field = f"metadata.name={info.name}"
        selection = Selection(kind, options.label, field)
        if info.watch_prefix and info.name and selection.name != info.name:
            raise status.bad_request("both a name and a field selector provided; please provide one or the other.")
        return options, selection

    async def page(self, kind: Kind, namespace: str, options: ListOptions, selection: Selection) -> Page:
        """The objects of a list."""
        return await list_page(self._store, kind, namespace, options, selection, self._face.turns)

    def listed(self, request: Request, view: View, page: Page) -> Answer | web.StreamResponse:
        """The answer that a list is: a long one is sent in slices."""
        if is_short(page):
            return Answer(200, view.whole_list(page.entries, page.meta))
        return self._face.long_list(request, view, page)

    def computed_list(self, request: Request, info: RequestInfo, kind: Kind) -> Answer:
        """A list of objects that are made when they are read; raises 405 for kinds that have none, and for watches."""
        found = kind.computed(info.namespace, "") if request.method == "GET" else None
        options, selection = self.asked(request, info, kind)
        if found is None or options.watch:
            raise status.method_not_allowed()
        resource = kind.resource
        items = [obj for obj in found if selection.matches(obj)]
        body = {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": {}, "items": items}
        return Answer(200, msgspec.json.encode(body))

    @staticmethod
    def computed_item(request: Request, info: RequestInfo, kind: Kind) -> Answer:
        """One object that is made when it is read; raises 404."""
        found = kind.computed(info.namespace, info.name) if request.method == "GET" else None
        if found is None:
            raise status.no_such_path()
        if not found:
            raise status.not_found(kind.resource, info.name)
        return Answer(200, msgspec.json.encode(found[0]))
