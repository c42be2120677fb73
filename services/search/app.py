"""Runs search: follows the members that registries select, answers from the index. Every instance does; none leads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial

import structlog

from schemas.codec import Known
from services._kit.base.clock import SystemClock
from services._kit.concurrency.supervision import spawn
from services._kit.credentials.access import Member, Members
from services._kit.credentials.kubeconfig import open_kubeconfig
from services._kit.credentials.serving_certificate import CertificateWatch
from services._kit.kube.client import KubeClient
from services._kit.log.stream_port import Message
from services._kit.proxying.carried_client import CarriedClient
from services._kit.proxying.front_identity import Authenticator, certificate_of, watched_tls
from services._kit.runtime.service import BaseService, Context
from services._rules.delivery.member_address import Access
from services.search.backends.backend_set import BackendSet
from services.search.followers.member_follower import MemberFollower, Opener
from services.search.followers.registry_status import RegistryStatus
from services.search.followers.registry_watch import RegistryWatch
from services.search.http.search_api import SearchApi
from services.search.index.member_index import MemberIndex
from services.search.metrics import SearchMetrics
from services.search.proxying.proxy_parts import ProxyParts
from services.search.registries.coverage import Coverage
from services.search.registries.wanted_kinds import wanted_of
from services.search.settings import SearchSettings
from services.search.state import SearchState, fold

log = structlog.get_logger("search")


class Search(BaseService[SearchState, str]):
    """Cluster facts and registries in, answers about objects of members out."""

    name = "search"
    filters = ("cluster.*",)
    leads = False
    states = SearchState
    _control: KubeClient
    _members: Members
    _registries: RegistryWatch
    _backends: BackendSet
    _statuses: RegistryStatus
    _proxying: ProxyParts

    def __init__(self, settings: SearchSettings) -> None:
        self._settings = settings
        # Bad settings end the process before it connects.
        Authenticator(settings, self.name)
        certificate_of(settings, SystemClock().now)
        self.index = MemberIndex()
        self.coverage = Coverage()
        self.api: SearchApi | None = None
        self._tls: CertificateWatch | None = None
        self._followers: dict[str, tuple[Access, MemberFollower, Member | None]] = {}
        self._keeping: dict[str, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._acting = False

    def fold(self, state: SearchState, message: Message, event: Known) -> Iterable[str]:
        """Apply one fact."""
        return fold(state, event)

    async def start(self, context: Context[SearchState, str]) -> None:
        """Open the control plane, watch the registries, and listen."""
        await super().start(context)
        self._control = await open_kubeconfig(self._settings.control_kubeconfig, connections=4)
        self._members = Members(self._control)
        self._registries = RegistryWatch(self._control, self._attend_all)
        self._backends = BackendSet(self.index, self._control)
        self._statuses = RegistryStatus(
            self._control,
            context.clock,
            lambda: self._registries.registries,
            lambda: self.state.members.values(),
            lambda: {name: follower.reading for name, (_, follower, _) in self._followers.items()},
        )
        context.health.check("registries", lambda: self._registries.trouble)
        context.health.fact("members", self._troubles)
        metrics = SearchMetrics(
            context.metrics.registry,
            context.metrics.reads,
            self.index,
            lambda: [follower for _, follower, _ in self._followers.values()],
            lambda: self._backends.writers,
        )
        self._proxying = await ProxyParts.open(
            self._settings,
            context,
            self._control,
            self.index,
            self.coverage,
            lambda: self.state.members,
            lambda: self._registries.registries.values(),
        )
        self._tls = watched_tls(self._settings, context.clock.now, context.health, context.metrics.reads)
        tls = self._tls.context if self._tls is not None else None
        self.api = SearchApi(self._settings, tls, self.index, self._proxying.proxy, context.health, metrics)
        await self.api.start()
        context.health.fact("api", lambda: self.api.url if self.api is not None else "")
        log.info("api", url=self.api.url)

    async def on_leading(self) -> None:
        """The clusters are known: follow what registries select."""
        self._acting = True
        self._attend_all()

    def on_dirty(self, keys: Iterable[str]) -> None:
        """Clusters changed."""
        for name in keys:
            self._attend(name)

    async def stop(self) -> None:
        """Stop listening, then following."""
        self._acting = False
        if self.api is not None:
            await self.api.stop()
        if self._tls is not None:
            await self._tls.stop()
        await self._registries.close()
        await self._statuses.close()
        # Before what is followed ends: documents of objects that are not read any more would go.
        await self._backends.close()
        for timer in self._keeping.values():
            timer.cancel()
        for name in list(self._followers):
            self._end(name)
        await asyncio.gather(*self._closing, return_exceptions=True)
        await self._proxying.close()
        await self._members.close()
        await self._control.close()

    def _attend_all(self) -> None:
        if self._acting:
            self._statuses.changed()
        for name in {*self.state.members, *self._followers}:
            self._attend(name)

    def _attend(self, name: str) -> None:
        """Make what is followed of a member fit its cluster and the registries."""
        if not self._acting:
            return
        member = self.state.members.get(name)
        wanted = wanted_of(member, self._registries.registries.values()) if member is not None else {}
        current = self._followers.get(name)
        self.coverage.become(name, wanted if member is not None and member.reachable else {})
        self._backends.want(name, wanted)
        if member is None:
            self._proxying.left(name)
        if member is None or not wanted:
            self._end(name)
            self._forget(name)
            return
        if not member.reachable or (member.access.mode != "Push" and self._proxying.pull is None):
            if current is not None:
                self._end(name)
            self._keep_for_a_while(name)
            return
        if (timer := self._keeping.pop(name, None)) is not None:
            timer.cancel()
        if current is not None and current[0] != member.access:
            self._end(name)
            current = None
        if current is None:
            self._follow(name, member.access)
        self._followers[name][1].want(wanted)

    def _follow(self, name: str, access: Access) -> None:
        reached: Member | None = None
        if access.mode == "Push":
            reached = self._members.member(access.spec(), lambda: follower.reconnect())
            opener: Opener = reached.open
        else:
            opener = partial(self._carried, name)
        follower = MemberFollower(
            name, opener, lambda: access.identity, self.index, self._settings.kind_bytes, self._statuses.changed
        )
        self._followers[name] = (access, follower, reached)

    async def _carried(self, name: str) -> KubeClient:
        """A client of a pull member, whose agent need not be there yet."""
        assert self._proxying.pull is not None
        return CarriedClient(self._proxying.pull, name, self.name)

    def _end(self, name: str) -> None:
        """Stop following a member; what is known of it stays."""
        current = self._followers.pop(name, None)
        if current is None:
            return
        _, follower, reached = current
        if reached is not None:
            reached.close()
        task = spawn(f"follower-close:{name}", self._ended(name, follower))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _ended(self, name: str, follower: MemberFollower) -> None:
        await follower.close()
        if name not in self._keeping:
            self._forget(name)

    def _keep_for_a_while(self, name: str) -> None:
        """Show what was known of a member that is not ready, which may restart; then no more."""
        if name not in self._keeping:
            loop = asyncio.get_running_loop()
            self._keeping[name] = loop.call_later(self._settings.kept_seconds, self._kept_long_enough, name)

    def _kept_long_enough(self, name: str) -> None:
        self._keeping.pop(name, None)
        self._forget(name)

    def _forget(self, name: str) -> None:
        """Drop what is known of a member that is not followed; one that is decides by itself."""
        if name in self._followers:
            return
        if (timer := self._keeping.pop(name, None)) is not None:
            timer.cancel()
        for gvr in self.index.of(name):
            self.index.remove(gvr, name)

    def _troubles(self) -> str:
        found = [f"{name}: {each}" for name, (_, one, _) in sorted(self._followers.items()) for each in one.troubles]
        found += [f"backend: {writer.trouble}" for writer in self._backends.writers if writer.trouble]
        return "; ".join(found[:5]) + (f"; and {len(found) - 5} more" if len(found) > 5 else "")
