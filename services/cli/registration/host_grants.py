"""Lets agents in at a log that runs in a cluster: accounts in the servers' configuration, which is a Secret there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._rules.identity.accounts import agent_account
from services.cli.common.control_plane import client_of, kubeconfig_path
from services.cli.common.running import Failed
from services.cli.installation import certificate_files
from services.cli.nats.account_reloads import Servers
from services.cli.registration.host_options import HostOptions
from services.cli.renewal.log_secrets import ACCOUNTS_KEY, ACCOUNTS_SECRET, write_secret

_WORKLOAD: Final = "nats"
_SECONDS: Final = 180.0
"""A kubelet writes the files of a changed Secret within a minute or two."""


class HostGrants:
    """Accounts in the configuration of servers that are pods: the key alone lets an agent in."""

    def __init__(self, options: HostOptions, url: str) -> None:
        """`url` is where agents reach the log. Raises Failed where files are missing."""
        self._options = options
        self._directory = Path(options.certs).expanduser().resolve()
        self.url = url
        self.authority = _text(self._directory / certificate_files.CA)

    async def check(self) -> None:
        """Raises Failed while the servers or their cluster are not reached."""
        async with self._host() as host:
            await self._servers_of(host)
        async with self._servers(1):
            pass

    async def admit(self, cluster: str, user: str) -> str:
        """Enter the key into the servers' configuration, and wait until all have read it."""
        if certificate_files.has_agent(self._directory, cluster):
            # With another key it could not be seen whether a server has read the account of before.
            await self.expel(cluster)
        certificate_files.enter(self._directory, cluster, user)
        await self._spread(cluster, known=True)
        return ""

    async def expel(self, cluster: str) -> None:
        """Take an agent its account; raises Failed where it has none, or where a server keeps it."""
        certificate_files.shut_out(self._directory, [cluster])
        certificate_files.admit(self._directory, ())
        await self._spread(cluster, known=False)

    async def _spread(self, cluster: str, *, known: bool) -> None:
        async with self._host() as host:
            text = _text(self._directory / "nats" / ACCOUNTS_KEY)
            await write_secret(host, self._options.namespace, ACCOUNTS_SECRET, {ACCOUNTS_KEY: text})
            number = await self._servers_of(host)
        async with self._servers(number) as servers:
            await servers.until_known(agent_account(cluster), known=known, seconds=_SECONDS)

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
        path = kubeconfig_path(self._options.kubeconfig)
        host = await client_of(path, path, self._options.context)
        try:
            yield host
        finally:
            await host.close()

    @asynccontextmanager
    async def _servers(self, number: int) -> AsyncIterator[Servers]:
        password = _text(self._directory / certificate_files.SYSTEM_PASSWORD).strip()
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
