"""The janitor says how full the streams are, and keeps less in FACTS where it is nearly full or events are large."""

from __future__ import annotations

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from schemas.codec import subject_of
from schemas.topology import FACTS
from services._kit.log import streams as topology
from services._kit.log.connection import Connection
from tests.integration.history.sweeping import Sweep, job, store, streams, until_history_holds
from tests.support.facts import template
from tests.support.waiting import comes_to, eventually

MIB = 1 << 20


async def test_nearly_full_stream_raises_an_alarm_and_is_trimmed(connection: Connection) -> None:
    logs = streams(connection)
    await topology.apply_stream(connection, FACTS, sizes={"FACTS": 16 * MIB})
    text = Raw(msgspec.json.encode({"data": "x" * 12_000}))
    for number in range(24):
        busy = [replace(template(), key=job(number), prev=place, manifest=text) for place in range(42)]
        last = await store(logs["FACTS"], busy)
    await until_history_holds(logs, last)
    async with Sweep(connection, logs, janitor_fill_period=0.05) as sweep:
        watch = sweep.service._watch
        assert watch is not None
        await eventually(lambda: "FACTS" in watch.alarms, "the alarm")
        facts = sweep.runner.health.document()["streams"]
        assert facts["fill"]["FACTS"] >= 0.7 or not watch.alarms
        samples = {
            (one.name, one.labels.get("stream")): one.value
            for family in sweep.metrics.registry.collect()
            for one in family.samples
        }
        assert samples["fleetlog_stream_limit_bytes", "FACTS"] == 16 * MIB
        await eventually(lambda: not watch.alarms, "room")
        assert sweep.service.stats.trimmed > 0
        assert sweep.state.tail == 64
        assert not watch.document()["alarms"]
    kept = (await logs["FACTS"].counts("template.>")).values()
    assert min(kept) >= 8
    assert sum(kept) < 24 * 42
    assert set((await logs["HISTORY"].counts("template.>")).values()) == {42}


async def test_a_subject_of_large_events_keeps_a_few_of_them(connection: Connection) -> None:
    logs = streams(connection)
    text = Raw(msgspec.json.encode({"data": "x" * 900_000}))
    subject = subject_of(replace(template(), key=job(1)))
    async with Sweep(connection, logs):
        for place in range(24):
            await store(logs["FACTS"], [replace(template(), key=job(1), prev=place, manifest=text)])

        async def cut() -> bool:
            return (await logs["FACTS"].counts("template.>"))[subject] <= 9

        await comes_to("nine events of 900 kB, no more than twice the bytes that stay", cut)

    assert (await logs["FACTS"].counts("template.>"))[subject] >= 4
    assert [message async for message in logs["FACTS"].read([subject])][-1].data.count(b"x") >= 900_000
