"""Runs the agent: connects in the background, waits for its Lease in the member, and then applies works."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from services._kit.base import logs
from services._kit.base.clock import SystemClock
from services._kit.base.health import Health, HealthServer
from services._kit.base.metrics import KitMetrics, ReadCollector, process_metrics
from services._kit.base.settings import SettingsError
from services._kit.concurrency.supervision import Supervisor, supervise
from services._kit.concurrency.tasks import end, first_of
from services._kit.credentials.kubeconfig import open_kubeconfig
from services._kit.delivery.lane_metrics import WriteMetrics, register_lane
from services._kit.kube.client import KubeClient
from services._kit.log.ids import default_instance
from services.agent.agent_session import AgentSession
from services.agent.hub_connection import HubConnection
from services.agent.leader_lease import LeaderLease
from services.agent.settings import AgentSettings
from services.agent.tunnel.allow_list import allow_list

NAME = "agent"


class Agent:
    """One agent process; `run` until cancelled."""

    def __init__(self, settings: AgentSettings) -> None:
        self.settings = settings
        self.instance = settings.instance or default_instance(f"{NAME}-{settings.agent_cluster}")
        self.health = Health()
        self.term: AgentSession | None = None
        """What acts right now; None while it is not this agent's turn."""
        self.link = HubConnection(settings, f"{NAME}/{self.instance}")
        self._allowed = allow_list(settings.agent_requests) if settings.agent_requests else None
        self._clock = SystemClock()
        self._logger: Any = logs.get(service=NAME, instance=self.instance, cluster=settings.agent_cluster)
        if not Path(settings.agent_kubeconfig).is_file():
            raise SettingsError(f"FLEETLOG_AGENT_KUBECONFIG: {settings.agent_kubeconfig} does not exist")

    async def run(self) -> None:
        """Serve the cluster; returns only by cancellation."""
        metrics = KitMetrics(NAME)
        process_metrics(metrics.registry)
        self._checks()
        async with Supervisor(self.health, metrics.reads):
            await self._live(metrics)

    async def _live(self, metrics: KitMetrics) -> None:
        server: HealthServer | None = None
        client = await self._open_member()
        holding = LeaderLease(
            client,
            self.settings.agent_lease_namespace,
            self.instance,
            self.settings.agent_lease_seconds,
            self._clock,
        )
        kept = [supervise("hub", self.link.run)]
        try:
            if self.settings.http_port >= 0:
                server = HealthServer(self.health, metrics.registry, self.settings.http_host, self.settings.http_port)
                await server.start()
                self._logger.info("listening", host=server.host, port=server.port)
            if self.settings.agent_lease:
                self.health.check("turn", lambda: holding.trouble)
                kept.append(supervise("turn", holding.run))
            else:
                holding.lost.clear()
                holding.held.set()
            kept.append(supervise("terms", partial(self._terms, holding, client, metrics)))
            await asyncio.Event().wait()
        finally:
            await end(*(supervised.task for supervised in reversed(kept)))
            if self.settings.agent_lease:
                await holding.resign()
            if server is not None:
                await server.stop()
            await client.close()

    async def _terms(self, holding: LeaderLease, client: KubeClient, metrics: KitMetrics) -> None:
        written = WriteMetrics(metrics.reads)
        while True:
            await holding.held.wait()
            self.term = AgentSession(
                self.link,
                self.settings,
                self.instance,
                client,
                lambda: self._open_guarded(holding),
                self._clock,
                lambda: holding.fresh or not self.settings.agent_lease,
                written,
                self._allowed,
            )
            _register(metrics.reads, self.term)
            self._logger.info("acting", works=len(self.term.state.works.works), position=self.term.state.position)
            try:
                await first_of(self.term.run(), holding.lost.wait())
            finally:
                self.term = None
                metrics.reads.forget()

    def _checks(self) -> None:
        """Register readiness checks: an unreachable hub is reported, although the agent continues."""

        def of(trouble: Callable[[AgentSession], str]) -> Callable[[], str]:
            return lambda: trouble(self.term) if self.term is not None else ""

        self.health.check("hub", lambda: self.link.trouble)
        link = self.link
        self.health.check("entered", lambda: "" if link.entered else f"the hub was never reached: {link.trouble}")
        self.health.check("works", of(lambda term: term.follower.trouble))
        self.health.check("member", of(lambda term: term.lane.trouble))
        self.health.check("storage", of(lambda term: term.storage.trouble))
        self.health.fact("acting", lambda: self.term is not None)
        self.health.fact("position", lambda: self.term.state.position if self.term is not None else 0)

    def _open_member(self) -> Awaitable[KubeClient]:
        return open_kubeconfig(self.settings.agent_kubeconfig)

    async def _open_guarded(self, holding: LeaderLease) -> KubeClient:
        member = await self._open_member()
        if self.settings.agent_lease:
            member.guard = holding
        return member


async def run_until_signal(settings: AgentSettings) -> None:
    """Run one agent until SIGTERM or SIGINT; raises SettingsError and OSError."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    agent = Agent(settings)
    logs.tell_strays(loop, logs.get(service=NAME, instance=agent.instance))
    await first_of(agent.run(), stop.wait())


def _register(reads: ReadCollector, term: AgentSession) -> None:
    """Offer what the agent reads, delivers and reports."""
    works = "Works read from the hub"
    follow, manifests, publisher = term.follower.stats, term.manifests, term.publisher
    reads.gauge("agent_position", "Position up to which works were read", lambda: term.state.position)
    reads.gauge("agent_objects", "Works known", lambda: len(term.state.works.works))
    reads.gauge("agent_reading", "1 while works come from the hub", lambda: term.follower.reading)
    reads.counter("agent_works", works, lambda: follow.works)
    reads.counter("agent_consumers", "Consumers asked for", lambda: follow.consumers)
    reads.counter("agent_gaps", "Gaps in what the hub sent", lambda: follow.gaps)
    reads.counter("agent_hellos", "Greetings", lambda: term.greeter.hellos)
    reads.counter("agent_manifests", "Manifests fetched", lambda: manifests.fetched)
    reads.counter("agent_reports", "Observations the hub took", lambda: publisher.sent)
    reads.counter("agent_reports_refused", "Observations the hub refused", lambda: publisher.refused)
    reads.gauge("agent_reports_waiting", "Observations not yet sent", lambda: term.reports.backlog)
    register_lane(reads, term.lane)
    if term.tunnel is not None:
        server, records = term.tunnel.server, term.tunnel.records
        reads.gauge("agent_requests_under_way", "Requests of the hub that did not end yet", lambda: server.under_way)
        reads.counter("agent_requests_served", "Requests of the hub that were answered", lambda: server.served)
        reads.counter("agent_requests_refused", "Requests not permitted, or too many", lambda: server.turned_away)
        reads.counter("agent_records", "Records of requests that agents sent", lambda: records.sent)
        reads.counter("agent_records_lost", "Requests without a record: too many at once", lambda: records.lost)
