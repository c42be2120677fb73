"""An unforeseen error in a lane: the lane runs again, the service is unready meanwhile, other clusters go on."""

from __future__ import annotations

from typing import Any

import pytest

from services._kit.base.health import Health
from services._kit.concurrency import supervision
from services._kit.concurrency.supervision import Supervisor
from services._kit.delivery.lane import Lane
from services._kit.delivery.lane_parts import LaneSettings, WorkSource
from services._kit.kube.client import ApiError, KubeClient
from tests.support.waiting import eventually


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Pauses of a test."""
    monkeypatch.setattr(supervision, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(supervision, "LONGEST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(supervision, "STEADY_SECONDS", 0.05)


class Cluster:
    """A cluster that answers every request, after some that fail."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.asked = 0

    async def open(self) -> KubeClient:
        cluster = self

        class Client(KubeClient):
            async def request(self, *_: Any, **__: Any) -> bytes:
                cluster.asked += 1
                if cluster.failures:
                    raise cluster.failures.pop(0)
                return b"{}"

        return Client("http://m", ssl_context=None, headers={})


def lane(name: str, cluster: Cluster) -> Lane:
    async def nothing(*_: Any) -> Any:
        return None

    source = WorkSource(
        work=lambda _: None,
        observed=lambda _: None,
        blob=nothing,
        previous=nothing,
        report=lambda _: None,
        now=lambda: 0.0,
    )
    return Lane(name, cluster.open, source, LaneSettings(longest_pause=0.01))


async def test_a_lane_runs_again_and_the_service_is_unready_meanwhile():
    health, broken = Health(), Cluster(*[AttributeError("'int' object has no attribute 'get'")] * 3)
    async with Supervisor(health) as supervisor:
        first, second = lane("m1", broken), lane("m2", Cluster())
        first.start()
        second.start()
        await eventually(lambda: not health.ready)
        assert "lane:m1 failed and is started again: AttributeError" in health.reasons()["tasks"]
        assert "m2" not in health.reasons()["tasks"]
        await eventually(lambda: not second.trouble and second.connection.up.is_set())
        await eventually(lambda: health.ready)
        assert first.connection.up.is_set()
        assert not first.trouble
        assert dict(supervisor.failures()) == {("lane",): 3.0}
        await first.close()
        await second.close()


async def test_unauthorized_lane_is_retried_until_accepted():
    cluster = Cluster(*[ApiError(401, "Unauthorized", "no")] * 5)
    held = lane("m1", cluster)
    held.start()
    await eventually(lambda: held.trouble)
    await eventually(lambda: held.connection.up.is_set() and not held.trouble)
    assert cluster.asked == 6
    await held.close()


async def test_lane_that_fails_after_discovery_backs_off(monkeypatch):
    held = lane("m1", cluster := Cluster())
    connection, rests = held.connection, 0
    rest = connection._rest

    async def resting() -> None:
        nonlocal rests
        rests += 1
        await rest()

    monkeypatch.setattr(connection, "_rest", resting)
    held.start()
    for number in range(1, 4):
        await eventually(lambda number=number: held.connection.up.is_set() and cluster.asked == number)
        connection.failed(ApiError(401, "Unauthorized", "no"))
        await eventually(lambda number=number: rests == number)
    await held.close()
