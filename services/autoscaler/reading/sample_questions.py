"""Asks members for samples of their pods, each once in a round, and keeps which of them have none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

from services._kit.kube.client import ApiError, Unreachable
from services.autoscaler.reading.member_pods import MemberPods, PodUse

NO_ANSWER: Final = "it did not answer"

Uses = Mapping[tuple[str, str], PodUse]
"""What pods use, by namespace and name."""


class MemberSamples:
    """Asks the followed members; `heard` is told of every question whether it was answered."""

    def __init__(
        self, members: Mapping[str, MemberPods], at_once: int, timeout: float, heard: Callable[[bool], None]
    ) -> None:
        self._members = members
        self._at_once = at_once
        self._timeout = timeout
        self._heard = heard
        self.requests = 0
        """Lists that members were asked for."""
        self.problems: dict[str, str] = {}
        """Members that were asked when it was their turn last, with why there was no answer; empty where there was."""

    async def read(self, wanted: Mapping[str, Collection[str]], *, everything: bool) -> dict[str, Uses]:
        """What pods of some namespaces use, by cluster; a cluster that does not answer is missing.

        With `everything` the clusters that are not wanted are forgotten.
        """
        room = asyncio.Semaphore(self._at_once)
        found: dict[str, Uses] = {}
        if everything:
            self.problems = {cluster: problem for cluster, problem in self.problems.items() if cluster in wanted}

        async def ask(cluster: str, namespaces: Collection[str]) -> None:
            async with room:
                problem = await self._ask(cluster, namespaces, found)
            self.problems[cluster] = problem
            self._heard(not problem)

        await asyncio.gather(*(ask(cluster, namespaces) for cluster, namespaces in wanted.items()))
        return found

    async def _ask(self, cluster: str, namespaces: Collection[str], found: dict[str, Uses]) -> str:
        """Ask one member; why there is no answer."""
        member = self._members.get(cluster)
        if member is None:
            return "it is not followed"
        self.requests += 1
        try:
            await member.opened(self._timeout)
            namespace = next(iter(namespaces)) if len(namespaces) == 1 else ""
            found[cluster] = await member.samples(namespace, self._timeout)
        except (ApiError, Unreachable) as error:
            return str(error)[:500] or NO_ANSWER
        return ""

    def why(self, cluster: str) -> str:
        """Why a cluster has no samples."""
        return self.problems.get(cluster) or NO_ANSWER

    def forget(self) -> None:
        """Another instance asks now."""
        self.problems = {}
