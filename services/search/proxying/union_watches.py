"""Watches of one client in all clusters, as one: it ends when one of them does, or another cluster comes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Final

import structlog
from aiohttp import web
from aiohttp.web_request import BaseRequest

from services._kit.concurrency.tasks import all_of, child, end
from services._kit.kube.api import BadAnswer
from services.apiserver.core.request import ListOptions
from services.apiserver.core.status_errors import ApiError
from services.search.proxying.answer_reading import AnswerReader, LineStream, bad_answer
from services.search.proxying.union_lists import member_path, single_namespace, within_namespace
from services.search.proxying.view_ports import AtHand, Caller, Scopes, Selected
from services.search.registries.member_facts import Gvr
from services.search.union.object_forms import ObjectForms
from services.search.union.resource_names import Asked
from services.search.union.selector_filter import SelectorFilter
from services.search.union.version_map import read_version
from services.search.union.watch_merge import WatchMerge

LIFETIME: Final = (1800.0, 3600.0)
"""Seconds after which a watch without a time of its own ends; drawn from this range so that not all return at once."""
_AT_ONCE: Final = 64
"""Watches of one client that are opened at once."""
_LOOK_SECONDS: Final = 5.0
"""How often a watch on which nothing happens is asked whether its client is still there."""
_GRACE_SECONDS: Final = 5.0
"""A member may end its part so much later than asked."""

log = structlog.get_logger("global_watch")


class UnionWatch:
    """One watch of a client; raises ApiError 400 for selectors that are none."""

    def __init__(
        self,
        asked: Asked,
        gvr: Gvr,
        options: ListOptions,
        forms: ObjectForms,
        selected: Selected,
        reader: AnswerReader,
        at_hand: AtHand,
    ) -> None:
        self._asked = asked
        self._gvr = gvr
        self._options = options
        self._selected = selected
        self._reader = reader
        self._at_hand = at_hand
        self._known = selected.scopes(gvr)
        self._scopes = within_namespace(self._known, asked.namespace)
        self._fields = fields_of(asked, options)
        self._filter = SelectorFilter(options.label, self._fields)
        self._versions = read_version(options.revision)
        self._merge = WatchMerge(
            self._scopes, self._versions, forms, initial=options.send_initial, bookmarks=options.bookmarks
        )
        self._form = forms.form
        self._streams: list[LineStream] = []
        self._turn = asyncio.Lock()

    async def send(self, http: BaseRequest, caller: Caller) -> web.StreamResponse:
        """Watch until it ends or the client goes; raises ApiError where a cluster's watch does not begin."""
        try:
            await self._open(caller)
            response = web.StreamResponse()
            media = "application/json"
            response.headers["Content-Type"] = f"{media};stream=watch" if self._form.view else media
            response.enable_chunked_encoding()
            try:
                await response.prepare(http)
                await self._run(http, response)
                await response.write_eof()
            except ConnectionError:
                # The client went away: there is no one left to be answered.
                log.debug("watch_left", resource=self._gvr.resource)
            return response
        finally:
            await asyncio.gather(*(stream.close() for stream in self._streams), return_exceptions=True)

    async def _open(self, caller: Caller) -> None:
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(cluster: str) -> None:
            async with gate:
                path = watched_path(self._asked, self._gvr, self._scopes, cluster, self._at_hand)
                self._streams.append(await self._reader.stream(cluster, path, self._query(cluster), caller))

        await all_of(one(cluster) for cluster in sorted(self._scopes))

    async def _run(self, http: BaseRequest, response: web.StreamResponse) -> None:
        """Return when a part of it ends, its time is over, or other clusters serve the resource."""
        loop = asyncio.get_running_loop()
        until = loop.time() + (self._options.timeout or random.uniform(*LIFETIME)) + _GRACE_SECONDS
        parts = [child(self._one(stream, response)) for stream in self._streams]
        parts.append(child(self._selected.other_scopes(self._gvr, self._known)))
        try:
            while loop.time() < until and http.transport is not None and not http.transport.is_closing():
                done, _ = await asyncio.wait(parts, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if done:
                    for part in done:
                        part.result()
                    return
        finally:
            await end(*parts)

    async def _one(self, stream: LineStream, response: web.StreamResponse) -> None:
        """Hand on what one cluster sends until it ends."""
        scope = self._filter.within(self._scopes[stream.cluster])
        try:
            while lines := await stream.lines():
                # One after the other: a client that reads slowly holds up its clusters, and nothing is kept for it.
                async with self._turn:
                    frames: list[bytes] = []
                    try:
                        for line in lines:
                            frames.append(self._merge.frame(stream.cluster, line, scope))
                            if self._merge.ended:
                                return
                    finally:
                        await response.write(b"".join(frames))
                    await asyncio.sleep(0)
        except (ApiError, BadAnswer) as error:
            refused = error if isinstance(error, ApiError) else bad_answer(stream.cluster, error)
            log.info("watch_broke_off", cluster=stream.cluster, resource=self._gvr.resource, reason=str(refused))

    def _query(self, cluster: str) -> Mapping[str, str]:
        options = self._options
        return {
            "watch": "true",
            "labelSelector": options.label,
            "fieldSelector": self._fields,
            "resourceVersion": self._versions.of(cluster),
            "resourceVersionMatch": options.match,
            "sendInitialEvents": "" if options.initial is None else str(options.initial).lower(),
            # Always: without bookmarks the versions of quiet clusters grow too old to go on from.
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "" if options.timeout is None else str(options.timeout),
        }


def fields_of(asked: Asked, options: ListOptions) -> str:
    """The selector of fields of a watch, which may name one object in its path."""
    named = f"metadata.name={asked.name}" if asked.name else ""
    return ",".join(part for part in (options.field, named) if part)


def watched_path(asked: Asked, gvr: Gvr, scopes: Scopes, cluster: str, at_hand: AtHand) -> str:
    """What a watch concerns in one member."""
    namespace = asked.namespace
    if not namespace and at_hand.namespaced(cluster, gvr):
        namespace = single_namespace(scopes[cluster])
    return member_path(gvr, namespace)
