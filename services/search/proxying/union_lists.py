"""Lists of all clusters that serve a resource: what is at hand of them, or what their API servers answer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Raw

from services._kit.concurrency.tasks import all_of, child, end
from services._kit.kube.answers.bodies import TooLarge
from services._kit.kube.answers.pages import SMALLEST_PAGE, Page
from services._kit.kube.answers.share import Share
from services._kit.kube.api import UNREADABLE, BadAnswer
from services.apiserver.core.request import ListOptions
from services.search.proxying.answer_reading import AnswerReader, bad_answer
from services.search.proxying.view_ports import AtHand, Caller, Scopes
from services.search.registries.member_facts import Gvr
from services.search.union.list_walk import MEMBER_PAGE, ListWalk
from services.search.union.page_token import PageToken, read_page_token
from services.search.union.provenance_marks import marked
from services.search.union.resource_names import Asked
from services.search.union.selector_filter import SelectorFilter
from services.search.union.version_map import ZERO, VersionMap, read_version

_AHEAD: Final = 16
"""Clusters that are read before it is their turn; each keeps one page."""
_AT_ONCE: Final = 64
"""Clusters that are asked for their version at once."""
_AT_HAND: Final = 500
"""Objects at hand that are handed over at a time."""
_MOST_PAGES: Final = 10_000
_LONGEST_TOKEN: Final = 16 << 10


class _Head(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""


_head: Final = msgspec.json.Decoder(_Head)


class Part(msgspec.Struct, frozen=True):
    """Objects of one cluster in order, each with its mark; `token` where its member goes on."""

    cluster: str
    objects: list[bytes]
    version: str = ""
    token: str = ""
    kind: str = ""
    api_version: str = ""


class UnionList:
    """One list; iterate `parts` to its end, then `versions` and `token` are those of the list."""

    def __init__(
        self, asked: Asked, gvr: Gvr, options: ListOptions, scopes: Scopes, reader: AnswerReader, at_hand: AtHand
    ) -> None:
        self._asked = asked
        self._gvr = gvr
        self._options = options
        self._reader = reader
        self._at_hand = at_hand
        self._selectors = SelectorFilter(options.label, options.field)
        self._asked_at = read_version(options.revision)
        self._scopes = within_namespace(scopes, asked.namespace)
        self._share = Share()
        self._token_asked = read_page_token(options.continue_) if options.continue_ else None
        self.versions = VersionMap()
        self.token: PageToken | None = None

    async def parts(self, caller: Caller) -> AsyncGenerator[Part, None]:
        """Objects by cluster; raises ApiError for the first cluster that does not answer as it should."""
        if self._options.limit or self._token_asked is not None:
            async for part in self._walked(caller):
                yield part
        else:
            async for part in self._all(caller):
                yield part

    async def _walked(self, caller: Caller) -> AsyncGenerator[Part, None]:
        """One cluster after the other, up to the limit."""
        walk = ListWalk(list(self._scopes), max(self._options.limit, 0), self._asked_at, self._token_asked)
        patience = _Patience()
        while (request := walk.request()) is not None:
            cluster = request.cluster
            part = await self._page(cluster, request.limit, request.member_token, request.version, caller)
            patience.check(part)
            walk.took(len(part.objects), part.token, part.version)
            yield part

        async def learn(cluster: str) -> None:
            part = await self._page(cluster, 1, "", self._asked_at.of(cluster), caller)
            walk.learnt(cluster, part.version)

        await _each(walk.unvisited, learn)
        self.versions, self.token = walk.versions, walk.token

    async def _all(self, caller: Caller) -> AsyncGenerator[Part, None]:
        """All clusters whole, those whose turn comes next already under way."""
        found: dict[str, str] = {}
        waiting = deque(sorted(self._scopes))
        under_way: deque[_Ahead] = deque()
        try:
            while waiting or under_way:
                while waiting and len(under_way) < _AHEAD:
                    under_way.append(_Ahead(self._whole(waiting.popleft(), caller)))
                while (part := await under_way[0].next()) is not None:
                    if part.version:
                        found[part.cluster] = part.version
                    yield part
                under_way.popleft()
        finally:
            await end(*(ahead.task for ahead in under_way))
        self.versions = VersionMap(found)

    async def _whole(self, cluster: str, caller: Caller) -> AsyncGenerator[Part, None]:
        """All objects of one cluster."""
        version = self._asked_at.of(cluster)
        if version == ZERO and self._selectors.evaluable and self._at_hand.version(cluster, self._gvr):
            async for part in self._cached(cluster):
                yield part
            return
        patience, token = _Patience(), ""
        while True:
            part = await self._page(cluster, MEMBER_PAGE, token, "" if token else version, caller)
            patience.check(part)
            token = part.token
            yield part
            if not token:
                return

    async def _cached(self, cluster: str) -> AsyncIterator[Part]:
        """What is at hand of one cluster, in parts."""
        version = self._at_hand.version(cluster, self._gvr)
        kind = self._at_hand.kind(self._gvr)
        group_version = f"{self._gvr.group}/{self._gvr.version}" if self._gvr.group else self._gvr.version
        selectors = self._selectors.within(self._scopes[cluster])
        found: list[bytes] = []
        rest = iter(self._at_hand.each(cluster, self._gvr, self._asked.namespace, self._selectors.labels))

        def some() -> Iterable[bytes]:
            for raw in rest:
                yield raw
                if len(found) >= _AT_HAND:
                    return

        def take(raw: bytes) -> None:
            if selectors.takes(raw):
                found.append(marked(raw, cluster))

        while True:
            found = []
            try:
                await self._share.each(some(), take)
            except BadAnswer as error:
                raise bad_answer(cluster, error) from error
            yield Part(cluster, found, version, "", f"{kind}List" if kind else "", group_version)
            if len(found) < _AT_HAND:
                return

    async def _page(self, cluster: str, limit: int, token: str, version: str, caller: Caller) -> Part:
        """One page of one member, smaller than asked for where its objects are large."""
        options = self._options
        query = {
            "labelSelector": options.label,
            "fieldSelector": options.field,
            "continue": token,
            "resourceVersion": version,
        }
        if version:
            # With a limit, members take a version without a match for the exact one.
            given = options.match or ("" if self._token_asked is not None or options.limit else "NotOlderThan")
            query["resourceVersionMatch"] = given if version != ZERO else ""
        path = member_path(self._gvr, self._path_namespace(cluster))
        while True:
            try:
                raw = await self._reader.whole(cluster, path, {**query, "limit": str(limit)}, caller)
                return await self._part(cluster, raw)
            except TooLarge as error:
                if limit <= SMALLEST_PAGE:
                    raise bad_answer(cluster, error) from error
                limit = max(SMALLEST_PAGE, limit // 8)
            except BadAnswer as error:
                raise bad_answer(cluster, error) from error

    async def _part(self, cluster: str, raw: bytes) -> Part:
        page = Page(raw, self._reader.limits)
        selectors = self._selectors.within(self._scopes[cluster])
        found: list[bytes] = []

        def take(item: Raw) -> None:
            if selectors.in_scope(item):
                found.append(marked(item, cluster))

        await self._share.each(page, take)
        try:
            head = _head.decode(raw)
        except UNREADABLE as error:
            raise BadAnswer(f"it is not a list: {error}") from error
        if len(page.meta.next) > _LONGEST_TOKEN:
            raise BadAnswer(f"the continue token has {len(page.meta.next)} characters")
        return Part(cluster, found, page.meta.resource_version, page.meta.next, head.kind, head.api_version)

    def _path_namespace(self, cluster: str) -> str:
        if self._asked.namespace or not self._at_hand.namespaced(cluster, self._gvr):
            return self._asked.namespace
        return single_namespace(self._scopes[cluster])


class _Ahead:
    """A cluster that is read before its turn: one part is kept, then it waits."""

    def __init__(self, parts: AsyncIterator[Part]) -> None:
        self._queue: asyncio.Queue[Part | Exception | None] = asyncio.Queue(1)
        self.task = child(self._feed(parts))

    async def next(self) -> Part | None:
        """The next part; None at the end. Raises what reading raised."""
        found = await self._queue.get()
        if isinstance(found, Exception):
            raise found
        return found

    async def _feed(self, parts: AsyncIterator[Part]) -> None:
        try:
            async for part in parts:
                await self._queue.put(part)
        except Exception as error:  # noqa: BLE001 - it is raised where the part is taken
            await self._queue.put(error)
        else:
            await self._queue.put(None)


class _Patience:
    """Ends the list of a member that would go on for ever."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, int]] = set()

    def check(self, part: Part) -> None:
        """Take a page in; raises ApiError for a token that was there before, and for too many pages."""
        if not part.token:
            return
        place = part.cluster, hash(part.token)
        if place in self._seen or len(self._seen) >= _MOST_PAGES:
            raise bad_answer(part.cluster, BadAnswer("its continue tokens lead to no end"))
        self._seen.add(place)


async def _each(clusters: list[str], work: Callable[[str], Coroutine[Any, Any, None]]) -> None:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(cluster: str) -> None:
        async with gate:
            await work(cluster)

    await all_of(one(cluster) for cluster in clusters)


def within_namespace(scopes: Scopes, namespace: str) -> Scopes:
    """The clusters in which a namespace counts; all of them without one."""
    if not namespace:
        return scopes
    return {name: spaces for name, spaces in scopes.items() if not spaces or namespace in spaces}


def single_namespace(namespaces: frozenset[str]) -> str:
    """The namespace to ask for where only one counts; empty: all are asked for, and tested afterwards."""
    return next(iter(namespaces)) if len(namespaces) == 1 else ""


def member_path(gvr: Gvr, namespace: str, name: str = "") -> str:
    """The path of a collection, or of one object, in a member."""
    parts = ["apis", gvr.group, gvr.version] if gvr.group else ["api", gvr.version]
    parts += ["namespaces", namespace] if namespace else []
    parts += [gvr.resource, name] if name else [gvr.resource]
    return "/" + "/".join(quote(part, safe="") for part in parts)
