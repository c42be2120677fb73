"""`fleetlog trace export --follow` beside a collector that is away: the log is read on, and what is lost is counted."""

from __future__ import annotations

import asyncio

import pytest

from schemas.topology import OBJECTS
from services._kit.log.stream_port import NewMessage
from services._rules.tracing.logged_event import LoggedEvent
from services._rules.tracing.trace_assembly import Bounds
from services.cli.tracing.change_follower import Follower
from services.cli.tracing.tracing_options import TraceTarget
from tests.support.collector import collector
from tests.support.facts import evicted, key
from tests.support.memory_installation import MemoryInstallation
from tests.support.memory_log import MemoryLog
from tests.support.traced import logged
from tests.support.waiting import eventually

BOUNDS = Bounds(hold=0.01, idle=0.02)


async def append(made: MemoryInstallation, fact: LoggedEvent) -> None:
    await made.facts.append([NewMessage(fact.subject, fact.data, {"Fleetlog-Event-Id": fact.event_id})])


async def test_a_collector_that_is_away_holds_nothing_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    made = MemoryInstallation()
    await append(made, logged(1, 0.0, evicted("m1", name="before")))
    with collector() as received:
        received.answer = 400
        follower = Follower(made.logs, MemoryLog(OBJECTS), BOUNDS, TraceTarget(otlp=received.url))
        task = asyncio.create_task(follower.run())
        await eventually(lambda: "following" in capsys.readouterr().err)
        await append(made, logged(2, 0.0, evicted("m1", name="lost")))
        await eventually(lambda: follower.tally.dropped == 1)
        received.answer = 200
        await append(made, logged(3, 0.0, evicted("m1", name="sent")))
        await eventually(lambda: follower.tally.sent == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    names = {span["attributes"]["fleetlog.object.name"] for span in received.spans.values()}
    assert names == {key("sent").name}
    assert "1 traces exported, 1 dropped" in capsys.readouterr().err


async def test_without_a_collector_traces_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    made = MemoryInstallation()
    follower = Follower(made.logs, MemoryLog(OBJECTS), BOUNDS, TraceTarget(output="json"))
    task = asyncio.create_task(follower.run())
    shown = ""

    def said() -> bool:
        nonlocal shown
        shown += capsys.readouterr().err
        return "following" in shown

    await eventually(said)
    await append(made, logged(1, 0.0, evicted("m1", name="open")))
    await eventually(lambda: follower.tally.sent == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert '"stringValue":"open"' in capsys.readouterr().out
