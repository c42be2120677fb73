"""Keeps which custom and external metrics each member serves, and in which versions, for a short time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct

from services._kit.concurrency.tasks import Shared
from services._kit.kube.api import BadAnswer
from services._rules.metrics.metric_lists import ServedMetric, metrics_of, united
from services._rules.metrics.metric_questions import VERSIONS
from services.gateway.measured_members import MeasuredMember
from services.gateway.member_metrics.member_questions import MemberQuestions

KEPT_SECONDS: Final = 15.0
"""For how long what a member served counts."""
LIST_SECONDS: Final = 2.0
"""How long a list of all metrics waits for members; those that answer later are in the next one."""
LARGEST: Final = 4 << 20
"""Bytes of the list of one member in one version."""
Lists = Mapping[str, frozenset[ServedMetric]]
"""What a member serves, by version."""


class _Kept(Struct, frozen=True):
    """What one member serves of one group, and when it said so."""

    lists: Lists
    at: float


class ServedMetrics:
    """Lists by member and group; `members` are those that can be asked."""

    def __init__(self, questions: MemberQuestions, members: Callable[[], Mapping[str, MeasuredMember]]) -> None:
        self._questions = questions
        self._members = members
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._reads: dict[tuple[str, str], Shared[Lists]] = {}
        self._unions = {group: Shared(partial(self._ask_all, group)) for group in VERSIONS}

    def close(self) -> None:
        """End what is under way."""
        for read in self._reads.values():
            read.cancel()
        for union in self._unions.values():
            union.cancel()

    async def version(self, name: str, group: str, wanted: str) -> str:
        """The version in which a member is asked: the wanted one where it serves that; empty where it serves none.

        Raises Silent, MemberUnreachable, MemberRefused and BadAnswer.
        """
        lists = await self._of(name, group)
        served = [version for version in VERSIONS[group] if version in lists]
        return wanted if wanted in served else next(iter(served), "")

    async def union(self, group: str) -> list[ServedMetric]:
        """The metrics that any member serves; members that are slow count as they were before."""
        try:
            async with asyncio.timeout(LIST_SECONDS):
                await self._unions[group]()
        except TimeoutError:
            pass
        ready = {name for name, member in self._members().items() if member.ready}
        for place in [place for place in self._kept if place[0] not in self._members()]:
            self._kept.pop(place, None)
            self._reads.pop(place, None)
        return united(
            frozenset().union(*kept.lists.values())
            for (name, of), kept in sorted(self._kept.items())
            if of == group and name in ready
        )

    async def _ask_all(self, group: str) -> None:
        async def learn(name: str) -> str:
            await self._of(name, group)
            return ""

        async def nothing(*_: object) -> None:
            pass

        await self._questions.ask([name for name, one in self._members().items() if one.ready], learn, nothing)

    async def _of(self, name: str, group: str) -> Lists:
        place = name, group
        kept = self._kept.get(place)
        if kept is not None and time.monotonic() - kept.at < KEPT_SECONDS:
            return kept.lists
        read = self._reads.get(place)
        if read is None:
            read = self._reads[place] = Shared(partial(self._read, name, group))
        return await read()

    async def _read(self, name: str, group: str) -> Lists:
        versions = VERSIONS[group]
        # Callers share this read and may leave it; a member that hangs must not keep it.
        async with asyncio.timeout(self._questions.seconds):
            bodies = await asyncio.gather(
                *(self._questions.body(name, f"/apis/{group}/{version}", LARGEST) for version in versions)
            )
        try:
            lists = {
                version: metrics_of(body, group)
                for version, body in zip(versions, bodies, strict=True)
                if body is not None
            }
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise BadAnswer(f"it is no list of metrics: {error}") from error
        self._kept[name, group] = _Kept(lists, time.monotonic())
        return lists
