"""The feeds of all kinds that clients watch, and whether a caller may watch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from weakref import WeakValueDictionary

from msgspec import Struct

from services._kit.concurrency.tasks import all_of
from services.apiserver.core.status_errors import ApiError
from services.search.proxying.answer_reading import AnswerReader
from services.search.proxying.shared_feed import SharedFeed
from services.search.proxying.view_ports import AtHand, Caller
from services.search.registries.member_facts import Gvr

ALLOWED_SECONDS: Final = 10.0
"""How long what a member permitted to a caller is not asked again."""
REFUSED_SECONDS: Final = 1.0
_MOST_KNOWN: Final = 50_000
_AT_ONCE: Final = 64


class _Question(Struct, frozen=True):
    cluster: str
    path: str
    label: str
    fields: str
    caller: Caller


class SharedFeeds:
    """Makes a feed for the first client that watches a kind, and closes it after the last."""

    def __init__(self, at_hand: AtHand) -> None:
        self._at_hand = at_hand
        self._feeds: dict[Gvr, SharedFeed] = {}
        self._users: dict[Gvr, int] = {}

    @contextmanager
    def used(self, gvr: Gvr) -> Iterator[SharedFeed | None]:
        """The feed of a kind for as long as it is used; None where nothing is read of it."""
        shelf = self._at_hand.shelf(gvr)
        if shelf is None:
            yield None
            return
        feed = self._feeds.get(gvr)
        if feed is None:
            feed = self._feeds[gvr] = SharedFeed(shelf, shelf.kind)
        self._users[gvr] = self._users.get(gvr, 0) + 1
        try:
            yield feed
        finally:
            self._users[gvr] -= 1
            if not self._users[gvr]:
                del self._users[gvr]
                self._feeds.pop(gvr).close()


class WatchRights:
    """Asks members in a caller's name whether it may watch, as a watch of its own would; answers hold for a while."""

    def __init__(self, reader: AnswerReader, clock: Callable[[], float]) -> None:
        self._reader = reader
        self._clock = clock
        self._known: dict[_Question, tuple[float, ApiError | None]] = {}
        self._asking: WeakValueDictionary[_Question, asyncio.Lock] = WeakValueDictionary()

    async def check(
        self, paths: Mapping[str, str], query: Mapping[str, str], versions: Mapping[str, int], caller: Caller
    ) -> None:
        """Raise the ApiError of the first member that refuses, or does not answer. `paths` are by member."""
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(cluster: str, path: str) -> None:
            asked = _Question(cluster, path, query.get("labelSelector", ""), query.get("fieldSelector", ""), caller)
            lock = self._asking.get(asked)
            if lock is None:
                lock = self._asking[asked] = asyncio.Lock()
            async with lock:
                until, refusal = self._known.get(asked, (0.0, None))
                if until <= self._clock():
                    async with gate:
                        refusal = await self._asked(asked, str(versions[cluster]))
                    self._remember(asked, refusal)
            if refusal is not None:
                raise ApiError(refusal.code, refusal.reason, refusal.message, refusal.details, refusal.headers)

        await all_of(one(cluster, path) for cluster, path in sorted(paths.items()))

    def forget(self, cluster: str) -> None:
        """Ask a member again: it has not been heard for a while."""
        for asked in [asked for asked in self._known if asked.cluster == cluster]:
            del self._known[asked]

    async def _asked(self, asked: _Question, version: str) -> ApiError | None:
        query = {
            "watch": "true",
            "timeoutSeconds": "1",
            "resourceVersion": version,
            "labelSelector": asked.label,
            "fieldSelector": asked.fields,
        }
        try:
            stream = await self._reader.stream(asked.cluster, asked.path, query, asked.caller)
        except ApiError as error:
            # A version that is too old for the member is looked at after the rights.
            return None if error.code == 410 else error
        await stream.close()
        return None

    def _remember(self, asked: _Question, refusal: ApiError | None) -> None:
        now = self._clock()
        if len(self._known) >= _MOST_KNOWN:
            self._known = {each: found for each, found in self._known.items() if found[0] > now}
        if len(self._known) < _MOST_KNOWN:
            self._known[asked] = now + (REFUSED_SECONDS if refusal is not None else ALLOWED_SECONDS), refusal
