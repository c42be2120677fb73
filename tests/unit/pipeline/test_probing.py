"""When a member is looked at: at an interval, and soon after it changed."""

from __future__ import annotations

import asyncio
import itertools
from functools import partial

import pytest

from services._kit.clock import SystemClock
from services._kit.kube import ApiResource, KubeClient
from services._kit.restless import Restless
from services.cluster_monitor import probing
from services.cluster_monitor.probing import Prober
from services.cluster_monitor.state import Probe


async def test_a_member_that_changed_is_looked_at_once_when_it_is_quiet_again() -> None:
    probes: asyncio.Queue[Probe] = asyncio.Queue()
    control = KubeClient("http://127.0.0.1:1", ssl_context=None, headers={})
    prober = Prober("m1", control, {}, probes.put_nowait, interval=3600.0, clock=SystemClock())
    try:
        await probes.get()
        for _ in range(5):
            prober.look_when_quiet()
        assert probes.empty()
        probe = await probes.get()
        assert "apiEndpoint" in probe.error
        assert probes.empty()
    finally:
        await prober.close()
        await control.close()


class Member:
    """A member's client that serves a kind more each time it is asked for all it serves."""

    def __init__(self, kinds: int) -> None:
        self.kinds = [ApiResource(name=f"old{number}", kind="Old", version="v1") for number in range(kinds)]

    async def request(self, method: str, path: str, **_: object) -> bytes:
        return b'{"gitVersion":"v1.30.0"}' if path == "/version" else b'{"items":[]}'

    async def discover(self, *, preferred: bool) -> list[ApiResource]:
        self.kinds.append(ApiResource(name=f"things{len(self.kinds)}", kind="Thing", version="v1"))
        return list(self.kinds)

    async def close(self) -> None:
        return


class Looks:
    """A prober of such a member; the interval is that of the test."""

    def __init__(self, interval: float) -> None:
        self.probes: asyncio.Queue[Probe] = asyncio.Queue()
        self.control = KubeClient("http://127.0.0.1:1", ssl_context=None, headers={})
        self.prober = Prober("m1", self.control, {}, self.probes.put_nowait, interval=interval, clock=SystemClock())

    async def next(self) -> int:
        """How many kinds the next look finds."""
        async with asyncio.timeout(60):
            summary = (await self.probes.get()).summary
        assert summary is not None
        return sum(len(group["resources"]) for group in summary["apiEnablements"])

    async def close(self) -> None:
        await self.prober.close()
        await self.control.close()


@pytest.fixture
def _members(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first member that is opened serves nothing so far, the next ten kinds, then twenty."""
    kinds = itertools.count(0, 10)

    async def opened(*_: object) -> Member:
        return Member(next(kinds))

    monkeypatch.setattr(probing, "open_member", opened)
    monkeypatch.setattr(probing, "Restless", partial(Restless, quiet=0.01))


@pytest.mark.usefixtures("_members")
async def test_what_a_member_serves_is_asked_for_when_its_definitions_changed_and_not_when_it_is_busy() -> None:
    looks = Looks(interval=3600.0)
    try:
        assert await looks.next() == 1
        looks.prober.look_when_quiet()
        assert await looks.next() == 1
        looks.prober.look_soon()
        assert await looks.next() == 2
        # What was just defined may be served a moment later: a look after that asks again.
        looks.prober.look_when_quiet()
        assert await looks.next() == 3
    finally:
        await looks.close()


@pytest.mark.usefixtures("_members")
async def test_a_member_that_is_always_busy_is_asked_what_it_serves_at_every_interval() -> None:
    looks = Looks(interval=0.02)
    try:
        found = await looks.next()
        while found < 3:
            looks.prober.look_when_quiet()
            found = await looks.next()
    finally:
        await looks.close()


@pytest.mark.usefixtures("_members")
async def test_another_cluster_at_that_address_is_asked_what_it_serves() -> None:
    looks = Looks(interval=3600.0)
    try:
        assert await looks.next() == 1
        looks.prober.update({"apiEndpoint": "https://elsewhere"})
        looks.prober.look_when_quiet()
        assert await looks.next() == 11
    finally:
        await looks.close()
