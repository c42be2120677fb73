"""What lets agents in as a part of an installation: with the rights of its own user, patient, and until they leave."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from services._kit.kube.client import KubeClient
from services._rules.constants import AGENT_SIGNER
from services._rules.identity import bootstrap_tokens
from services._rules.kubernetes.rbac.service_roles import SERVICE_GROUP, SIGNER_OF_AGENTS, user_of
from services.apiserver.auth.kubeconfig_files import write
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.running import Failed
from services.cli.hosting.rolling_out import put
from services.cli.installation.install_crds import apply_definitions, needed_definitions
from services.cli.members.clusters import CLUSTERS
from services.cli.members.registration_objects import bootstrap_objects
from services.cli.members.signing import REQUESTS, Signer, serve
from services.cli.nats.nkeys import new_seed, public_key
from services.cli.registration.register import request_of
from tests.support.waiting import eventually


class Log:
    """Grants that keep a book; `problem` is why the servers cannot be told."""

    url = "tls://log.example:32422"
    authority = "PEM"

    def __init__(self) -> None:
        self.agents: dict[str, str] = {}
        self.problem = ""
        self.rounds = 0

    async def check(self) -> None:
        if self.problem:
            raise Failed(self.problem)

    async def admit(self, users: Mapping[str, str]) -> dict[str, str]:
        self.rounds += 1
        self.agents |= users
        return dict.fromkeys(users, "")

    async def registered(self) -> Collection[str]:
        return list(self.agents)

    async def expel(self, cluster: str) -> None:
        del self.agents[cluster]


class Ground:
    """A control plane, the clients of its users, and what signs for agents there."""

    def __init__(self, url: str) -> None:
        self.admin, self.bearer = KubeClient.from_token(url, "admin"), KubeClient.from_token(url, "bearer")
        self.own = KubeClient.from_token(url, SIGNER_OF_AGENTS)
        self.log = Log()
        self.signer = Signer(self.own, self.log, patient=True)

    async def asks(self, cluster: str) -> tuple[str, str]:
        """A request of an agent: its name and the key."""
        seed = new_seed("user")
        spec = {
            "signerName": AGENT_SIGNER,
            "usages": ["digital signature", "client auth"],
            "request": base64.b64encode(request_of(seed, cluster)).decode(),
        }
        made = await self.bearer.create(REQUESTS, {"metadata": {"generateName": "m-"}, "spec": spec})
        return made["metadata"]["name"], public_key(seed)

    async def answered(self, name: str) -> dict[str, Any]:
        """The request once it was decided."""

        async def look() -> dict[str, Any] | None:
            live = await self.admin.get(f"{REQUESTS}/{name}")
            return live if (live.get("status") or {}).get("conditions") else None

        found: dict[str, Any] = await eventually(look, f"{name} is decided")
        return found

    def counted(self) -> dict[str, float]:
        (family,) = self.signer.collect()
        return {sample.labels["answer"]: sample.value for sample in family.samples}


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Ground]:
    groups = (bootstrap_tokens.BOOTSTRAPPERS, bootstrap_tokens.DEFAULT_GROUP)
    tokens = {
        "admin": Identity("admin", "", ("system:masters",)),
        "bearer": Identity("system:bootstrap:abcdef", "", groups),
        SIGNER_OF_AGENTS: Identity(user_of(SIGNER_OF_AGENTS), "", (SERVICE_GROUP,)),
    }
    settings = Settings(
        data_dir=tmp_path, tokens=tokens, tls=False, authorization="Node,RBAC", service_roles=True, controllers=False
    )
    server = ApiServer(MemoryStore(), builtin_registry(), settings)
    await server.start()
    made = Ground(server.url)
    try:
        for item in bootstrap_objects(server.url, ""):
            await put(made.admin, item)
        yield made
    finally:
        for client in (made.admin, made.bearer, made.own):
            await client.close()
        await server.stop()


@asynccontextmanager
async def running(ground: Ground) -> AsyncIterator[None]:
    task = asyncio.create_task(ground.signer.run(lambda: None))
    try:
        yield
    finally:
        assert not task.done(), task.result()
        task.cancel()
        await asyncio.wait([task])


async def test_an_agent_is_in_until_its_cluster_is_removed(ground: Ground) -> None:
    await apply_definitions(ground.admin, needed_definitions())
    async with running(ground):
        name, key = await ground.asks("m3")
        live = await ground.answered(name)
        assert [one["type"] for one in live["status"]["conditions"]] == ["Approved"]
        said = live["metadata"]["annotations"]
        assert said[bootstrap_tokens.URL_ANNOTATION] == ground.log.url
        assert ground.log.agents == {"m3": key}
        assert (await ground.admin.get(f"{CLUSTERS}/m3"))["spec"]["syncMode"] == "Pull"
        again, _ = await ground.asks("m3")
        (denied,) = (await ground.answered(again))["status"]["conditions"]
        assert (denied["type"], "registered already" in denied["message"]) == ("Denied", True)
        # A Cluster that goes takes the identity of its agent with it; others stay.
        other, _ = await ground.asks("m4")
        await ground.answered(other)
        await ground.admin.delete(f"{CLUSTERS}/m3")
        await eventually(lambda: list(ground.log.agents) == ["m4"], "the agent of m3 is shut out")
        await eventually(lambda: ground.counted() == {"admitted": 2, "denied": 1, "expelled": 1}, "all is counted")


async def test_agents_stay_where_most_clusters_are_gone_at_once(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    await apply_definitions(ground.admin, needed_definitions())
    ground.log.agents = {"m1": "", "m2": "", "m3": ""}
    said = ""

    def told() -> bool:
        nonlocal said
        said += "".join(capsys.readouterr())
        return "3 of 3 clusters are gone at once" in said

    async with running(ground):
        await eventually(told, "it is told")
    assert len(ground.log.agents) == 3


async def test_health_and_metrics_are_served(
    ground: Ground, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "signer.kubeconfig"
    write(kubeconfig, server=ground.own.server, name="cp", ca=None, cert=b"", key=b"", token=SIGNER_OF_AGENTS)
    serving = asyncio.create_task(serve(ControlPlaneOptions(str(kubeconfig)), ground.log, "127.0.0.1", 0))
    said = ""

    def port() -> str:
        nonlocal said
        said += "".join(capsys.readouterr())
        return said.partition("health is told at port ")[2].partition("\n")[0]

    try:
        url = f"http://127.0.0.1:{await eventually(port, 'its port is told')}"
        async with aiohttp.ClientSession() as session:

            async def asked(path: str) -> tuple[int, str]:
                async with session.get(f"{url}{path}") as response:
                    return response.status, await response.text()

            # There are no definitions yet: it waits, alive.
            async def lacks() -> bool:
                code, reasons = await asked("/readyz")
                return code == 503 and "the control plane answers" in reasons

            async def ready() -> bool:
                return (await asked("/readyz"))[0] == 200

            await eventually(lacks, "the definitions are named")
            assert (await asked("/livez"))[0] == 200
            await apply_definitions(ground.admin, needed_definitions())
            await eventually(ready, "it is ready")
            name, _ = await ground.asks("m3")
            await ground.answered(name)
            assert 'fleetlog_agent_signer_answers_total{answer="admitted"} 1.0' in (await asked("/metrics"))[1]
        # Nothing else ends a process that is the first of its container.
        os.kill(os.getpid(), signal.SIGTERM)
        assert await asyncio.wait_for(serving, 30) == 0
    finally:
        serving.cancel()
        await asyncio.wait([serving])


async def test_what_is_not_there_yet_is_waited_for_and_named(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.cli.members.signing._PAUSE", 0.02)
    ground.log.problem = "the log's server does not answer"
    names = [(await ground.asks(cluster))[0] for cluster in ("m3", "m4", "m5")]
    lacks = ground.signer.lacks
    async with running(ground):
        await eventually(lambda: lacks.get(REQUESTS) == ground.log.problem, "servers that are away are named")
        await eventually(lambda: "the control plane answers" in lacks.get(CLUSTERS, ""), "so are definitions")
        assert not ground.log.agents
        await apply_definitions(ground.admin, needed_definitions())
        ground.log.problem = ""
        for name in names:
            await ground.answered(name)
        # It takes the servers a minute to read of agents, however many there are.
        assert (ground.log.rounds, len(ground.log.agents)) == (1, 3)
        await eventually(lambda: lacks == {REQUESTS: "", CLUSTERS: ""}, "nothing is lacking")
