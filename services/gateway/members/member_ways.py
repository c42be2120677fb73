"""Opens the ways to members of both kinds, and puts what is carried there on record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

from schemas.topology import REQUESTS
from services._kit.base.clock import Clock
from services._kit.credentials.kubeconfig import open_kubeconfig
from services._kit.kube.client import KubeClient
from services._kit.log.stream_port import Log
from services._kit.proxying.cluster_departures import DepartureTransport
from services._kit.proxying.member_directory import ChosenTransport, MemberDirectory
from services._kit.proxying.member_exchange import MemberTransport
from services._kit.proxying.pull_members import PullMembers
from services._kit.proxying.push_transport import PushTransport
from services._kit.proxying.recorded_transport import RecordedTransport
from services._kit.proxying.request_journal import RequestJournal
from services.gateway.settings import GatewaySettings

CONTROL_CONNECTIONS: Final = 16
"""Connections to the control plane for reads of Clusters and their Secrets."""


class MemberWays:
    """What a running gateway reaches members by; close it at the end."""

    def __init__(
        self,
        control: KubeClient,
        directory: MemberDirectory,
        push: PushTransport,
        pull: PullMembers,
        journal: RequestJournal,
        clock: Clock,
    ) -> None:
        self.control = control
        self.directory = directory
        self.departing = DepartureTransport(ChosenTransport(directory, push, pull.transport))
        self.reads: MemberTransport = self.departing
        """For what the gateway asks of many members in its own name, which is not put on record."""
        self.transport: MemberTransport = RecordedTransport(self.departing, "gateway", clock, journal.take)
        self.pull = pull
        self.journal = journal
        self._parts = (pull, push, journal, control)

    @classmethod
    async def open(cls, settings: GatewaySettings, logs: Mapping[str, Log], clock: Clock) -> Self:
        """Open them with the kubeconfig of the settings; raises OSError where it cannot be read, and Unavailable."""
        control = await open_kubeconfig(settings.control_kubeconfig, connections=CONTROL_CONNECTIONS)
        directory = MemberDirectory(control)
        pull = await PullMembers.open(settings, "gateway", clock)
        return cls(
            control, directory, PushTransport(directory), pull, RequestJournal(logs[REQUESTS.name], clock), clock
        )

    async def close(self) -> None:
        """End what is under way."""
        for part in self._parts:
            await part.close()
