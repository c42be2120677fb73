"""One session as the active agent: the member's lane, the work consumer, reports, heartbeats and the saved state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import UnsetType

from schemas.events.observed import WorkObserved
from schemas.events.policy import PolicyEvent
from schemas.events.work import WorkEvent, WorkRendered
from schemas.keys import ObjectKey
from services._kit.base.clock import Clock
from services._kit.base.log_errors import LogError
from services._kit.concurrency.supervision import supervise
from services._kit.concurrency.tasks import end, set_within
from services._kit.credentials.kubeconfig import kubeconfig_expiry
from services._kit.delivery.interpretation_levels import Interpretation
from services._kit.delivery.lane import Lane
from services._kit.delivery.lane_metrics import WriteMetrics
from services._kit.delivery.lane_parts import LaneSettings, WorkSource
from services._kit.delivery.reports import Reports
from services._kit.kube.client import KubeClient
from services.agent.estimate_answers import EstimateAnswers
from services.agent.heartbeat_sender import HeartbeatSender
from services.agent.hub_connection import HubConnection
from services.agent.manifest_cache import ManifestCache
from services.agent.report_sender import HubPublisher
from services.agent.settings import AgentSettings
from services.agent.state_storage import StateStorage
from services.agent.tunnel.allow_list import AllowList, answered
from services.agent.tunnel.tunnel import Tunnel
from services.agent.work_consumer import WorkConsumer

NEWS_SECONDS: Final = 5.0
"""Seconds for which the saved state is not applied, so that newer facts of the hub can arrive first."""


class AgentSession:
    """Everything that acts; made when this agent's turn comes, closed when it ends."""

    def __init__(
        self,
        hub: HubConnection,
        settings: AgentSettings,
        instance: str,
        member: KubeClient,
        open_member: Callable[[], Awaitable[KubeClient]],
        clock: Clock,
        may_ask: Callable[[], bool],
        written: WriteMetrics,
        allowed: AllowList | None = None,
    ) -> None:
        cluster, directory = settings.agent_cluster, Path(settings.agent_data_dir)
        self.storage = StateStorage(directory, cluster, self._saved)
        self.state = self.storage.state
        self.manifests = ManifestCache(hub, cluster, directory / "manifests", lambda: self.state.position)
        self.publisher = HubPublisher(hub, cluster, self._stored, self._session, self._superseded)
        self.reports = Reports(self.publisher)
        self.greeter = HeartbeatSender(
            hub,
            self.state,
            instance,
            member,
            clock,
            self._other_log,
            self._configured,
            self._report_all,
            partial(kubeconfig_expiry, settings.agent_kubeconfig),
            answered(settings.agent_requests),
        )
        greet = self.greeter.for_consumer
        self.follower = WorkConsumer(hub, self.state, greet, self._touched, self._configured, may_ask)
        self.interpretation = Interpretation()
        for event, _ in self.state.configured.values():
            self.interpretation.take(event)
        lane = LaneSettings(concurrency=settings.cluster_concurrency, longest_backoff=settings.longest_backoff)
        self.lane = Lane(cluster, open_member, self._source(clock), lane, self.interpretation, written)
        self.estimating = EstimateAnswers(hub, cluster, open_member, clock, self._session)
        self.tunnel: Tunnel | None = None
        """Answers requests of the hub's callers, where this member permits some."""
        if allowed is not None:
            self.tunnel = Tunnel(settings, instance, allowed, hub, member, clock, self._session)

    def _session(self) -> str:
        return self.greeter.session

    async def run(self) -> None:
        """Act until cancelled; what was known before is kept true, whether the hub answers or not."""
        self.reports.start()
        parts = {
            "deliveries": self._deliver,
            "storage": self.storage.run,
            "manifests": self.manifests.run,
            "works": self.follower.run,
            "greetings": self.greeter.run,
            "estimates": self.estimating.run,
        }
        if self.tunnel is not None:
            parts["tunnel"] = self.tunnel.run
        kept = [supervise(name, part, returns=name == "deliveries") for name, part in parts.items()]
        try:
            await asyncio.Event().wait()
        finally:
            await self.lane.close()
            await self.reports.close()
            await end(*(supervised.task for supervised in kept))
            await self.interpretation.close()

    async def _deliver(self) -> None:
        """Apply the works to the member, from when they are known.

        What was saved may be a moment old, where the agent was killed: objects that were deleted since would be created
        again, and changed ones taken back.
        """
        if self.state.position:
            await set_within(self.follower.caught_up, NEWS_SECONDS)
        self.lane.start()
        for key in self.state.works.unfinished():
            self.lane.look_at(key)

    def _touched(self, key: ObjectKey) -> None:
        self.storage.changed()
        self.lane.look_at(key)

    def _configured(self, event: PolicyEvent) -> None:
        """Objects of some kinds are interpreted in another way from now on."""
        self.storage.changed()
        for key in self.state.works.of_kinds(self.interpretation.take(event)):
            self.lane.look_afresh(key)

    def _stored(self, event: WorkObserved) -> None:
        """The hub has stored an observation: it counts as reported."""
        self.state.observe(event)
        self.reports.folded(event)
        self.storage.changed()

    def _superseded(self, session: str) -> None:
        """The hub reports a session as ended: request a new one, unless that is under way."""
        if session == self.greeter.session and not self.greeter.greeting:
            self.follower.restart("another agent reports for this cluster")

    def _report_all(self) -> None:
        """Report once more what was reported: the hub keeps what differs from what it has."""
        works = self.state.works
        for key, event in works.observed.items():
            if key in works.works and self.reports.latest(self.state.cluster, key) is None:
                self.reports.report(event)

    def _saved(self, keys: Collection[ObjectKey]) -> None:
        self.state.forget_ended(keys)
        if self.manifests.kept:
            self.manifests.keep_only(self.state.digests())

    def _other_log(self) -> None:
        self.follower.restart("the hub speaks of another log or membership")

    def _source(self, clock: Clock) -> WorkSource:
        state, cluster = self.state, self.state.cluster

        def work(key: ObjectKey) -> tuple[WorkEvent, int] | None:
            return state.works.works.get(key)

        def observed(key: ObjectKey) -> WorkObserved | None:
            return self.reports.latest(cluster, key) or state.works.observed.get(key)

        async def previous(key: ObjectKey, current: WorkRendered) -> bytes | None:
            before, _ = state.works.before(key, current)
            if before is None:
                return None
            if not isinstance(before.manifest, UnsetType):
                return bytes(before.manifest)
            try:
                return await self.manifests.get(before.digest)
            except LogError:
                # What only the old manifest had is then left alone.
                return None

        def report(event: WorkObserved) -> None:
            self.reports.report(event)
            self.greeter.something_changed(event.key)

        return WorkSource(
            work=work,
            observed=observed,
            blob=self.manifests.get,
            previous=previous,
            report=report,
            now=clock.now,
            keep=self.storage.kept,
            identity=lambda: state.identity,
        )
