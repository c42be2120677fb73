"""Asks members for samples of their pods, each once in a round, and keeps which of them have none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

from services._kit.concurrency.tasks import part_of
from services._kit.kube.client import ApiError, Unreachable
from services.autoscaler.reading.member_pods import MemberPods, PodUse

NO_ANSWER: Final = "it did not answer"
_AT_FIRST: Final = 8
"""Members that are asked as soon as a round begins; the others follow one by one."""
_SPREAD: Final = 0.2
"""Share of the period over which the questions of a round are spread at most."""
_LONGEST_GAP: Final = 0.03
"""Seconds between two of those that follow, at most."""

Uses = Mapping[tuple[str, str], PodUse]
"""What the pods of one cluster use, by namespace and name."""
Samples = Mapping[str, asyncio.Task[Uses | None]]
"""Lists of samples that were asked for, by cluster; None: it did not answer."""


class MemberSamples:
    """Asks the followed members; `heard` is told of every question whether it was answered.

    The questions of a round are spread over a part of the `period`, in seconds: asked all at once, many members would
    keep the processor from what the first of their answers bring about.
    """

    def __init__(
        self,
        members: Mapping[str, MemberPods],
        at_once: int,
        timeout: float,
        period: float,
        heard: Callable[[bool], None],
    ) -> None:
        self._members = members
        self._at_once = at_once
        self._timeout = timeout
        self._spread = _SPREAD * period
        self._heard = heard
        self.requests = 0
        """Lists that members were asked for."""
        self.problems: dict[str, str] = {}
        """Members that were asked when it was their turn last, with why there was no answer; empty where there was."""

    def ask(
        self, wanted: Mapping[str, Collection[str]], group: asyncio.TaskGroup, *, everything: bool
    ) -> dict[str, asyncio.Task[Uses | None]]:
        """Ask for what pods of some namespaces use, by cluster; None comes from a cluster that does not answer.

        With `everything` the clusters that are not wanted are forgotten.
        """
        room = asyncio.Semaphore(self._at_once)
        if everything:
            self.problems = {cluster: problem for cluster, problem in self.problems.items() if cluster in wanted}
        # Members that did not answer last time are asked after all others, whose turn they would take.
        ordered = sorted(wanted, key=lambda cluster: bool(self.problems.get(cluster)))
        began, gap = asyncio.get_running_loop().time(), min(self._spread / max(len(ordered), 1), _LONGEST_GAP)
        return {
            cluster: part_of(group, self._asked(cluster, wanted[cluster], room, began + gap * max(turn - _AT_FIRST, 0)))
            for turn, cluster in enumerate(ordered, 1)
        }

    async def _asked(
        self, cluster: str, namespaces: Collection[str], room: asyncio.Semaphore, moment: float
    ) -> Uses | None:
        """Ask one member at a moment of the loop's clock, or later where others take long."""
        await asyncio.sleep(moment - asyncio.get_running_loop().time())
        async with room:
            found, problem = await self._ask(cluster, namespaces)
        self.problems[cluster] = problem
        self._heard(not problem)
        return found

    async def _ask(self, cluster: str, namespaces: Collection[str]) -> tuple[Uses | None, str]:
        """Ask one member: what its pods use, or why there is no answer."""
        member = self._members.get(cluster)
        if member is None:
            return None, "it is not followed"
        self.requests += 1
        try:
            await member.opened(self._timeout)
            namespace = next(iter(namespaces)) if len(namespaces) == 1 else ""
            return await member.samples(namespace, self._timeout), ""
        except (ApiError, Unreachable) as error:
            return None, str(error)[:500] or NO_ANSWER

    def why(self, cluster: str) -> str:
        """Why a cluster has no samples."""
        return self.problems.get(cluster) or NO_ANSWER

    def forget(self) -> None:
        """Another instance asks now."""
        self.problems = {}
