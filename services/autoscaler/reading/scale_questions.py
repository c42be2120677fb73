"""Asks members for the scale of targets of which the log does not say how many replicas they are to have there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final
from weakref import WeakValueDictionary

from msgspec.structs import replace

from schemas.events.autoscaling import ClusterScale
from services._kit.kube.client import ApiError, Unreachable
from services.autoscaler.reading.member_pods import MemberPods, MemberScale
from services.autoscaler.state import Target

_AT_ONCE: Final = 8
"""Scales that one member is asked for at the same time."""

Found = Mapping[tuple[str, str], MemberScale]
"""Scales by cluster and path."""


class MemberScales:
    """Asks the followed members; `heard` is told of every question whether it was answered."""

    def __init__(self, members: Mapping[str, MemberPods], heard: Callable[[bool], None]) -> None:
        self._members = members
        self._heard = heard
        self._lanes: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def read(self, clusters: Collection[str], path: str, timeout: float) -> Found:
        """One scale in some clusters; those that no answer came for within `timeout` seconds are missing."""
        found: dict[tuple[str, str], MemberScale] = {}

        async def ask(cluster: str) -> None:
            member = self._members.get(cluster)
            answered = False
            if member is not None:
                try:
                    async with asyncio.timeout(timeout):
                        await member.opened(timeout)
                        async with self._lanes.setdefault(cluster, asyncio.Semaphore(_AT_ONCE)):
                            found[cluster, path] = await member.scale(path, timeout)
                            answered = True
                except (ApiError, Unreachable, TimeoutError):
                    pass
            self._heard(answered)

        await asyncio.gather(*map(ask, clusters))
        return found


def doubtful(target: Target, scales: Iterable[ClusterScale]) -> list[str]:
    """Clusters that have to be asked: those that keep replicas of their own, or hold others than they were assigned.

    The second are those on their way there, and those for which an override changes the replicas.
    """
    return [item.cluster for item in scales if not item.away and (target.retained or item.replicas != item.existing)]


def corrected(scales: Iterable[ClusterScale], path: str, found: Found) -> tuple[ClusterScale, ...]:
    """Scales as members gave them; those of members that gave none stay as the log has them."""
    made = []
    for item in scales:
        given = found.get((item.cluster, path))
        made.append(replace(item, replicas=given.replicas, existing=given.existing) if given is not None else item)
    return tuple(made)
