"""What a member needs to be asked by the hub: a connection of its own, the requests, and the records of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from services._kit.base.clock import Clock
from services._kit.concurrency.supervision import supervise
from services._kit.kube.client import KubeClient
from services.agent.hub_connection import HubConnection
from services.agent.settings import AgentSettings
from services.agent.tunnel.allow_list import AllowList
from services.agent.tunnel.own_api_server import OwnApiServer
from services.agent.tunnel.record_sender import RecordSender
from services.agent.tunnel.request_server import RequestServer


class Tunnel:
    """Answers requests while it runs; `hub` is the agent's other connection, which large answers must not hold up."""

    def __init__(
        self,
        settings: AgentSettings,
        instance: str,
        allowed: AllowList,
        hub: HubConnection,
        member: KubeClient,
        clock: Clock,
        session: Callable[[], str],
    ) -> None:
        cluster = settings.agent_cluster
        self.records = RecordSender(hub, cluster, clock, session)
        self._link = HubConnection(settings, f"agent/{instance}/requests")
        self._member = OwnApiServer(member)
        self.server = RequestServer(self._link, cluster, instance, allowed, self._member, clock, self.records.take)

    async def run(self) -> None:
        """Answer requests until cancelled."""
        link = supervise("requests-connection", self._link.run)
        records = supervise("request-records", self.records.run)
        server = supervise("requests", self.server.run)
        try:
            await asyncio.Event().wait()
        finally:
            # What is under way is told that it ends while there is a connection.
            await server.close()
            await link.close()
            await records.close()
            await self._member.close()
