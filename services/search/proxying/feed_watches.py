"""Watches that are served from what search reads of members anyway: no client opens any in members."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Final

import structlog
from aiohttp import web
from aiohttp.web_request import BaseRequest

from services._kit.concurrency.tasks import child, end
from services._kit.kube.api import BadAnswer
from services.apiserver.core.request import ListOptions
from services.apiserver.core.status_errors import ApiError
from services.search.index.change_history import Entry, TooOld, number_of
from services.search.index.member_part import Stored
from services.search.proxying.shared_feed import Late, SharedFeed, Shown, View
from services.search.proxying.union_watches import LIFETIME
from services.search.proxying.view_ports import Scopes, Selected
from services.search.registries.member_facts import Gvr
from services.search.union.object_forms import ObjectForms
from services.search.union.selector_filter import SelectorFilter
from services.search.union.version_map import VersionMap, read_version

LOOK_SECONDS: Final = 5.0
"""How often a watch on which nothing happens is asked whether its client is still there."""
_INITIAL_END: Final = "k8s.io/initial-events-end"
_CHUNK_BYTES: Final = 256 << 10
_SLICE: Final = 200
"""Objects that are encoded for one client before others have a turn."""

log = structlog.get_logger("global_watch")


class Meant:
    """Which objects of a kind a watch is about; all of it can be told by the index."""

    def __init__(self, selectors: SelectorFilter, scopes: Scopes, namespace: str) -> None:
        self._selectors = selectors
        self._scopes = scopes
        self._namespace = namespace

    def state(self, cluster: str, key: str, stored: Stored | None) -> bool:
        """Whether a state of an object is."""
        namespaces = self._scopes.get(cluster)
        if stored is None or namespaces is None:
            return False
        namespace, _, name = key.partition("/")
        if (self._namespace and namespace != self._namespace) or (
            namespaces and namespace and namespace not in namespaces
        ):
            return False
        return self._selectors.takes_named(namespace, name, stored.shape.labels)

    def change(self, entry: Entry) -> Shown | None:
        """What a change is to the client: an object comes when it begins to be meant, and goes when it ends to be."""
        is_meant = entry.type != "DELETED" and self.state(entry.cluster, entry.key, entry.stored)
        was_meant = self.state(entry.cluster, entry.key, entry.before)
        if is_meant:
            return ("MODIFIED" if was_meant else "ADDED"), entry.stored
        if not was_meant or entry.before is None:
            return None
        return "DELETED", entry.stored if entry.type == "DELETED" else entry.before


class FeedWatch:
    """One watch of a client on a feed; raises ApiError 410 where it would go on after what is not known any more."""

    def __init__(
        self,
        feed: SharedFeed,
        gvr: Gvr,
        scopes: Scopes,
        known: Scopes,
        meant: Meant,
        view: View,
        options: ListOptions,
        selected: Selected,
    ) -> None:
        self._feed = feed
        self._gvr = gvr
        self._known = known
        self._meant = meant
        self._view = view
        self._options = options
        self._selected = selected
        self._broken = feed.broken
        self._position = feed.head
        asked = read_version(options.revision)
        self._versions = {cluster: asked.of(cluster) for cluster in scopes if asked.of(cluster) not in ("", "0")}
        self._shown_first = [
            cluster for cluster in sorted(scopes) if options.send_initial or cluster not in self._versions
        ]
        resumed = {c: number_of(v) or 0 for c, v in self._versions.items() if c not in self._shown_first}
        try:
            self._missed = feed.shelf.history.since(resumed)
        except TooOld as error:
            raise ApiError(410, "Expired", f"too old resource version: {error}; list again") from error
        self._ahead = {c: v for c, v in resumed.items() if v > feed.shelf.history.versions[c]}
        """Versions that the client has seen and the feed has not: what is older is not told again."""

    async def send(self, http: BaseRequest, forms: ObjectForms) -> web.StreamResponse:
        """Watch until it ends or the client goes."""
        response = web.StreamResponse()
        media = "application/json"
        response.headers["Content-Type"] = f"{media};stream=watch" if forms.form.view else media
        response.enable_chunked_encoding()
        try:
            await response.prepare(http)
            await self._run(http, response, forms)
            await response.write_eof()
        except ConnectionError:
            # The client went away: there is no one left to be answered.
            log.debug("watch_left", resource=self._gvr.resource)
        return response

    async def _run(self, http: BaseRequest, response: web.StreamResponse, forms: ObjectForms) -> None:
        """Return when the feed breaks off, the time is over, or other clusters serve the resource."""
        loop = asyncio.get_running_loop()
        until = loop.time() + (self._options.timeout or random.uniform(*LIFETIME))
        parts = [
            child(self._told(response, forms)),
            child(self._selected.other_scopes(self._gvr, self._known)),
        ]
        late = False
        try:
            while (left := until - loop.time()) > 0 and http.transport is not None and not http.transport.is_closing():
                wait = min(left, LOOK_SECONDS)
                done, _ = await asyncio.wait(parts, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
                if done:
                    for part in done:
                        part.result()
                    return
                behind = self._position < self._feed.first
                if late and behind:
                    # It takes nothing at all: not even that it is too late would reach it.
                    log.info("watch_too_slow", resource=self._gvr.resource)
                    http.transport.abort()
                late = behind
        finally:
            await end(*parts)

    async def _told(self, response: web.StreamResponse, forms: ObjectForms) -> None:
        try:
            await self._caught_up(response, forms)
            # From now on the lines say them.
            self._versions.clear()
            while self._feed.broken == self._broken:
                chunk, until = self._feed.read(self._position, self._view)
                if until == self._position:
                    await self._feed.news()
                    continue
                if self._ahead:
                    chunk = self._without_known(chunk, until)
                self._position = until
                if chunk:
                    await response.write(chunk)
                await asyncio.sleep(0)
            log.debug("watch_ended", resource=self._gvr.resource, reason=self._feed.why)
        except Late:
            text = "too old resource version: the client took events too slowly, and they are not kept; list again"
            refused = ApiError(410, "Expired", text)
            await response.write(b'{"type":"ERROR","object":%s}\n' % refused.encode())
        except BadAnswer as error:
            log.info("watch_broke_off", resource=self._gvr.resource, reason=str(error))

    async def _caught_up(self, response: web.StreamResponse, forms: ObjectForms) -> None:
        """Send what comes before the feed: objects that are there, and changes that the client has missed."""
        waiting, size = list[bytes](), 0
        for number, line in enumerate(self._first_lines(forms)):
            waiting.append(line)
            size += len(line)
            if size >= _CHUNK_BYTES:
                await response.write(b"".join(waiting))
                waiting, size = [], 0
            if number % _SLICE == 0:
                await asyncio.sleep(0)
            if self._feed.broken != self._broken:
                break
        if waiting:
            await response.write(b"".join(waiting))

    def _first_lines(self, forms: ObjectForms) -> Iterator[bytes]:
        feed, api_version = self._feed, self._feed.api_version
        for cluster in self._shown_first:
            part = feed.shelf.parts.get(cluster)
            if part is None:
                return
            # Of this moment, so that what comes later is what is told from then on.
            self._ahead[cluster] = feed.shelf.history.versions.get(cluster, 0)
            self._versions[cluster] = str(self._ahead[cluster])
            versions = VersionMap(self._versions).text()
            objects = [stored for key, stored in part.objects.items() if self._meant.state(cluster, key, stored)]
            for stored in objects:
                yield forms.event("ADDED", feed.object(cluster, stored, versions))
        for entry in self._missed:
            self._versions[entry.cluster] = str(entry.version)
            shown = self._meant.change(entry)
            if shown is not None:
                versions = VersionMap(self._versions).text()
                yield forms.event(shown[0], feed.object(entry.cluster, shown[1], versions))
        self._missed = []
        if self._options.send_initial and self._options.bookmarks:
            versions = VersionMap(self._versions).text()
            yield forms.bookmark(feed.shelf.kind, api_version, versions, {_INITIAL_END: "true"})

    def _without_known(self, chunk: bytes, until: int) -> bytes:
        """Leave out what the client has seen already; not much of it, and not for long."""
        feed, ahead = self._feed, self._ahead
        if any(entry.version <= ahead.get(entry.cluster, -1) for entry in feed.changes(self._position, until)):
            chunk = b"".join(
                feed.line(place, self._view)
                for place in range(self._position, until)
                if all(entry.version > ahead.get(entry.cluster, -1) for entry in feed.changes(place, place + 1))
            )
        if until == feed.head:
            versions = feed.shelf.history.versions
            self._ahead = {cluster: version for cluster, version in ahead.items() if versions.get(cluster, 0) < version}
        return chunk


def servable(feed: SharedFeed, scopes: Scopes, selectors: SelectorFilter, options: ListOptions) -> bool:
    """Whether a feed has all that a watch asks for: every member is read, and its versions can be compared."""
    history = feed.shelf.history
    if not selectors.evaluable or any(cluster not in history.versions for cluster in scopes):
        return False
    asked = read_version(options.revision)
    for cluster in scopes:
        version = asked.of(cluster)
        if version in ("", "0"):
            continue
        number = number_of(version)
        if number is None or (options.send_initial and number > history.versions[cluster]):
            return False
    return True
