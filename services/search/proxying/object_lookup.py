"""Finds the one cluster that has an object of a name."""

from __future__ import annotations

import asyncio
from typing import Final

from services._kit.concurrency.tasks import all_of
from services._kit.kube.answers.shapes import check_metadata
from services._kit.kube.api import BadAnswer
from services.apiserver.core.status_errors import ApiError
from services.search.proxying.answer_reading import AnswerReader, bad_answer
from services.search.proxying.union_lists import member_path, within_namespace
from services.search.proxying.view_ports import AtHand, Caller, Selected
from services.search.registries.member_facts import Gvr
from services.search.union.holders import sole
from services.search.union.provenance_marks import metadata_of
from services.search.union.version_map import ZERO

_AT_ONCE: Final = 64
"""Clusters that are asked at once."""
_AT_HAND: Final = {"resourceVersion": ZERO}


class ObjectLookup:
    """Looks names up in what is at hand; clusters of which that is not complete are asked."""

    def __init__(self, selected: Selected, at_hand: AtHand, reader: AnswerReader) -> None:
        self._selected = selected
        self._at_hand = at_hand
        self._reader = reader

    async def holder(self, gvr: Gvr, namespace: str, name: str, caller: Caller) -> str:
        """The one cluster that has the object; raises ApiError 404, 409, and where it is not known."""
        holders: list[str] = []
        unknown: list[str] = []
        for cluster in within_namespace(self._selected.scopes(gvr), namespace):
            if not self._at_hand.version(cluster, gvr):
                unknown.append(cluster)
            elif self._at_hand.find(cluster, gvr, namespace, name) is not None:
                holders.append(cluster)
        failures: list[ApiError] = []
        gate = asyncio.Semaphore(_AT_ONCE)

        async def ask(cluster: str) -> None:
            async with gate:
                path = member_path(gvr, namespace, name)
                try:
                    found = check_metadata(metadata_of(await self._reader.whole(cluster, path, _AT_HAND, caller)))
                    if found.name != name:
                        raise BadAnswer(f"it is about another object, {found.name[:60]!r}")
                    holders.append(cluster)
                except BadAnswer as error:
                    failures.append(bad_answer(cluster, error))
                except ApiError as error:
                    if error.code != 404:
                        failures.append(error)

        await all_of(ask(cluster) for cluster in unknown)
        if not holders and failures:
            # It may be there; a cluster that says nothing does not hold up requests for what others have.
            raise failures[0]
        return sole(gvr, name, sorted(holders))
