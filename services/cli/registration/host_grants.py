"""Lets agents in at a log that runs in a cluster: accounts in the servers' configuration, which is a Secret there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._rules.identity.accounts import AgentIdentity, agent_account
from services.cli.common.control_plane import kubeconfig_path
from services.cli.common.running import Failed
from services.cli.installation import certificate_files
from services.cli.nats.account_reloads import Servers
from services.cli.registration.host_options import HostOptions
from services.cli.renewal.host_cluster import ACCOUNT, opened_host
from services.cli.renewal.log_secrets import ACCOUNTS_SECRET, Accounts, change_agents, read_accounts

_WORKLOAD: Final = "nats"
_SECONDS: Final = 180.0
"""A kubelet writes the files of a changed Secret within a minute or two."""


class HostGrants:
    """Accounts in the configuration of servers that are pods: the key alone lets an agent in.

    The Secret of the servers says which agents there are; a directory of `fleetlog certs` learns it from there.
    """

    def __init__(self, options: HostOptions, url: str) -> None:
        """`url` is where agents reach the log. Raises Failed where files are missing."""
        self._options = options
        self._directory = Path(options.certs).expanduser().resolve()
        self.url = url
        self.authority = _text(self._directory / certificate_files.CA)

    async def check(self) -> None:
        """Raises Failed while the servers or their cluster are not reached."""
        async with self._host() as host:
            accounts = await self._accounts(host)
            await self._servers_of(host)
        async with self._servers(accounts.passwords.system, 1):
            pass

    async def admit(self, users: Mapping[str, str]) -> dict[str, str]:
        """Enter the keys into the servers' configuration, and wait until all have read them."""
        self._forget(users)
        async with self._host() as host:
            accounts = await self._accounts(host)
            if again := [name for name, user in users.items() if accounts.key_of(name) not in ("", user)]:
                # With another key it could not be seen whether a server has read the account of before.
                await self._change(host, dict.fromkeys(again, ""))
            await self._change(host, users)
        return dict.fromkeys(users, "")

    async def expel(self, cluster: str) -> None:
        """Take an agent its account; raises Failed where it has none, or where a server keeps it."""
        self._forget([cluster])
        async with self._host() as host:
            if not (await self._accounts(host)).key_of(cluster):
                raise Failed(
                    f"Secret {ACCOUNTS_SECRET} of namespace {self._options.namespace} has no agent of {cluster!r}"
                )
            await self._change(host, {cluster: ""})

    async def registered(self) -> Collection[str]:
        """Clusters whose agents were let in by `admit`."""
        async with self._host() as host:
            return (await self._accounts(host)).registered

    def _forget(self, clusters: Iterable[str]) -> None:
        """Take keys out of the directory, if they are there, so that they do not come back from it."""
        if known := [cluster for cluster in clusters if certificate_files.has_agent(self._directory, cluster)]:
            certificate_files.shut_out(self._directory, known)
            certificate_files.admit(self._directory, ())

    async def _accounts(self, host: KubeClient) -> Accounts:
        accounts = await read_accounts(host, self._options.namespace)
        if accounts is None:
            raise Failed(
                f"namespace {self._options.namespace} of {host.server} has no Secret {ACCOUNTS_SECRET}; say where the "
                "log runs with --host-kubeconfig and --host-namespace"
            )
        return accounts

    async def _change(self, host: KubeClient, keys: Mapping[str, str]) -> None:
        """Give clusters' agents accounts with these keys, none if empty, and wait until every server has read them."""
        given = {cluster for cluster, key in keys.items() if key}

        def changed(accounts: Accounts) -> Accounts:
            others = (agent for agent in accounts.agents if agent.cluster not in keys)
            agents = (*others, *(AgentIdentity(cluster, keys[cluster]) for cluster in sorted(given)))
            return replace(accounts, agents=agents, registered=accounts.registered - keys.keys() | given)

        now = await change_agents(host, self._options.namespace, changed)
        async with self._servers(now.passwords.system, await self._servers_of(host)) as servers:
            for cluster in keys:
                await servers.until_known(agent_account(cluster), known=cluster in given, seconds=_SECONDS)

    async def _servers_of(self, host: KubeClient) -> int:
        """How many servers there are; raises Failed where the cluster has none."""
        place = self._options.namespace
        try:
            found = await host.get(resource_path("apps", "v1", "statefulsets", place, _WORKLOAD))
        except ApiError as error:
            if error.status != 404:
                raise
            raise Failed(
                f"namespace {place} of {host.server} has no StatefulSet {_WORKLOAD}; say where the log runs with "
                "--host-kubeconfig and --host-namespace"
            ) from None
        return int(found["spec"]["replicas"])

    @asynccontextmanager
    async def _host(self) -> AsyncIterator[KubeClient]:
        """The cluster of the log: the one around this pod, unless a kubeconfig is named or this is no pod."""
        named = self._options.kubeconfig
        if not named and not ACCOUNT.exists():
            named = str(kubeconfig_path(""))
        async with opened_host(named, self._options.context) as host:
            yield host

    @asynccontextmanager
    async def _servers(self, password: str, number: int) -> AsyncIterator[Servers]:
        authority = str(self._directory / certificate_files.CA)
        async with Servers.opened(self._options.through or self.url, password, authority, number) as servers:
            yield servers


async def revoke(grants: HostGrants, cluster: str) -> None:
    """End the identity of a cluster's agent at all servers; raises Failed where it has none."""
    await grants.check()
    await grants.expel(cluster)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise Failed(
            f"{path} cannot be read ({error.strerror}); --certs is the directory of `fleetlog certs`"
        ) from None
