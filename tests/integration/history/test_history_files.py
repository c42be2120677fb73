"""A log is taken along as a file: same positions, same stories, same answers; and what is wrong with a log is said."""

from __future__ import annotations

import gzip
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from schemas.codec import decode, subject_of
from schemas.envelope import Provenance
from schemas.events.lease import LeaseTaken
from schemas.events.template import TemplateDeleted
from schemas.subjects import restore
from schemas.topology import BLOBS
from services._kit.log import streams as topology
from services._kit.log.connection import Connection
from services._kit.log.fact_history import facts_of, story, until_held
from services._kit.log.stream_port import Log, NewMessage
from services._rules.history.facet_states import standing
from services.cli.common.logbook import LogAccess, open_log, streams
from services.cli.common.running import Failed
from services.cli.log.export import export
from services.cli.log.log_options import ExportChoice
from services.cli.log.restore_archive import import_log
from services.cli.log.verify import check, verify
from tests.integration.history.filled_log import everything, lifetimes, store
from tests.natsserver import Server
from tests.support.facts import KEY, binding, cluster, placement, template
from tests.support.lifetimes import World, named


@asynccontextmanager
async def opened(server: Server) -> AsyncIterator[dict[str, Log]]:
    """The log of a server, closed again before the server stops."""
    async with open_log(LogAccess(server.url)) as connection:
        await topology.apply(connection)
        yield streams(connection)


async def test_imported_log_has_the_same_positions_and_events(
    connection: Connection, nats_server: Server, other_server: Server, tmp_path: Path
) -> None:
    logs = streams(connection)
    await lifetimes(logs)
    file = tmp_path / "log.gz"
    assert await export(LogAccess(nats_server.url), file, ExportChoice()) == 0
    assert await import_log(LogAccess(other_server.url), file) == 0
    async with opened(other_server) as copies:
        assert await everything(copies["OBSERVED"]) == await everything(logs["OBSERVED"])
        assert sorted(await everything(copies["BLOBS"])) == sorted(await everything(logs["BLOBS"]))
        present = {subject: seq for seq, subject, _ in await everything(logs["FACTS"])}
        assert present.items() <= {subject: seq for seq, subject, _ in await everything(copies["FACTS"])}.items()
        assert len(await everything(copies["HISTORY"])) == len(await everything(logs["HISTORY"]))
        for name in ("app-0", "app-1"):
            ours, theirs = await facts_of(logs, named(name)), await facts_of(copies, named(name))
            assert [(fact.seq, fact.subject, fact.data, fact.stream) for fact in theirs] == [
                (fact.seq, fact.subject, fact.data, fact.stream) for fact in ours
            ]
            # Facts that only HISTORY holds were stored there a moment later.
            assert [fact.time for fact in theirs] == pytest.approx([fact.time for fact in ours], abs=5e-6)
            assert [entry.summary for entry in await story(copies, named(name))] == [
                entry.summary for entry in await story(logs, named(name))
            ]
    assert await verify(LogAccess(other_server.url)) == 0


async def test_services_on_an_imported_log_decide_nothing(
    connection: Connection, nats_server: Server, other_server: Server, tmp_path: Path
) -> None:
    world = await lifetimes(streams(connection), holes=False)
    file = tmp_path / "log.gz"
    await export(LogAccess(nats_server.url), file, ExportChoice())
    await import_log(LogAccess(other_server.url), file)
    replayed = World()
    async with opened(other_server) as copies:
        for stream in ("FACTS", "OBSERVED"):
            replayed.streams[stream] = [
                (message.seq, message.time, message.subject, decode(message.subject, message.data))
                async for message in copies[stream].read([">"])
                if message.subject != restore()
            ]
            replayed.ends[stream] = max(seq for seq, *_ in replayed.streams[stream])
    assert replayed.ends == world.ends
    assert replayed.settle() == []
    replayed.delete(named("app-1"))
    assert {type(event).__name__ for event in replayed.settle()} >= {"PlacementReleased", "WorkWithdrawn"}


async def test_a_part_of_a_log_keeps_its_positions(
    connection: Connection, nats_server: Server, other_server: Server, tmp_path: Path
) -> None:
    logs = streams(connection)
    world = await lifetimes(logs)
    file = tmp_path / "part.gz"
    last = world.ends["FACTS"]
    await export(LogAccess(nats_server.url), file, ExportChoice(since="8", until=str(last - 2), subject="placement.>"))
    await import_log(LogAccess(other_server.url), file)
    async with opened(other_server) as copies:
        wanted = [item for item in await everything(logs["HISTORY"], "placement.>") if 8 <= item[0] <= last - 2]
        assert await everything(copies["FACTS"]) == wanted
        assert len(wanted) == 4
        assert len(await everything(copies["HISTORY"])) == 4
        assert await everything(copies["OBSERVED"]) == []
    assert await verify(LogAccess(other_server.url)) == 0


async def test_named_manifests_go_along(connection: Connection, nats_server: Server, tmp_path: Path) -> None:
    logs = streams(connection)
    await store(logs["FACTS"], [replace(template(), digest="abc"), binding()])
    await logs["BLOBS"].append([NewMessage("blob.abc", b"{}"), NewMessage("blob.def", b"{}")])
    file = tmp_path / "part.gz"
    await export(LogAccess(nats_server.url), file, ExportChoice(subject="template.>"))
    lines = [msgspec.json.decode(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    assert [line.get("subject") for line in lines if line["line"] == "message"] == [subject_of(template()), "blob.abc"]
    assert lines[0]["streams"]["FACTS"]["last"] == 2
    assert lines[-1] == {"line": "end", "messages": {"FACTS": 1, "BLOBS": 1}}


async def test_a_used_log_takes_no_import(connection: Connection, nats_server: Server, tmp_path: Path) -> None:
    logs = streams(connection)
    await store(logs["FACTS"], [template()])
    file = tmp_path / "log.gz"
    access = LogAccess(nats_server.url)
    await export(access, file, ExportChoice())
    with pytest.raises(Failed, match="is not empty: FACTS ends at #1"):
        await import_log(access, file)
    await logs["FACTS"].purge(">", 1)
    with pytest.raises(Failed, match="is not empty"):
        await import_log(access, file)


async def test_a_damaged_file_changes_nothing(
    connection: Connection, nats_server: Server, other_server: Server, tmp_path: Path
) -> None:
    await lifetimes(streams(connection))
    file = tmp_path / "log.gz"
    await export(LogAccess(nats_server.url), file, ExportChoice())
    whole = file.read_bytes()
    lines = gzip.decompress(whole).splitlines(keepends=True)
    broken = {
        "is cut off or damaged": whole[: len(whole) // 2],
        "is not whole": gzip.compress(b"".join(lines[:-1])),
        "comes after #": gzip.compress(b"".join([lines[0], lines[2], lines[1], *lines[3:]])),
        "is no exported log": b"hello",
        "does not begin with a header": gzip.compress(b"".join(lines[1:])),
        "this version reads": gzip.compress(lines[0].replace(b"fleetlog-log/1", b"fleetlog-log/9")),
        "line 2": gzip.compress(lines[0] + b"{]\n"),
    }
    for words, data in broken.items():
        file.write_bytes(data)
        with pytest.raises(Failed, match=words):
            await import_log(LogAccess(other_server.url), file)
    async with opened(other_server) as copies:
        assert [(await log.identity()).last_seq for log in copies.values()] == [0] * len(copies)
        assert BLOBS.name in copies


async def test_a_sound_log_has_no_problem_even_after_purges(connection: Connection) -> None:
    logs = streams(connection)
    world = await lifetimes(logs)
    await store(logs["FACTS"], [TemplateDeleted(key=named("app-0"), uid="u1")])
    checker, problems = await check(logs)
    assert (problems, checker.last) == (0, world.ends["FACTS"] + 1)
    assert checker.events == checker.last


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([template(), replace(template(), prev=0)], "#2 .*says that it is the first of its subject, but #1"),
        ([template(), template(), replace(template(), prev=1)], "#3 .*names #1 as the event before it, but #2"),
        ([template(), replace(template(), prev=7)], "#2 .*the event before it, #7, is missing"),
        ([template(), replace(template(), prev=-1, provenance=Provenance(as_of=2))], "#2 .*decided with #2 in view"),
        ([template(), replace(binding(), provenance=Provenance(causes=(5,)))], "#2 .*names #5 as its cause"),
    ],
)
async def test_what_does_not_hold_together_is_named(
    connection: Connection, nats_server: Server, events: Any, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await store(streams(connection)["FACTS"], events)
    assert await verify(LogAccess(nats_server.url)) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(re.search(words, line) for line in lines), lines
    assert lines[-1].startswith(f"{len(events)} events of ")
    assert await verify(LogAccess(nats_server.url), "json") == 1
    document = msgspec.json.decode(capsys.readouterr().out)
    assert document["problems"] == [line for line in lines if line.startswith("#")]
    assert document["events"] == len(events)


async def test_a_deposed_writer_and_a_wrong_one_are_named(
    connection: Connection, nats_server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = streams(connection)["FACTS"]
    await store(facts, [LeaseTaken(service="detector", instance="d1"), LeaseTaken(service="scheduler", instance="s1")])
    await store(facts, [template()], producer="detector/d1")
    await store(facts, [LeaseTaken(service="detector", instance="d2", prev=1)])
    await store(facts, [replace(template(), prev=3)], producer="detector/d1")
    await store(facts, [binding()], producer="scheduler/s1")
    assert await verify(LogAccess(nats_server.url)) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("d1 wrote it, but d2 led detector since #4")
    assert lines[1].endswith("scheduler wrote it; only detector may")
    assert lines[2] == "6 events of 4 subjects, positions 1 to 6: 2 problems"


async def test_schedulers_of_other_names_may_write_placements(
    connection: Connection, nats_server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = streams(connection)["FACTS"]
    await store(facts, [LeaseTaken(service="scheduler-other", instance="s2")])
    await store(facts, [placement()], producer="scheduler-other/s2")
    assert await verify(LogAccess(nats_server.url)) == 0
    await store(facts, [replace(placement(), prev=2)], producer="scheduler-other/s3")
    await store(facts, [template()], producer="scheduler-other/s2")
    await store(facts, [replace(template(), prev=4)], producer="schedulers/s1")
    assert await verify(LogAccess(nats_server.url)) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[2] for line in lines[1:4]] == [
        "s3 wrote it, but s2 led scheduler-other since #1",
        "scheduler-other wrote it; only detector may",
        "schedulers wrote it; only detector may",
    ]


async def test_lost_and_changed_history_is_named(
    connection: Connection, nats_server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = streams(connection)
    again = [replace(template(), prev=2), replace(binding(), prev=3)]
    await store(logs["FACTS"], [cluster("m1"), template(), binding(), *again])
    await until_held(logs["HISTORY"], 5)
    for stream in ("FACTS", "HISTORY"):
        await logs[stream].purge("binding.>", 3)
    await logs["HISTORY"].purge("template.>", 4)
    assert await verify(LogAccess(nats_server.url)) == 1
    said = [line.partition(": ")[::2] for line in capsys.readouterr().out.splitlines()]
    of_template, of_binding = (subject_of(event) for event in (template(), binding()))
    assert said == [
        (f"#2 {of_template}", "HISTORY has passed it and does not hold it"),
        (f"#4 {of_template}", "before it, #3 stand neither in FACTS nor in HISTORY"),
        (f"#4 {of_template}", "HISTORY has passed it and does not hold it"),
        (f"#5 {of_binding}", "the event before it, #3, is missing"),
        ("4 events of 3 subjects, positions 1 to 5", "4 problems"),
    ]


async def test_the_state_at_a_time_comes_from_history(connection: Connection) -> None:
    logs = streams(connection)
    await store(logs["FACTS"], [template(), binding()])
    await until_held(logs["HISTORY"], 2)
    between = max(fact.time for fact in await facts_of(logs, KEY))
    await store(logs["FACTS"], [TemplateDeleted(key=KEY, uid="u1", prev=1)])
    await until_held(logs["HISTORY"], 3)
    now = standing(await facts_of(logs, KEY))
    assert [(facet.facet, facet.closed) for facet in now] == [("template", True), ("binding", False)]
    for stream in ("FACTS", "OBSERVED"):
        await logs[stream].purge(">", 3)
    # HISTORY stores a fact a moment after FACTS did.
    older = await facts_of(logs, KEY)
    first = [fact for fact in older if fact.seq <= 2]
    then = standing(await facts_of(logs, KEY, max(between, *(fact.time for fact in first))))
    assert [(facet.facet, facet.position, facet.closed) for facet in then] == [
        ("template", 1, False),
        ("binding", 2, False),
    ]
    assert decode(subject_of(template()), bytes(then[0].data)) == template()
