"""Follows one member: opens it, and keeps every kind that registries want of it in the index."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog

from services._kit.concurrency.supervision import Supervised, supervise
from services._kit.concurrency.tasks import set_within
from services._kit.identity.member_gate import MemberGate
from services._kit.kube.client import ApiError, KubeClient, Unreachable
from services.search.followers.kind_follower import KindFollower
from services.search.index.member_index import MemberIndex
from services.search.registries.member_facts import Gvr
from services.search.registries.refused_reads import Reading
from services.search.registries.wanted_kinds import Wanted

log = structlog.get_logger("search")

FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 5.0

Opener = Callable[[], Awaitable[KubeClient]]


class MemberFollower:
    """Follows from its making until `close`; `identity` is the uid of the member's kube-system, empty if unknown."""

    def __init__(
        self,
        cluster: str,
        opener: Opener,
        identity: Callable[[], str],
        index: MemberIndex,
        most_bytes: int,
        on_access: Callable[[], None] = lambda: None,
    ) -> None:
        self.trouble = "not opened yet"
        """Why the member cannot be opened; empty once it is."""
        self._cluster = cluster
        self._opener = opener
        self._identity = identity
        self._index = index
        self._most = most_bytes
        self._on_access = on_access
        """Called when `reading` changed."""
        self._wanted: Mapping[Gvr, Wanted] = {}
        self._kinds: dict[Gvr, KindFollower] = {}
        self._again = asyncio.Event()
        self._changed = asyncio.Event()
        self._task: Supervised = supervise(f"member:{cluster}", self._run)

    def want(self, wanted: Mapping[Gvr, Wanted]) -> None:
        """Follow these kinds from now on, and no others; what else is in the index of the member goes."""
        self._wanted = wanted
        for gvr in self._index.of(self._cluster):
            if gvr not in wanted and gvr not in self._kinds:
                self._index.remove(gvr, self._cluster)
        self._changed.set()

    def reconnect(self) -> None:
        """Open the member now, should that have failed: how it is reached is something else from now on."""
        self._again.set()

    async def close(self) -> None:
        """Stop following; what is in the index stays there."""
        await self._task.close()

    @property
    def troubles(self) -> list[str]:
        """What is not in step, for people."""
        kinds = [f"{gvr}: {follower.trouble}" for gvr, follower in self._kinds.items() if follower.trouble]
        return [self.trouble] if self.trouble else kinds

    @property
    def reading(self) -> Reading:
        """What can be read of the member, and what it refuses."""
        read = frozenset(gvr for gvr, follower in self._kinds.items() if follower.synced)
        return Reading(read, {gvr: one.forbidden for gvr, one in self._kinds.items() if one.forbidden})

    @property
    def refused(self) -> int:
        """Objects that there was no room for."""
        return sum(follower.refused for follower in self._kinds.values())

    @property
    def kinds(self) -> int:
        """Kinds of which a complete list was read."""
        return sum(1 for follower in self._kinds.values() if follower.synced)

    async def _run(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            self._again.clear()
            try:
                client = await self._opener()
            except (ApiError, Unreachable, ValueError, OSError) as error:
                self.trouble = str(error)[:500]
                log.warning("member_not_opened", cluster=self._cluster, error=self.trouble, retry_in_seconds=pause)
            else:
                self.trouble = ""
                try:
                    await self._follow(client)
                finally:
                    kinds, self._kinds = self._kinds, {}
                    await asyncio.gather(*(follower.close() for follower in kinds.values()))
                    await client.close()
            await set_within(self._again, pause)
            pause = FIRST_PAUSE_SECONDS if self._again.is_set() else min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _follow(self, client: KubeClient) -> None:
        """Begin and end the reading of kinds as they are wanted; returns only by cancellation."""
        gate = MemberGate(client, self._cluster, self._identity, _ignore, _nothing)
        while True:
            self._changed.clear()
            wanted = dict(self._wanted)
            ended = [gvr for gvr in self._kinds if gvr not in wanted]
            for gvr in ended:
                await self._kinds.pop(gvr).close()
                self._index.remove(gvr, self._cluster)
            for gvr, each in wanted.items():
                if gvr not in self._kinds:
                    shelf = self._index.shelf(gvr)
                    self._kinds[gvr] = KindFollower(
                        self._cluster, gvr, each.kind, shelf, client, gate, self._most, self._on_access
                    )
            await self._changed.wait()


def _ignore(error: Exception) -> None:
    """The reflectors say why they do not go on."""


def _nothing() -> None:
    """Each reflector lists again by itself."""
