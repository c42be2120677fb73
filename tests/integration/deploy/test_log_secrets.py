"""`fleetlog certs --agent NAME --secrets NAMESPACE`: files and Secrets of a cluster say the same afterwards."""

from __future__ import annotations

import asyncio
import base64
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from services._kit.kube.client import KubeClient
from services._rules.identity.accounts import AgentIdentity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from services.cli.installation.certificate_files import NAMESPACE, make
from services.cli.nats.nkeys import new_seed, public_key
from services.cli.renewal.log_secrets import Accounts, change_agents, read_accounts
from tests.support.commands import run_command

PLACE = f"/api/v1/namespaces/{NAMESPACE}/secrets"
ACCOUNTS = "fleetlog-nats-accounts"


class Cluster:
    """A cluster with the namespace of an installation, and the directory that it is made from."""

    def __init__(self, place: Path, client: KubeClient) -> None:
        self.client = client
        self.deploy = place / "deploy"
        self.kubeconfig = place / "host.kubeconfig"
        make(self.deploy)

    async def certs(
        self, *arguments: str, out: Path | None = None, namespace: str = NAMESPACE
    ) -> subprocess.CompletedProcess[str]:
        """The command, with the Secrets of this cluster."""
        at = ("--out", str(out or self.deploy), "--secrets", namespace, "--kubeconfig", str(self.kubeconfig))
        return await asyncio.to_thread(run_command, "fleetlog", "certs", *at, *arguments)

    async def data(self, name: str) -> dict[str, str]:
        """The contents of a Secret."""
        found = (await self.client.get(f"{PLACE}/{name}"))["data"]
        return {key: base64.b64decode(value).decode() for key, value in found.items()}

    def file(self, name: str) -> str:
        return (self.deploy / name).read_text()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    kubeconfig = tmp_path / "host.kubeconfig"
    server = ApiServer(MemoryStore(), builtin_registry(), Settings(data_dir=tmp_path / "data", kubeconfig=kubeconfig))
    await server.start()
    client = await KubeClient.from_kubeconfig(kubeconfig)
    try:
        await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": NAMESPACE}})
        yield Cluster(tmp_path, client)
    finally:
        await client.close()
        await server.stop()


async def test_an_agent_comes_and_goes_in_files_and_secret(cluster: Cluster) -> None:
    done = await cluster.certs("--agent", "member3")
    assert (done.returncode, done.stdout) == (0, f"Secret {ACCOUNTS}: created\n"), done.stderr
    assert await cluster.data(ACCOUNTS) == {"accounts.conf": cluster.file("nats/accounts.conf")}
    assert "AGENT-member3" in cluster.file("nats/accounts.conf")
    assert cluster.file("agents/member3/nkey.seed").startswith("SU")
    # What others keep in it stays.
    await cluster.client.patch(f"{PLACE}/{ACCOUNTS}", {"stringData": {"mine": "kept"}})
    done = await cluster.certs("--drop-agent", "member3")
    assert (done.returncode, done.stdout) == (0, f"Secret {ACCOUNTS}: written\n"), done.stderr
    found = await cluster.data(ACCOUNTS)
    assert found == {"accounts.conf": cluster.file("nats/accounts.conf"), "mine": "kept"}
    assert "AGENT-member3" not in found["accounts.conf"]


async def test_agents_that_the_secret_let_in_stay(cluster: Cluster) -> None:
    assert (await cluster.certs("--agent", "member3")).returncode == 0
    key = public_key(new_seed("user"))

    def let_in(name: str) -> Callable[[Accounts], Accounts]:
        def changed(accounts: Accounts) -> Accounts:
            others = tuple(agent for agent in accounts.agents if agent.cluster != name)
            agents = (*others, AgentIdentity(name, key))
            return replace(accounts, agents=agents, registered=accounts.registered | {name})

        return changed

    await change_agents(cluster.client, NAMESPACE, let_in("member4"))
    assert (await cluster.certs("--agent", "member5")).returncode == 0
    found = await read_accounts(cluster.client, NAMESPACE)
    assert found is not None
    assert (len(found.agents), found.key_of("member4"), found.registered) == (3, key, {"member4"})
    assert (await cluster.data(ACCOUNTS))["accounts.conf"] == cluster.file("nats/accounts.conf")
    # One that has registered again has another key than the directory knows.
    await change_agents(cluster.client, NAMESPACE, let_in("member5"))
    refused = await cluster.certs("--agent", "member6")
    assert (refused.returncode, "--drop-agent member5 takes it both" in refused.stderr) == (1, True)
    assert (await cluster.certs("--drop-agent", "member5", "--drop-agent", "member4")).returncode == 0
    left = await read_accounts(cluster.client, NAMESPACE)
    assert left is not None
    assert [agent.cluster for agent in left.agents] == ["member3"]


async def test_new_passwords_reach_servers_and_who_has_them(cluster: Cluster) -> None:
    before = cluster.file("passwords/cluster_monitor")
    users = ("cluster_monitor", "observer", "system")
    done = await cluster.certs(*(word for user in users for word in ("--log-user", user)))
    assert done.returncode == 0, done.stderr
    # The servers' accounts come first.
    names = [line.split()[1].rstrip(":") for line in done.stdout.splitlines()]
    assert names == [ACCOUNTS, "fleetlog-log-cluster-monitor", "fleetlog-log"]
    password = (await cluster.data("fleetlog-log-cluster-monitor"))["password"]
    assert password != before
    accounts = (await cluster.data(ACCOUNTS))["accounts.conf"]
    assert password in accounts
    assert before not in accounts
    observer = await cluster.data("fleetlog-log")
    assert observer == {"ca.crt": cluster.file("ca.crt"), "observer.password": cluster.file("observer.password")}
    assert cluster.file("system.password") in accounts


async def test_accounts_of_another_installation_stay(cluster: Cluster, tmp_path: Path) -> None:
    assert (await cluster.certs("--agent", "member3")).returncode == 0
    before = await cluster.data(ACCOUNTS)
    make(tmp_path / "other")
    done = await cluster.certs("--agent", "member4", out=tmp_path / "other")
    assert done.returncode == 1
    assert "was not made from this directory" in done.stderr
    assert not (tmp_path / "other/agents/member4").exists()
    done = await cluster.certs("--agent", "member4", out=tmp_path / "none")
    assert done.returncode == 1
    assert "holds no certificates yet" in done.stderr
    assert await cluster.data(ACCOUNTS) == before


async def test_a_secret_that_cannot_be_written_is_named(cluster: Cluster) -> None:
    done = await cluster.certs("--agent", "member3", namespace="nowhere")
    assert done.returncode == 1
    assert f"Secret {ACCOUNTS} of namespace nowhere cannot be written" in done.stderr
    assert "the files in" in done.stderr
    assert "AGENT-member3" in cluster.file("nats/accounts.conf")


@pytest.mark.parametrize(
    "words",
    [
        ("--secrets", NAMESPACE),
        ("--kubeconfig", "host.yaml", "--agent", "a"),
        ("--secrets", NAMESPACE, "--renew", "--agent", "a"),
        ("--secrets", NAMESPACE, "--secret", "one", "--agent", "a"),
        ("--secrets", NAMESPACE, "--control", "https://cp", "--agent", "a"),
    ],
)
def test_options_that_say_nothing_together_are_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    done = run_command("fleetlog", "certs", "--out", str(tmp_path / "deploy"), *words)
    assert done.returncode == 1
    assert "--secrets NAMESPACE goes with" in done.stderr
    assert not (tmp_path / "deploy").exists()
