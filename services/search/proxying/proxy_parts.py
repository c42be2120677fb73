"""Makes the global proxy of a process: the ways to members and to the control plane, the record of requests, bounds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from schemas.topology import REQUESTS
from services._kit.kube.client import KubeClient
from services._kit.proxying.caller_limits import CallerBounds, CallerLimits
from services._kit.proxying.cluster_departures import DepartureTransport
from services._kit.proxying.member_directory import ChosenTransport, MemberDirectory
from services._kit.proxying.member_exchange import MemberTransport
from services._kit.proxying.pull_members import PullMembers
from services._kit.proxying.push_transport import PushTransport
from services._kit.proxying.recorded_transport import RecordedTransport
from services._kit.proxying.request_journal import RequestJournal
from services._kit.runtime.service import Context
from services.search.index.member_index import MemberIndex
from services.search.proxying.global_proxy import GlobalProxy
from services.search.proxying.index_view import IndexAtHand, SelectedKinds
from services.search.registries.coverage import Coverage
from services.search.registries.member_facts import MemberFacts
from services.search.registries.wanted_kinds import Registry
from services.search.settings import SearchSettings


class ProxyParts:
    """`proxy` is there until it is closed."""

    def __init__(
        self,
        push: PushTransport,
        pull: PullMembers | None,
        journals: tuple[RequestJournal, ...],
        departing: DepartureTransport,
    ) -> None:
        self.proxy: GlobalProxy
        self.pull: MemberTransport | None = pull.transport if pull is not None else None
        """The way to pull members, for what is read of them without a caller."""
        self._push = push
        self._pull = pull
        self._journals = journals
        self.left = departing.left
        """To be told of clusters that leave."""

    @classmethod
    async def open(
        cls,
        settings: SearchSettings,
        context: Context[Any, Any],
        control: KubeClient,
        index: MemberIndex,
        coverage: Coverage,
        members: Callable[[], Mapping[str, MemberFacts]],
        registries: Callable[[], Iterable[Registry]],
    ) -> Self:
        """Connect to what carries requests to pull members; raises Unavailable when it does not answer."""
        directory = MemberDirectory(control)
        push = PushTransport(directory)
        pull = None
        if context.connection is not None:
            pull = await PullMembers.open(settings, "search", context.clock)
        # One list asks every member: its records must not take the place of those of writes and connections.
        reads_journal, journal = (RequestJournal(context.logs[REQUESTS.name], context.clock) for _ in range(2))
        chosen = ChosenTransport(directory, push, pull.transport if pull is not None else None)
        departing = DepartureTransport(chosen)
        made = cls(push, pull, (reads_journal, journal), departing)
        takes = pull.transport.takes if pull is not None else frozenset[str]().__contains__
        bounds = CallerBounds(settings.proxy_requests, settings.proxy_streams, settings.proxy_requests_altogether)
        limits = CallerLimits(bounds)
        reads = context.metrics.reads
        reads.gauge("search_proxied", "Requests that the global proxy is answering", lambda: limits.under_way)
        reads.gauge("search_proxied_streams", "Those of them that run for long", lambda: limits.lasting)
        made.proxy = GlobalProxy(
            SelectedKinds(coverage, members, registries, takes),
            IndexAtHand(index),
            RecordedTransport(chosen, "search", context.clock, reads_journal.take),
            RecordedTransport(departing, "search", context.clock, journal.take),
            lambda: dt.datetime.fromtimestamp(context.clock.now(), dt.UTC),
            limits,
        )
        return made

    async def close(self) -> None:
        """Close every connection, and write what is to be on record."""
        await self._push.close()
        if self._pull is not None:
            await self._pull.close()
        for journal in self._journals:
            await journal.close()
