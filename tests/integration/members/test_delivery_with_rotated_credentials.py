"""The executor delivers with the credentials that a member accepts now, whatever became of those it began with."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

from schemas.codec import encode, subject_of
from schemas.events.work import WorkRendered
from schemas.keys import ObjectKey
from services._kit.content.blobs import digest_of
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._kit.log import streams as topology
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import NewMessage
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.executor.app import Executor
from services.executor.settings import ExecutorSettings
from tests.natsserver import Server
from tests.support.facts import cluster
from tests.support.serving import api_server, run
from tests.support.waiting import comes_to, eventually

SECRETS = resource_path("", "v1", "secrets", "karmada-cluster")
CONFIG_MAPS = resource_path("", "v1", "configmaps", "default")
ADMIN = Identity("admin", "admin", ("system:masters",))


class Ground:
    """A control plane with two members, of which one changes its mind about credentials, and the executor."""

    def __init__(self, control: KubeClient, facts: JetStreamLog, executor: Executor) -> None:
        self.control = control
        self.executor = executor
        self.members: dict[str, tuple[KubeClient, ApiServer]] = {}
        self._facts = facts

    async def join(self, stack: AsyncExitStack, name: str, directory: Path) -> None:
        client, server, _ = await api_server(stack, directory, builtin_registry(), "root")
        self.members[name] = client, server
        server.authenticator.add_token("first", ADMIN)
        await self.control.create(SECRETS, {"metadata": {"name": name}})
        await self.keep(name, token="first")
        fact = cluster(name, apiEndpoint=server.url, secretRef={"namespace": "karmada-cluster", "name": name})
        await self._facts.append([NewMessage(subject_of(fact), encode(fact), {})])

    def accept(self, name: str, token: str) -> None:
        """From now on the member refuses all other tokens."""
        authenticator = self.members[name][1].authenticator
        for old in ("first", "second", "third"):
            authenticator._tokens.pop(old, None)
        authenticator.add_token(token, ADMIN)

    async def keep(self, name: str, **data: str) -> None:
        """Write the Secret."""
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        old = (await self.control.get(f"{SECRETS}/{name}")).get("data") or {}
        await self.control.patch(f"{SECRETS}/{name}", {"data": {**dict.fromkeys(old), **encoded}})

    async def deliver(self, name: str, what: str) -> None:
        """Have a ConfigMap delivered; returns once it is there."""
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": what, "namespace": "default"}}
        data = msgspec.json.encode(manifest)
        key = ObjectKey("", "configmaps", "default", what)
        work = WorkRendered(
            cluster=name,
            key=key,
            uid="u",
            api_version="v1",
            kind="ConfigMap",
            digest=digest_of(data),
            manifest=msgspec.Raw(data),
        )
        await self._facts.append([NewMessage(subject_of(work), encode(work), {})])

        async def there() -> bool:
            try:
                await self.members[name][0].get(f"{CONFIG_MAPS}/{what}")
            except ApiError as error:
                if error.status != 404:
                    raise
                return False
            return True

        await comes_to(f"{what} is in {name}", there)

    def trouble(self, name: str) -> str:
        return self.executor._lanes[name][1].trouble


@pytest.fixture
async def ground(tmp_path: Path, nats_server: Server) -> AsyncIterator[Ground]:
    async with AsyncExitStack() as stack:
        connection = await Connection.open(nats_server.url)
        stack.push_async_callback(connection.close)
        await topology.apply(connection)
        control, _, kubeconfig = await api_server(stack, tmp_path / "control", builtin_registry(), "root")
        await control.create(resource_path("", "v1", "namespaces"), {"metadata": {"name": "karmada-cluster"}})
        settings = ExecutorSettings(nats_url=nats_server.url, http_port=-1, control_kubeconfig=str(kubeconfig))
        executor = Executor(settings)
        made = Ground(control, JetStreamLog(connection, "FACTS"), executor)
        for name in ("m1", "m2"):
            await made.join(stack, name, tmp_path / name)
        await run(stack, executor, settings)
        yield made


async def test_rotated_credentials_deliver_without_a_restart(ground: Ground) -> None:
    await ground.deliver("m1", "before")
    # Rotated in the Secret first, then in the member; and the other way round.
    await ground.keep("m1", token="second")
    ground.accept("m1", "second")
    await ground.deliver("m1", "rotated")
    ground.accept("m1", "third")
    await ground.keep("m1", token="third")
    await ground.deliver("m1", "refused")
    # Broken: this member waits and says why, the other one does not.
    await ground.keep("m1", clientCert="none")
    ground.accept("m1", "first")
    lane = ground.executor._lanes["m1"][1]
    assert lane.connection.client is not None
    with pytest.raises(ApiError) as refused:
        await lane.connection.client.get(CONFIG_MAPS)
    assert refused.value.status == 401
    lane.connection.failed(refused.value)
    await eventually(lambda: "401" in ground.trouble("m1"))
    await ground.deliver("m2", "meanwhile")
    await ground.keep("m1", token="first")
    await ground.deliver("m1", "mended")
    assert not ground.trouble("m1")
