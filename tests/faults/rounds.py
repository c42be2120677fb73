"""Fault rounds: load, kills with -9 in the midst of it, the checker, a restart of everything, and the checker again."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

import aiohttp
from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from services._kit.connection import Connection
from services._kit.errors import LogError
from services._kit.jetstream_log import JetStreamLog
from services._kit.kube import ApiError, KubeClient, Unreachable, resource_path
from services._kit.log import Message
from services.cli.layout import CONTROL
from services.cli.up import SERVICES
from tests.e2e.fleet import Fleet
from tests.faults.checker import Audits, check_log, check_objects, check_quiet
from tests.faults.rounds_load import Load

SETTLE_SECONDS = 90.0
_BUSY = ("fleetlog_dirty_keys", "fleetlog_in_flight_keys", "fleetlog_blocked_keys", "fleetlog_parked_keys")


class Result(Struct):
    """What a round did and what the checker had to say; times in seconds."""

    number: int
    victim: str
    deployments: int
    steps: int
    retries: int = 0
    load_seconds: float = 0.0
    settle_seconds: float = 0.0
    restart_seconds: float = 0.0
    facts: int = 0
    writes: int = 0
    complaints: list[str] = []

    @property
    def ok(self) -> bool:
        """Whether the checker found nothing."""
        return not self.complaints


class Eyes:
    """Clients of everything a round looks at; opened anew after a restart."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._stack = AsyncExitStack()
        self.control: KubeClient
        self.members: dict[str, KubeClient] = {}

    async def __aenter__(self) -> Self:
        layout, installation = self._fleet.layout, self._fleet.installation
        self.control = await self._client(CONTROL)
        self.members = {member.name: await self._client(member.name) for member in installation.members}
        self._connection = await Connection.open(installation.log_access, name=f"rounds/{layout.directory.name}")
        self._stack.push_async_callback(self._connection.close)
        self._http = await self._stack.enter_async_context(aiohttp.ClientSession())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _client(self, name: str) -> KubeClient:
        client = await KubeClient.from_kubeconfig(self._fleet.layout.kubeconfig(name))
        self._stack.push_async_callback(client.close)
        return client

    async def messages(self, stream: str) -> list[Message]:
        """Everything a stream holds."""
        return [message async for message in JetStreamLog(self._connection, stream).read((">",))]

    async def last_seq(self) -> int:
        """Where the log ends."""
        return (await JetStreamLog(self._connection, "FACTS").identity()).last_seq

    async def busy(self) -> list[str]:
        """Services that have something to do, cannot do something, or do not answer."""
        installation = self._fleet.installation
        return [
            complaint
            for name in SERVICES
            for complaint in await self._metrics(name, f"http://127.0.0.1:{installation.port(name)}")
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

    async def _metrics(self, name: str, url: str) -> list[str]:
        try:
            async with self._http.get(f"{url}/readyz") as answer:
                if answer.status != 200:
                    return [f"{name}: not ready: {(await answer.text())[:300]}"]
            async with self._http.get(f"{url}/metrics") as answer:
                text = await answer.text()
        except aiohttp.ClientError as error:
            return [f"{name}: {error}"]
        found = []
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name in _BUSY and sample.value:
                    found.append(f"{name}: {sample.name} {sample.value:g}")
                if sample.name == "fleetlog_log_caught_up" and not sample.value:
                    found.append(f"{name}: behind on {sample.labels.get('stream')}")
                if sample.name in ("fleetlog_unreadable_total", "fleetlog_log_gaps_total") and sample.value:
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


class Round:
    """One round on a running installation."""

    def __init__(
        self, fleet: Fleet, number: int, chance: random.Random, deployments: int, victims: Iterable[str]
    ) -> None:
        self._fleet = fleet
        self._chance = chance
        self._namespace = f"round-{number}-{chance.randrange(16**4):04x}"
        self._moments = {
            "service": chance.uniform(0.1, 0.9),
            "nats": chance.uniform(0.1, 0.9),
            "policy": chance.uniform(0.2, 0.8),
        }
        self.result = Result(number, chance.choice(sorted(victims)), deployments, 0)

    async def run(self) -> Result:
        """Load and kills, check, restart, check, clean up, check."""
        result = self.result
        audits = Audits({name: self._fleet.layout.audit(name) for name in self._fleet.members})
        async with Eyes(self._fleet) as eyes:
            load = Load(eyes.control, self._namespace, result.deployments, self._chance)
            result.steps = load.total
            began = time.monotonic()
            before = await eyes.last_seq()
            await self._load(load)
            result.load_seconds = time.monotonic() - began
            result.retries = load.retries
            began = time.monotonic()
            result.complaints += await self._settle(eyes, load)
            result.settle_seconds = time.monotonic() - began
            # A sample of capacity that is due anyway must not be mistaken for something a restart appends.
            result.complaints += await settled(eyes.unsampled)
            result.complaints += await self._settle(eyes, load)
            facts = await eyes.messages("FACTS")
            result.complaints += check_log(facts, await eyes.messages("OBSERVED"), before)
            result.complaints += audits.needless()
            result.facts, result.writes = len(facts), len(audits.ours())
            end = await eyes.last_seq()
        began = time.monotonic()
        await asyncio.to_thread(self._restart)
        audits = Audits({name: self._fleet.layout.audit(name) for name in self._fleet.members})
        async with Eyes(self._fleet) as eyes:
            load.rebind(eyes.control)
            result.complaints += await self._settle(eyes, load)
            result.complaints += check_quiet(await eyes.messages("FACTS"), end)
            result.complaints += [f"{member}: written by a mere restart: {record}" for member, record in audits.ours()]
            result.restart_seconds = time.monotonic() - began
            await load.delete_all()
            result.complaints += await self._settle(eyes, load)
        result.complaints += self._fleet.failures()
        return result

    async def _load(self, load: Load) -> None:
        await load.prepare()
        async with asyncio.TaskGroup() as group:
            group.create_task(load.run())
            group.create_task(self._kill(load, "service", self.result.victim))
            group.create_task(self._kill(load, "nats", "nats"))
            group.create_task(self._edit(load))

    async def _kill(self, load: Load, moment: str, name: str) -> None:
        await load.reached(self._moments[moment])
        self._fleet.kill(name)

    async def _edit(self, load: Load) -> None:
        await load.reached(self._moments["policy"])
        await load.move()

    async def _settle(self, eyes: Eyes, load: Load) -> list[str]:
        """Wait until members and templates are as they should be, every service rests, and the log grows no more."""
        before = -1

        async def look() -> list[str]:
            nonlocal before
            complaints = await check_objects(eyes.control, eyes.members, self._namespace, load.wanted, load.moved)
            complaints = complaints or await eyes.busy()
            end = await eyes.last_seq()
            grown, before = end != before, end
            return complaints or ([f"the log grows: {end}"] if grown else [])

        return [f"not settled: {complaint}" for complaint in await settled(look)]

    def _restart(self) -> None:
        self._fleet.stop()
        self._fleet.start()
