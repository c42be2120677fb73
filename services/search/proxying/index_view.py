"""The index and the coverage of registries, as the global proxy asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from services._kit.concurrency.tasks import set_within
from services.search.index.member_index import MemberIndex, Shelf
from services.search.index.member_part import MemberPart, key_of
from services.search.index.questions import EVERYTHING, Question
from services.search.proxying.view_ports import LabelTest, Scopes
from services.search.registries.coverage import Coverage
from services.search.registries.member_facts import Gvr, MemberFacts
from services.search.registries.wanted_kinds import Registry

_LOOK_SECONDS: Final = 5.0


class SelectedKinds:
    """Which clusters serve what registries select; `takes` says whether a pull member takes requests."""

    def __init__(
        self,
        coverage: Coverage,
        members: Callable[[], Mapping[str, MemberFacts]],
        registries: Callable[[], Iterable[Registry]],
        takes: Callable[[str], bool],
    ) -> None:
        self._coverage = coverage
        self._takes = takes
        self._members = members
        self._registries = registries

    def covers(self, gvr: Gvr) -> bool:
        """Whether a registry selects the resource, in whatever cluster."""
        if self._coverage.of(gvr):
            return True
        # No cluster that serves it is ready: the control plane would answer about other objects.
        named = {
            (selector.api_version, selector.kind)
            for registry in self._registries()
            for selector in registry.selectors
            if selector.api_version == gvr.api_version
        }
        if not named:
            return False
        return any(member.kinds.get(kind) == gvr for member in self._members().values() for kind in named)

    def scopes(self, gvr: Gvr) -> Scopes:
        """The clusters that serve the resource now."""
        wanted = self._coverage.of(gvr)
        return {cluster: each.namespaces for cluster, each in wanted.items() if self._counts(cluster)}

    def _counts(self, cluster: str) -> bool:
        member = self._members().get(cluster)
        # Members decide whether they take requests: one that does not must not fail every list.
        return member is None or member.access.mode == "Push" or self._takes(cluster)

    async def other_scopes(self, gvr: Gvr, known: Scopes) -> None:
        """Return once the clusters that serve the resource, or their namespaces, are others than those known."""
        changed = asyncio.Event()

        def look(cluster: str) -> None:
            wanted = self._coverage.of(gvr).get(cluster)
            now = wanted.namespaces if wanted is not None and self._counts(cluster) else None
            if now != known.get(cluster):
                changed.set()

        forget = self._coverage.subscribe(look)
        try:
            while self.scopes(gvr) == known:
                # Agents of pull members come and go without a word.
                if await set_within(changed, _LOOK_SECONDS):
                    return
        finally:
            forget()


class IndexAtHand:
    """The objects of the index."""

    def __init__(self, index: MemberIndex) -> None:
        self._index = index

    def version(self, cluster: str, gvr: Gvr) -> str:
        """The resourceVersion up to which a cluster's objects are there; empty before they are complete."""
        part = self._part(cluster, gvr)
        return part.version if part is not None else ""

    def kind(self, gvr: Gvr) -> str:
        """The kind of a resource; empty where it is not known."""
        shelf = self._index.known(gvr)
        return next((part.kind for part in shelf.parts.values()), "") if shelf is not None else ""

    def namespaced(self, cluster: str, gvr: Gvr) -> bool:
        """Whether a resource is known to have namespaces there."""
        part = self._part(cluster, gvr)
        first = next(iter(part.objects), "/") if part is not None else "/"
        return not first.startswith("/")

    def shelf(self, gvr: Gvr) -> Shelf | None:
        """All of a kind, with its changes; None where nothing is there."""
        return self._index.known(gvr)

    def find(self, cluster: str, gvr: Gvr, namespace: str, name: str) -> bytes | None:
        """One object, without managedFields."""
        shelf, part = self._index.known(gvr), self._part(cluster, gvr)
        stored = part.objects.get(key_of(namespace, name)) if part is not None else None
        return shelf.data(stored) if shelf is not None and stored is not None else None

    def each(self, cluster: str, gvr: Gvr, namespace: str, labels: LabelTest | None) -> Iterator[bytes]:
        """A cluster's objects by namespace and name; those of one namespace unless that is empty."""
        shelf, part = self._index.known(gvr), self._part(cluster, gvr)
        if shelf is None or part is None:
            return
        prefix = key_of(namespace, "")
        # A part that is replaced meanwhile is emptied: its own objects stay as they are.
        objects = part.objects
        wanted = Question(key=lambda key: key.startswith(prefix), fragments=(prefix,)) if namespace else EVERYTHING
        for key in list(part.keys_where(None, wanted)):
            stored = objects.get(key)
            if stored is not None and (labels is None or labels(stored.shape.labels)):
                yield shelf.data(stored)

    def _part(self, cluster: str, gvr: Gvr) -> MemberPart | None:
        shelf = self._index.known(gvr)
        return shelf.parts.get(cluster) if shelf is not None else None
