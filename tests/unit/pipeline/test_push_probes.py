"""When a member is looked at: at an interval, and soon after it changed."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import pytest

from services._kit.base.answer_limits import Limits
from services._kit.base.clock import SystemClock
from services._kit.concurrency.debounce import Debouncer
from services._kit.credentials import access
from services._kit.credentials.access import Members
from services._kit.kube.answers.share import Share
from services._kit.kube.client import ApiResource, KubeClient
from services._kit.members.member_probe import probe_cluster
from services.cluster_monitor import push_probe as probing
from services.cluster_monitor.push_probe import Prober
from services.cluster_monitor.state import Probe
from tests.support.waiting import eventually


async def test_changed_member_is_probed_once_it_is_quiet() -> None:
    async with Looks(interval=3600.0) as looks:
        await looks.probes.get()
        for _ in range(5):
            looks.prober.look_when_quiet()
        assert looks.probes.empty()
        probe = await looks.probes.get()
        assert "apiEndpoint" in probe.error
        assert looks.probes.empty()


async def test_probe_names_the_endpoint_that_does_not_answer() -> None:
    client = KubeClient("http://127.0.0.1:1", ssl_context=None, headers={})
    try:
        sample = await probe_cluster(client, "m1", [], 0.0)
    finally:
        await client.close()
    assert (sample.online, "127.0.0.1:1" in sample.cause) == (False, True)


class Member:
    """A member's client that serves a kind more each time it is asked for all it serves."""

    server = "https://member"
    limits = Limits()

    def __init__(self, kinds: int) -> None:
        self.share = Share()
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

    def __init__(
        self, interval: float, take: Callable[[Probe], Any] | None = None, missed: Callable[[], None] | None = None
    ) -> None:
        self.probes: asyncio.Queue[Probe] = asyncio.Queue()
        self.control = KubeClient("http://127.0.0.1:1", ssl_context=None, headers={})
        taker, more = take or self.probes.put_nowait, () if missed is None else (missed,)
        members = Members(self.control)
        self.prober = Prober("m1", members, {}, taker, *more, interval=interval, clock=SystemClock())

    async def __aenter__(self) -> Self:
        return self

    async def next(self) -> int:
        """How many kinds the next look finds."""
        async with asyncio.timeout(60):
            summary = (await self.probes.get()).summary
        assert summary is not None
        return sum(len(group["resources"]) for group in summary["apiEnablements"])

    async def __aexit__(self, *_: object) -> None:
        await self.prober.close()
        await self.control.close()


@pytest.fixture
def _members(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first member that is opened serves nothing so far, the next ten kinds, then twenty."""
    kinds = itertools.count(0, 10)

    async def opened(*_: object) -> Member:
        return Member(next(kinds))

    monkeypatch.setattr(access.Member, "open", opened)
    monkeypatch.setattr(probing, "Debouncer", partial(Debouncer, quiet=0.01))


@pytest.mark.usefixtures("_members")
async def test_discovery_follows_changed_definitions_only() -> None:
    async with Looks(interval=3600.0) as looks:
        assert await looks.next() == 1
        looks.prober.look_when_quiet()
        assert await looks.next() == 1
        looks.prober.look_soon()
        assert await looks.next() == 2
        # What was just defined may be served a moment later: a look after that asks again.
        looks.prober.look_when_quiet()
        assert await looks.next() == 3


@pytest.mark.usefixtures("_members")
async def test_busy_member_is_discovered_at_every_interval() -> None:
    async with Looks(interval=0.02) as looks:
        found = await looks.next()
        while found < 3:
            looks.prober.look_when_quiet()
            found = await looks.next()


@pytest.mark.usefixtures("_members")
async def test_changed_endpoint_is_discovered_again() -> None:
    async with Looks(interval=3600.0) as looks:
        assert await looks.next() == 1
        looks.prober.update({"apiEndpoint": "https://elsewhere"})
        looks.prober.look_when_quiet()
        assert await looks.next() == 11


class Broken:
    """A member's client whose answers nobody foresaw, until it is mended."""

    def __init__(self) -> None:
        self.mended = False

    async def request(self, method: str, path: str, **_: object) -> bytes:
        if not self.mended:
            raise AttributeError("'int' object has no attribute 'get'")
        return b'{"gitVersion":"v1.30.0"}' if path == "/version" else b'{"items":[]}'

    async def discover(self, *, preferred: bool) -> list[ApiResource]:
        return []

    async def close(self) -> None:
        return


async def test_member_with_unforeseen_answers_is_probed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    member = Broken()

    async def opened(*_: object) -> Broken:
        return member

    monkeypatch.setattr(access.Member, "open", opened)
    async with Looks(interval=0.01) as looks:
        probe = await looks.probes.get()
        assert not probe.online
        assert "AttributeError: 'int' object has no attribute 'get'" in probe.error
        member.mended = True
        while not (await looks.probes.get()).online:
            continue


@pytest.mark.usefixtures("_members")
async def test_probe_is_repeated_soon_where_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def pause(early: asyncio.Event, seconds: float) -> bool:
        pauses.append(seconds)
        return await early.wait() if seconds > probing.SOON_SECONDS else False

    monkeypatch.setattr(probing, "set_within", pause)
    taken: list[Probe] = []

    def take(probe: Probe) -> bool:
        taken.append(probe)
        return len(taken) < 3

    async with Looks(3600.0, take):
        await eventually(lambda: 3600.0 in pauses, "the interval counts again")
    assert pauses == [probing.SOON_SECONDS, probing.SOON_SECONDS, 3600.0]
    assert len(taken) == 3


async def test_hanging_probe_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hangs(*_: object) -> Member:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(access.Member, "open", hangs)
    monkeypatch.setattr(probing, "SLACK_SECONDS", -probing.PROBE_SECONDS)
    missed = asyncio.Event()
    async with Looks(0.01, missed=missed.set) as looks:
        async with asyncio.timeout(60):
            await missed.wait()
        assert looks.probes.empty()
