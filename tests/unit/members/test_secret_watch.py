"""Who wants to know of a Secret hears of its changes, once the control plane allows that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from schemas.agent import Expiry, Hello, Sample
from services._kit.concurrency.supervision import Supervisor
from services._kit.credentials import secret_watch
from services._kit.credentials.secret_watch import SecretWatch
from services._kit.kube.client import ApiError, KubeClient, WatchEvent
from services.cluster_monitor.heartbeats import heard
from tests.support.waiting import eventually


def secret(name: str, version: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": version}, "data": {"token": "c2VjcmV0"}}


class Control(KubeClient):
    """A control plane with Secrets, which refuses to list them at first."""

    def __init__(self, refusals: int = 0) -> None:
        super().__init__("http://control", ssl_context=None, headers={})
        self.secrets = [secret("m1", "5"), secret("m2", "6")]
        self.refusals = refusals
        self.events: asyncio.Queue[WatchEvent] = asyncio.Queue()
        self.watches = 0

    async def request(self, method: str, path: str, **_: Any) -> bytes:
        if self.refusals:
            self.refusals -= 1
            raise ApiError(403, "Forbidden", "secrets is forbidden")
        return msgspec.json.encode({"metadata": {"resourceVersion": "9"}, "items": self.secrets})

    async def watch(self, path: str, resource_version: str, **_: Any) -> AsyncIterator[list[WatchEvent]]:
        self.watches += 1
        try:
            while True:
                yield [await self.events.get()]
        finally:
            self.watches -= 1

    def tell(self, kind: str, name: str, version: str) -> None:
        self.events.put_nowait(WatchEvent(kind, Raw(msgspec.json.encode(secret(name, version)))))


async def test_secret_change_reaches_its_subscribers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_watch, "REFUSED_SECONDS", 0.01)
    control = Control(refusals=3)
    first: list[str] = []
    second: list[str] = []
    async with Supervisor() as supervisor:
        watch = SecretWatch(control)
        forget = watch.subscribe("karmada-cluster", "m1", first.append)
        watch.subscribe("karmada-cluster", "m2", second.append)
        await eventually(lambda: (first, second) == (["5"], ["6"]))
        control.tell("MODIFIED", "m1", "10")
        control.tell("DELETED", "m2", "11")
        await eventually(lambda: (first, second) == (["5", "10"], ["6", ""]))
        forget()
        control.tell("MODIFIED", "m1", "12")
        control.tell("ADDED", "m2", "13")
        await eventually(lambda: second == ["6", "", "13"])
        assert first == ["5", "10"]
        assert supervisor.failures() == []
        await watch.close()


async def test_namespace_without_subscribers_is_not_watched() -> None:
    control = Control()
    seen: list[str] = []
    watch = SecretWatch(control)
    forget = watch.subscribe("karmada-cluster", "m1", seen.append)
    await eventually(lambda: seen and control.watches)
    forget()
    await eventually(lambda: not control.watches)
    await watch.close()


@pytest.mark.parametrize(
    ("at", "known"), [(1e300, False), (-5.0, False), (253_402_300_800.0, False), (1_900_000_000.0, True)]
)
def test_impossible_expiry_is_ignored(at: float, known: bool) -> None:
    sample = Sample(at=1.0, online=True, healthy=True, expiry=Expiry(at=at, since=1e301, what="x" * 9999))
    found = heard(msgspec.json.encode(Hello(cluster="m3", instance="a", at=1.0, sample=sample)), 5.0)
    assert found is not None
    assert found.expiry == (Expiry(at=at, since=0.0, what="x" * 256) if known else None)
