"""Looks at a running installation: its objects, its log, what its services say; and waits until it has settled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from schemas.codec import decode
from schemas.envelope import HEADER_EVENT_ID
from schemas.events.lease import LeaseTaken
from schemas.subjects import lease
from services._kit.base.log_errors import LogError
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import Message, NewMessage
from services.cli.common.layout import CONTROL, agent_process
from services.cli.installation.up import services_of
from tests.e2e.fleet import Fleet
from tests.faults.checker import check_objects
from tests.faults.rounds_load import Load

T = TypeVar("T")
SETTLE_SECONDS = 90.0
_READINGS = 3
_BUSY = (
    "fleetlog_dirty_keys",
    "fleetlog_in_flight_keys",
    "fleetlog_blocked_keys",
    "fleetlog_parked_keys",
    "fleetlog_lane_backlog",
    "fleetlog_agent_reports_waiting",
)
_BUGS = frozenset({"fleetlog_unreadable_total", "fleetlog_log_gaps_total"})


class Eyes:
    """Clients of everything a round looks at; opened anew after a restart."""

    def __init__(self, fleet: Fleet, kubeconfig: Callable[[str], Path] | None = None) -> None:
        """`kubeconfig` of the control plane or a member by its name; that of the installation unless given."""
        self._fleet = fleet
        self._kubeconfig = kubeconfig or fleet.layout.kubeconfig
        self._stack = AsyncExitStack()
        self.control: KubeClient
        self.members: dict[str, KubeClient] = {}
        self.beside: dict[str, int] = {}
        """Ports of further instances."""
        self.forgiven: frozenset[str] = frozenset()
        """Metrics that a round makes grow on purpose."""

    async def __aenter__(self) -> Self:
        layout, installation = self._fleet.layout, self._fleet.installation
        self.control = await self._client(CONTROL)
        self.members = {member.name: await self._client(member.name) for member in installation.members}
        self._connection = await Connection.open(installation.log_access, name=f"rounds/{layout.directory.name}")
        self._stack.push_async_callback(self._connection.close)
        self._http = await self._stack.enter_async_context(
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5))
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _client(self, name: str) -> KubeClient:
        client = await KubeClient.from_kubeconfig(self._kubeconfig(name))
        self._stack.push_async_callback(client.close)
        return client

    async def messages(self, stream: str, filters: Sequence[str] = (">",)) -> list[Message]:
        """What a stream holds of some subjects."""

        async def read() -> list[Message]:
            return [message async for message in JetStreamLog(self._connection, stream).read(filters)]

        return await self._asked(read)

    async def _asked(self, read: Callable[[], Awaitable[T]]) -> T:
        """The answer to a question, asked again where there is none.

        While this process folds the log it reads nothing, so that the server may have let go of it: it comes back.
        """
        for _ in range(_READINGS - 1):
            await self._connection.wait_connected()
            with suppress(LogError):
                return await read()
        await self._connection.wait_connected()
        return await read()

    async def leases(self, services: Iterable[str]) -> dict[str, tuple[str, float]]:
        """Who leads each service, and since when (seconds since 1970, by the log's server)."""
        log = JetStreamLog(self._connection, "FACTS")
        found = {}
        for name in services:
            last = await log.last(lease(name))
            event = decode(last.subject, last.data) if last is not None else None
            if last is not None and isinstance(event, LeaseTaken):
                found[name] = (event.instance, last.time)
        return found

    async def ask(self, subject: str, body: bytes = b"") -> bytes:
        """Answer of a request to the log's server."""
        answer: bytes = (await self._connection.request(subject, body, timeout=5.0)).data
        return answer

    async def last_seq(self) -> int:
        """Where the log ends."""
        return await self.end_of("FACTS")

    async def end_of(self, stream: str) -> int:
        """Position of the newest message of a stream."""
        return (await self._asked(JetStreamLog(self._connection, stream).identity)).last_seq

    async def last(self, stream: str, subject: str) -> Message:
        """The newest message of a subject; there must be one."""
        found = await self._asked(lambda: JetStreamLog(self._connection, stream).last(subject))
        assert found is not None, subject
        return found

    async def store(self, stream: str, after: Message, data: bytes) -> int:
        """Append bytes, readable or not, as the next message of a subject; their position."""
        headers = {HEADER_EVENT_ID: f"by-hand/{after.subject}/{after.seq}"}
        new = NewMessage(after.subject, data, headers, expect_last=after.seq)
        return (await JetStreamLog(self._connection, stream).append([new])).last

    async def unready(self, services: Iterable[str]) -> list[str]:
        """Services that do not say that they are ready."""
        found = []
        for name in services:
            try:
                async with self._http.get(f"http://127.0.0.1:{self._fleet.installation.port(name)}/readyz") as answer:
                    if answer.status != 200:
                        found.append(f"{name}: not ready: {(await answer.text())[:300]}")
            except (aiohttp.ClientError, TimeoutError) as error:
                found.append(f"{name}: {error}")
        return found

    async def busy(self) -> list[str]:
        """Services that have something to do, cannot do something, or do not answer."""
        installation = self._fleet.installation
        agents = [agent_process(member.name) for member in installation.pull_members]
        ports = [(name, installation.port(name)) for name in (*services_of(installation), *agents)] + [
            *self.beside.items()
        ]
        return [
            complaint
            for name, port in ports
            for complaint in await unrest(self._http, name, f"http://127.0.0.1:{port}", self.forgiven)
        ]

    async def unsampled(self) -> list[str]:
        """Clusters whose last sample of used capacity is older than their pods."""
        found = []
        for name, member in self.members.items():
            cluster = await self.control.get(resource_path("cluster.karmada.io", "v1alpha1", "clusters", "", name))
            summary = (cluster.get("status") or {}).get("resourceSummary") or {}
            sampled = int((summary.get("allocated") or {}).get("pods", "0"))
            held = len((await member.get(resource_path("", "v1", "pods"))).get("items") or ())
            if sampled != held:
                found.append(f"{name}: has {held} pods, {sampled} in the last sample")
        return found


async def unrest(http: aiohttp.ClientSession, name: str, url: str, forgiven: frozenset[str] = frozenset()) -> list[str]:
    """What a service has to do, cannot do, or found out about itself; also that it does not answer."""
    try:
        async with http.get(f"{url}/readyz") as answer:
            if answer.status != 200:
                return [f"{name}: not ready: {(await answer.text())[:300]}"]
        async with http.get(f"{url}/metrics") as answer:
            text = await answer.text()
    except (aiohttp.ClientError, TimeoutError) as error:
        return [f"{name}: {error}"]
    found = []
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in _BUSY and sample.value:
                found.append(f"{name}: {sample.name} {sample.value:g}")
            if sample.name == "fleetlog_log_caught_up" and not sample.value:
                found.append(f"{name}: behind on {sample.labels.get('stream')}")
            if sample.name in _BUGS - forgiven and sample.value:
                found.append(f"{name}: {sample.name} {sample.value:g}")
    return found


async def settled(look: Callable[[], Awaitable[list[str]]], seconds: float = SETTLE_SECONDS) -> list[str]:
    """Wait until there is nothing to complain about; the last complaints when time is up."""
    deadline = time.monotonic() + seconds
    pause = 0.1
    while True:
        try:
            complaints = await look()
        except (ApiError, Unreachable, LogError) as error:
            complaints = [f"cannot look: {error}"]
        if not complaints or time.monotonic() > deadline:
            return complaints
        await asyncio.sleep(pause)
        pause = min(pause * 1.3, 0.5)


async def settle(eyes: Eyes, load: Load, seconds: float = SETTLE_SECONDS) -> list[str]:
    """Wait until members and templates are as they should be, every service rests, and the log grows no more."""
    before = -1

    async def look() -> list[str]:
        nonlocal before
        complaints = await check_objects(eyes.control, eyes.members, load.namespace, load.wanted, load.moved)
        complaints = complaints or await eyes.busy()
        end = await eyes.last_seq()
        grown, before = end != before, end
        return complaints or ([f"the log grows: {end}"] if grown else [])

    return [f"not settled: {complaint}" for complaint in await settled(look, seconds)]
