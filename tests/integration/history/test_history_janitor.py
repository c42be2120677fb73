"""The janitor on a real log: a thousand ended objects, a lost member, a death between two purges, busy subjects."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from schemas.codec import Known, subject_of
from schemas.events.binding import BindingReleased
from schemas.events.cluster import ClusterRemoved
from schemas.events.observed import WorkObserved
from schemas.events.placement import PlacementReleased
from schemas.events.rollup import StatusRolledUp
from schemas.events.template import TemplateDeleted
from schemas.events.work import WorkWithdrawn
from schemas.hints import Purged
from schemas.keys import ObjectKey
from schemas.subjects import PURGED
from services._kit.base.log_errors import Unavailable
from services._kit.log.connection import Connection
from services._kit.log.stream_port import Log
from tests.integration.history.sweeping import Sweep, job, store, streams, until_history_holds
from tests.log.running import eventually
from tests.support.facts import cluster, template

OBJECTS = 1000


def tombstones(key: ObjectKey, *clusters: str) -> list[Known]:
    """What stands last on every subject of an object that ended."""
    uid = f"uid-{key.name}"
    return [
        TemplateDeleted(key=key, uid=uid),
        BindingReleased(key=key, uid=uid),
        PlacementReleased(key=key, uid=uid),
        *(WorkWithdrawn(cluster=name, key=key, uid=uid, api_version="batch/v1", kind="Job") for name in clusters),
        StatusRolledUp(key=key, uid=uid, closed=True),
    ]


class Dying:
    """A log that stops taking purges after some: what a janitor leaves that is killed there."""

    def __init__(self, inner: Log, purges: int) -> None:
        self._inner, self.left = inner, purges

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def purge(self, pattern: str, up_to: int) -> int:
        if not self.left:
            raise Unavailable("killed")
        self.left -= 1
        return await self._inner.purge(pattern, up_to)


async def left(logs: dict[str, Log]) -> set[str]:
    """Subjects on both streams, leases aside."""
    facts, observed = await logs["FACTS"].counts(">"), await logs["OBSERVED"].counts(">")
    return {subject for subject in (*facts, *observed) if not subject.startswith("lease.")}


@pytest.mark.long
async def test_a_thousand_ended_objects_leave_no_subject(connection: Connection) -> None:
    logs = streams(connection)
    await store(logs["FACTS"], [cluster("m1"), cluster("m2")])
    for number in range(0, OBJECTS, 50):
        keys = [job(index) for index in range(number, number + 50)]
        await store(logs["FACTS"], [replace(template(), key=key) for key in keys])
        await store(logs["FACTS"], [event for key in keys for event in tombstones(key, "m1", "m2")])
    works = [message async for message in logs["FACTS"].read(["work.>"])]
    last = works[-1].seq
    gone = [
        WorkObserved(cluster=name, key=job(number), uid=f"uid-job-{number}", work_seq=last, absent=True)
        for number in range(OBJECTS)
        for name in ("m1", "m2")
    ]
    hints: list[Purged] = []

    async def hear(message: Any) -> None:
        hints.append(msgspec.json.decode(message.data, type=Purged))

    await connection.subscribe(PURGED, hear)
    # One member is out of reach: nobody has heard from it that it let go.
    await store(logs["OBSERVED"], [event for event in gone if event.cluster == "m1"])
    async with Sweep(connection, logs) as sweep:
        await eventually(lambda: sweep.runner.active and not sweep.runner.projection.dirty, "a look at everything")
        assert sweep.service.stats.purged == 0
        # A few of its copies are reported gone, then it is taken out of the fleet.
        await store(logs["OBSERVED"], [event for event in gone if event.cluster == "m2"][:100])
        await eventually(lambda: sweep.service.stats.ended == 100, "the end of what is confirmed")
        assert len([name for name in await left(logs) if name.startswith("template.")]) == OBJECTS - 100
        await store(logs["FACTS"], [ClusterRemoved(name="m2", uid="uid-m2")])
        await eventually(lambda: not sweep.state.objects and "m2" not in sweep.state.clusters, "the end of the rest")
        assert await left(logs) == {"cluster.m1"}
        assert sweep.state.in_cluster.get("m2") is None
        await eventually(lambda: sum(len(hint.objects) for hint in hints) == OBJECTS, "the hints")
        assert [hint.clusters for hint in hints if hint.clusters] == [("m2",)]
    # What went is what HISTORY kept.
    assert len(await logs["HISTORY"].counts("template.>")) == OBJECTS


@pytest.mark.parametrize("purges", [0, 1, 3, 4])
async def test_a_janitor_that_died_between_two_purges_is_continued(connection: Connection, purges: int) -> None:
    logs = streams(connection)
    last = await store(logs["FACTS"], [cluster("m1"), *tombstones(job(1), "m1")])
    confirmed = WorkObserved(cluster="m1", key=job(1), uid="uid-job-1", work_seq=last, absent=True)
    await store(logs["OBSERVED"], [confirmed])
    dying = {**logs, "FACTS": Dying(logs["FACTS"], purges)}
    async with Sweep(connection, dying) as first:  # type: ignore[arg-type]
        await eventually(lambda: first.service.stats.failures > 0, "the death")
    assert len([name for name in await left(logs) if "job-1" in name]) == 6 - purges - (purges > 0)
    async with Sweep(connection, logs) as second:
        await eventually(lambda: second.service.stats.ended == 1, "the end")
    assert await left(logs) == {"cluster.m1"}


async def test_busy_subjects_keep_a_tail_and_history_the_rest(connection: Connection) -> None:
    logs = streams(connection)
    busy = [replace(template(), key=job(1), prev=number) for number in range(150)]
    calm = [replace(template(), key=job(2), prev=number) for number in range(20)]
    await store(logs["FACTS"], [*busy, *calm])
    subject, other = subject_of(busy[0]), subject_of(calm[0])
    async with Sweep(connection, logs, janitor_tail=64) as sweep:
        await eventually(lambda: sweep.service.stats.trimmed == 150 - 64, "the first cut")
        last = await store(logs["FACTS"], [replace(template(), key=job(1), prev=last) for last in range(1, 70)])
        await eventually(lambda: sweep.service.stats.trimmed == 150 - 64 + 69, "the second cut")
    assert await logs["FACTS"].counts("template.>") == {subject: 64, other: 20}
    kept = [message.seq async for message in logs["FACTS"].read([subject])]
    assert kept[-1] == last
    await until_history_holds(logs, last)
    assert await logs["HISTORY"].counts("template.>") == {subject: 219, other: 20}
