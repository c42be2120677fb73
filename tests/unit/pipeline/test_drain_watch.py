"""A leaving cluster is empty when every copy is reported gone, whatever happens to those who read of it."""

from __future__ import annotations

import asyncio

import pytest

from schemas.codec import encode, subject_of
from schemas.events.observed import WorkObserved
from schemas.events.work import WorkWithdrawn
from schemas.keys import ObjectKey
from schemas.topology import FACTS, OBSERVED
from services._kit.base.log_errors import Unavailable
from services._kit.concurrency import supervision
from services._kit.log.stream_port import NewMessage
from services.cluster_monitor.drain_watch import Emptying
from tests.support.closing import closing
from tests.support.memory_log import MemoryLog
from tests.support.waiting import eventually

KEY = ObjectKey("apps", "deployments", "default", "web")
WITHDRAWN = WorkWithdrawn(cluster="m1", key=KEY, uid="u", api_version="apps/v1", kind="Deployment")
ABSENT = WorkObserved(cluster="m1", key=KEY, uid="u", work_seq=1, absent=True, at=1.0)


class Ground:
    """The two streams, and whether the cluster counts as empty."""

    def __init__(self) -> None:
        self.logs = {stream.name: MemoryLog(stream) for stream in (FACTS, OBSERVED)}
        self.empty = asyncio.Event()

    async def say(self, stream: str, event: WorkWithdrawn | WorkObserved, data: bytes = b"") -> None:
        await self.logs[stream].append([NewMessage(subject_of(event), data or encode(event))])


@pytest.fixture
def ground(monkeypatch) -> Ground:
    monkeypatch.setattr(supervision, "FIRST_PAUSE_SECONDS", 0.01)
    return Ground()


async def test_unreadable_report_holds_the_cluster(ground):
    await ground.say("FACTS", WITHDRAWN)
    await ground.say("OBSERVED", ABSENT, b"\x00")
    async with closing(Emptying("m1", ground.logs, ground.empty.set)) as emptying:
        await eventually(lambda: emptying._complete == {"FACTS": True, "OBSERVED": True})
        assert not ground.empty.is_set()
        await ground.say("OBSERVED", ABSENT)
        await eventually(ground.empty.is_set)


async def test_drain_watch_survives_a_failing_log(ground, monkeypatch):
    pump, failures = ground.logs["OBSERVED"].pump, [Unavailable("no leader"), KeyError("x")]

    def failing(*arguments, **options):
        if failures:
            raise failures.pop()
        return pump(*arguments, **options)

    monkeypatch.setattr(ground.logs["OBSERVED"], "pump", failing)
    await ground.say("FACTS", WITHDRAWN)
    await ground.say("OBSERVED", ABSENT)
    async with closing(Emptying("m1", ground.logs, ground.empty.set)):
        await eventually(ground.empty.is_set)
        assert not failures
