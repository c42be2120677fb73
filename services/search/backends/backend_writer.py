"""Keeps one search backend in step with the index: writes what changed, and after an outage what was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from services._kit.base.pacing import Backoff
from services._kit.concurrency.supervision import Supervised, supervise
from services._kit.concurrency.tasks import set_within
from services._kit.kube.client import KubeClient
from services.search.backends.document_ledger import MOST_ACTIONS, Action, DocumentLedger, Place
from services.search.backends.object_documents import Document, document_of, index_of
from services.search.backends.search_store import IndexRefused, SearchStore, StoreBusy, StoreTooLarge, StoreTrouble
from services.search.index.member_index import Change, MemberIndex
from services.search.registries.member_facts import Gvr
from services.search.registries.wanted_kinds import OpenSearch

log = structlog.get_logger("search")

_BACKOFF: Final = Backoff(0.2, 30.0, (0.6, 1.0))
_GATHER_SECONDS: Final = 0.05
"""How long changes are collected before they are sent."""
_LEAVING_SECONDS: Final = 120.0
"""How long the documents of a backend that no registry names any more are tried to be deleted."""
_REFUSED: Final = frozenset({400, 413})
"""Of a document: the same one would be refused again."""
_FORBIDDEN: Final = "security_exception"
_BLOCKED: Final = "cluster_block_exception"
"""What an index answers that may not be written, because its disk is full or because it was closed to writes."""
_FRUITLESS: Final = 4
"""Requests in a row with documents that are not taken, before there is a pause."""
_COMPARE_SECONDS: Final = 30.0
"""Between two comparisons of an index while members come, each of which is compared once it is read."""


class BackendWriter:
    """One backend. `want` says which kinds of which members are written to it."""

    def __init__(self, backend: OpenSearch, index: MemberIndex, control: KubeClient) -> None:
        self.trouble = ""
        """Why nothing is written at the moment; empty while it is."""
        self.written = 0
        self.deleted = 0
        self.refused = 0
        self._backend = backend
        self._index = index
        self._control = control
        self._ledger = DocumentLedger()
        self._scope: dict[Gvr, set[str]] = {}
        self._kinds: dict[Gvr, str] = {}
        self._compared: set[tuple[Gvr, str]] = set()
        self._compared_at: dict[str, float] = {}
        self._subscriptions: dict[Gvr, Callable[[], None]] = {}
        self._news = asyncio.Event()
        self._failures = 0
        self._most = MOST_ACTIONS
        """Documents of one request: fewer while the backend refuses larger ones."""
        self._task: Supervised = supervise(f"backend:{backend.addresses[0]}", self._run, returns=True)

    @property
    def due(self) -> int:
        """Documents that wait to be written or deleted."""
        return self._ledger.due

    @property
    def unused(self) -> bool:
        """Whether nothing is written to it any more."""
        return not any(self._scope.values())

    @property
    def ended(self) -> bool:
        """Whether it is unused and has nothing left to delete."""
        return self._task.done

    def want(self, cluster: str, kinds: dict[Gvr, str]) -> None:
        """Write these kinds of a member, and no others."""
        for gvr in {*kinds, *self._scope}:
            clusters = self._scope.setdefault(gvr, set())
            if gvr in kinds and cluster not in clusters:
                self._kinds[gvr] = kinds[gvr]
                clusters.add(cluster)
                self._follow(gvr)
                self._mark_part(gvr, cluster)
            elif gvr not in kinds and cluster in clusters:
                clusters.discard(cluster)
                self._compared.discard((gvr, cluster))
                self._ledger.mark_all(gvr, cluster)
        self._news.set()

    async def close(self) -> None:
        """Stop writing; documents stay as they are."""
        for forget in self._subscriptions.values():
            forget()
        self._subscriptions.clear()
        await self._task.close()

    def _follow(self, gvr: Gvr) -> None:
        if gvr not in self._subscriptions:
            self._subscriptions[gvr] = self._index.shelf(gvr).subscribe(self._changed)

    def _changed(self, change: Change) -> None:
        if change.cluster in self._scope.get(change.gvr, ()):
            self._ledger.mark(Place(change.gvr, change.cluster, change.key))
            self._news.set()

    def _mark_part(self, gvr: Gvr, cluster: str) -> None:
        part = self._index.shelf(gvr).parts.get(cluster)
        for key in part.objects if part is not None else ():
            self._ledger.mark(Place(gvr, cluster, key))

    def _document(self, place: Place) -> Document | None:
        """What has to be there for a place now."""
        if place.cluster not in self._scope.get(place.gvr, ()):
            return None
        shelf = self._index.shelf(place.gvr)
        part = shelf.parts.get(place.cluster)
        stored = part.objects.get(place.key) if part is not None else None
        return document_of(shelf.manifest(stored)) if stored is not None else None

    async def _run(self) -> None:
        store: SearchStore | None = None
        unused_since = 0.0
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._news.clear()
                unused_since = (unused_since or loop.time()) if self.unused else 0.0
                pause: float | None = None
                try:
                    if store is None:
                        store = await SearchStore.open(self._backend, self._control)
                    pause = await self._bring_into_step(store)
                except StoreTrouble as error:
                    self._failed(str(error))
                    if not isinstance(error, StoreBusy):
                        # Its credentials may be others by now, and its indices gone.
                        if store is not None:
                            await store.close()
                            store = None
                        self._compared.clear()
                        self._compared_at.clear()
                    if unused_since and loop.time() - unused_since > _LEAVING_SECONDS:
                        return
                    await asyncio.sleep(_BACKOFF.pause(self._failures))
                    continue
                if self.trouble:
                    log.info("backend_reachable", backend=self._backend.addresses[0])
                self.trouble, self._failures = "", 0
                if self.unused:
                    return
                if await set_within(self._news, pause):
                    await asyncio.sleep(_GATHER_SECONDS)
        finally:
            if store is not None:
                await store.close()

    def _failed(self, reason: str) -> None:
        self._failures += 1
        if reason != self.trouble:
            log.warning("backend_unusable", backend=self._backend.addresses[0], reason=reason, waiting=self.due)
        self.trouble = reason

    async def _bring_into_step(self, store: SearchStore) -> float | None:
        """Write what is due, then compare; seconds until more is to be compared, if so. Raises StoreTrouble."""
        await self._write(store)
        pause = await self._compare(store)
        await self._write(store)
        return pause

    async def _write(self, store: SearchStore) -> None:
        """Send what is due, one request at a time; what is not taken for now is tried after all others."""
        waiting, fruitless, why = self._ledger.due, 0, ""
        while actions := self._ledger.batch(self._document, self._most):
            try:
                settled, refused = await self._sent(store, actions)
            except StoreTooLarge:
                if len(actions) == 1:
                    self._refuse(actions[0], 413, "it is too large for the backend")
                self._most = max(1, len(actions) // 2)
                continue
            self._most = min(MOST_ACTIONS, 2 * self._most)
            why = refused or why
            fruitless = 0 if settled else fruitless + 1
            waiting -= len(actions)
            if fruitless >= _FRUITLESS or (why and waiting <= 0):
                break
        if why:
            raise StoreBusy(why)

    async def _sent(self, store: SearchStore, actions: list[Action]) -> tuple[int, str]:
        """Send actions: how many are settled, and why the others are not taken for now. Raises StoreTrouble."""
        closed: dict[str, str] = {}
        for index in sorted({action.index for action in actions if action.body}):
            try:
                await store.ensure(index)
            except IndexRefused as refusal:
                closed[index] = str(refusal)
        sent = [action for action in actions if not action.body or action.index not in closed]
        settled, why = 0, next(iter(closed.values()), "")
        ends: StoreTrouble | None = None
        for action in actions:
            if action.body and action.index in closed:
                self._ledger.postpone(action)
        for action, status, error in await store.write(sent) if sent else ():
            if status < 300 or (status == 404 and not action.body) or status == 409:
                self.written += bool(action.body)
                self.deleted += not action.body
                self._ledger.done(action)
                settled += 1
            elif status in _REFUSED:
                self._refuse(action, status, error)
                settled += 1
            elif error.startswith(_FORBIDDEN):
                ends = StoreTrouble(f"its account may not write index {action.index}: {error}"[:300])
            elif status == 429 and not error.startswith(_BLOCKED):
                ends = StoreBusy(f"it takes no more documents for now: {status} {error}"[:300])
            else:
                if status == 404:
                    store.forget(action.index)
                self._ledger.postpone(action)
                why = f"index {action.index}: {status} {error}"
        if ends is not None:
            raise ends
        refused = len(actions) - settled
        return settled, f"it refuses {refused} of {len(actions)} documents for now: {why}"[:300] if refused else ""

    def _refuse(self, action: Action, status: int, error: str) -> None:
        """Leave a document out until its object changes."""
        self.refused += 1
        log.warning("document_refused", index=action.index, id=action.id, status=status, error=error)
        self._ledger.done(action)

    def _read(self) -> dict[str, set[tuple[Gvr, str]]]:
        """Kinds and members that are completely read, by their index."""
        found: dict[str, set[tuple[Gvr, str]]] = {}
        for gvr, clusters in self._scope.items():
            parts = self._index.shelf(gvr).parts
            known = found.setdefault(index_of(self._kinds[gvr]), set())
            known.update((gvr, cluster) for cluster in clusters if cluster in parts)
        return found

    async def _compare(self, store: SearchStore) -> float | None:
        """Find documents of objects that are gone, and those that were acknowledged and are not there."""
        loop, left = asyncio.get_running_loop(), None
        for index, read in self._read().items():
            if read <= self._compared:
                continue
            wait = self._compared_at.get(index, -_COMPARE_SECONDS) + _COMPARE_SECONDS - loop.time()
            if wait > 0:
                left = min(wait, left or wait)
                continue
            clusters = {cluster for _, cluster in read}
            self._ledger.begin_comparison()
            async for uid, version, cluster in store.each(index):
                self._ledger.shown(uid, index, version, ours=cluster in clusters)
            lost = self._ledger.end_comparison([index])
            if lost:
                log.warning("documents_lost", index=index, documents=lost)
            self._compared |= read
            self._compared_at[index] = loop.time()
        return left
