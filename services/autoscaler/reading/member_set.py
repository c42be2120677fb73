"""Keeps a follower for each member that runs a target: push members directly, pull members through their agents."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Self

from services._kit.concurrency.supervision import spawn
from services._kit.credentials.access import Member, Members
from services._kit.kube.client import KubeClient
from services._kit.proxying.carried_client import CarriedClient
from services._kit.proxying.pull_members import PullMembers
from services._kit.runtime.service import Context
from services._rules.delivery.member_address import Access
from services.autoscaler.reading.member_pods import MemberPods, Opener
from services.autoscaler.settings import AutoscalerSettings
from services.autoscaler.state import AutoscalerState

SERVICE = "autoscaler"
"""In whose name pull members are asked."""


class MemberSet:
    """`followed` are the followers by cluster."""

    def __init__(self, state: AutoscalerState, control: KubeClient, pull: PullMembers | None) -> None:
        self.followed: dict[str, MemberPods] = {}
        self._state = state
        self._members = Members(control)
        self._pull = pull
        self._reached: dict[str, tuple[Access, Member | None]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(
        cls, settings: AutoscalerSettings, context: Context[AutoscalerState, Any], control: KubeClient
    ) -> Self:
        """Connect to what carries requests to pull members; raises Unavailable when it does not answer."""
        pull = None
        if context.connection is not None:
            pull = await PullMembers.open(settings, SERVICE, context.clock)
        return cls(context.projection.state, control, pull)

    def attend(self, wanted: Mapping[str, frozenset[str]]) -> None:
        """Follow these clusters, of each the pods of some namespaces, and no others."""
        for name in [*self.followed]:
            member = self._state.members.get(name)
            known = self._reached[name][0]
            if name not in wanted or member is None or not member.reachable or member.access != known:
                self._end(name)
        for name, namespaces in wanted.items():
            member = self._state.members.get(name)
            if member is None or not member.reachable:
                continue
            if name in self.followed:
                self.followed[name].want(namespaces)
            elif member.access.mode == "Push" or self._pull is not None:
                self._follow(name, member.access, namespaces)

    async def drop(self) -> None:
        """Follow no member."""
        for name in [*self.followed]:
            self._end(name)
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def close(self) -> None:
        """Follow no member, and close the ways to them."""
        await self.drop()
        await self._members.close()
        if self._pull is not None:
            await self._pull.close()

    def _follow(self, name: str, access: Access, namespaces: frozenset[str]) -> None:
        reached: Member | None = None
        if access.mode == "Push":
            reached = self._members.member(access.spec(), lambda: follower.reconnect())
            opener: Opener = reached.open
        else:
            opener = partial(self._carried, name)
        follower = self.followed[name] = MemberPods(name, opener, namespaces)
        self._reached[name] = (access, reached)

    async def _carried(self, name: str) -> KubeClient:
        """A client of a pull member, whose agent need not be there yet."""
        assert self._pull is not None
        return CarriedClient(self._pull.transport, name, SERVICE)

    def _end(self, name: str) -> None:
        follower = self.followed.pop(name)
        reached = self._reached.pop(name)[1]
        if reached is not None:
            reached.close()
        task = spawn(f"pods-close:{name}", follower.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
