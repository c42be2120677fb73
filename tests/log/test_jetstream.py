"""Behaviour of the pinned server that the runtime relies on, asked for without the runtime in between."""

from __future__ import annotations

import msgspec
import pytest

from schemas.topology import FACTS, STREAMS
from services._kit.log import streams as topology
from services._kit.log.jetstream import JetStreamLog, parse_time
from services._kit.log.stream_port import NewMessage


async def publish(connection, subject, data=b"{}", **headers):
    """One publish and the log's answer as a dict; header names are written with underscores."""
    named = {name.replace("_", "-"): str(value) for name, value in headers.items()}
    answer = await connection.request(subject, data, named or None)
    return msgspec.json.decode(answer.data) if answer.data else {}


async def raw_batch(connection, count, first=None, last=None, batch="b1"):
    """A batch by hand; the commit's answer."""
    for number in range(1, count + 1):
        headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
        if number == 1:
            headers |= first or {}
        if number == count:
            headers |= {"Nats-Batch-Commit": "1", **(last or {})}
            answer = await connection.request(f"cluster.c{number}", b"{}", headers)
            return msgspec.json.decode(answer.data)
        await connection.publish(f"cluster.c{number}", b"{}", headers)
    raise AssertionError("an empty batch")


def code(answer):
    return answer.get("error", {}).get("err_code")


async def test_foreign_fence_on_the_first_message_refuses_the_batch(connection):
    await publish(connection, "lease.s")
    fence = {"Nats-Expected-Last-Subject-Sequence-Subject": "lease.s"}
    assert code(await raw_batch(connection, 3, {"Nats-Expected-Last-Subject-Sequence": "9", **fence})) == 10071
    good = await raw_batch(connection, 3, {"Nats-Expected-Last-Subject-Sequence": "1", **fence}, batch="b2")
    assert (good["seq"], good["count"]) == (4, 3)


async def test_the_expectation_is_checked_before_the_duplicate(connection):
    """Hence, after a lost answer, the last event of the subject decides and not the answer to a retry."""
    headers = {"Nats_Expected_Last_Subject_Sequence": 0, "Nats_Msg_Id": "one"}
    assert (await publish(connection, "cluster.a", **headers))["seq"] == 1
    assert code(await publish(connection, "cluster.a", **headers)) == 10071
    assert (await publish(connection, "cluster.a", Nats_Msg_Id="one"))["duplicate"] is True


async def test_a_repeated_message_id_refuses_the_whole_batch(connection):
    await raw_batch(connection, 3, {"Nats-Msg-Id": "x"})
    assert code(await raw_batch(connection, 3, {"Nats-Msg-Id": "x"}, batch="b2")) == 10201


async def test_a_batch_holds_at_most_a_thousand_messages(connection):
    assert (await raw_batch(connection, 1000))["seq"] == 1000
    assert code(await raw_batch(connection, 1001, batch="b2")) == 10199


async def test_an_abandoned_batch_stores_nothing(connection):
    headers = {"Nats-Batch-Id": "b9", "Nats-Batch-Sequence": "1"}
    await connection.request("cluster.a", b"{}", headers)
    assert (await JetStreamLog(connection, "FACTS").identity()).last_seq == 0


async def test_last_per_subject_delivers_the_present(connection):
    log = JetStreamLog(connection, "FACTS")
    for _ in range(3):
        await log.append([NewMessage("cluster.a", b"{}"), NewMessage("cluster.b", b"{}")])
    pump = log.pump(["cluster.*"])
    async for delivery in pump:
        if delivery.caught_up:
            assert [m.seq for m in delivery.messages] == [5, 6]
            break
    await pump.close()


async def test_streams_take_more_consumers_than_the_servers_default(connection):
    answer = await connection.request("$JS.API.STREAM.INFO.FACTS")
    assert msgspec.json.decode(answer.data)["config"]["max_consumers"] == FACTS.max_consumers > 1000


async def test_applying_the_topology_again_changes_nothing(connection):
    before = await JetStreamLog(connection, "FACTS").identity()
    assert set((await topology.apply(connection)).values()) == {"unchanged"}
    assert (await JetStreamLog(connection, "FACTS").identity()).id == before.id
    assert await topology.check(connection) == []


async def test_a_changed_stream_is_reported_and_repaired(connection):
    log = JetStreamLog(connection, "BLOBS")
    before = (await log.identity()).id
    blobs = next(stream for stream in STREAMS if stream.name == "BLOBS")
    changed = msgspec.structs.replace(blobs, max_per_subject=9)
    assert await topology.apply_stream(connection, changed) == "updated"
    (problem,) = await topology.check(connection)
    assert "BLOBS" in problem
    assert "max_msgs_per_subject" in problem
    assert await topology.apply_stream(connection, blobs) == "updated"
    assert await topology.check(connection) == []
    assert (await log.identity()).id == before


async def test_streams_of_a_later_version_are_kept_as_they_are(connection):
    replace = msgspec.structs.replace
    later = replace(FACTS, subjects=(*FACTS.subjects, "forecast.>"), max_per_subject=FACTS.max_per_subject + 1)
    assert await topology.apply_stream(connection, later) == "updated"
    assert await topology.check(connection) == []
    assert await topology.apply_stream(connection, FACTS) == "unchanged"
    assert await topology.check(connection, [later]) == []
    # One that lacks a subject is not later, whatever else it takes.
    other = replace(FACTS, subjects=(*FACTS.subjects[1:], "other.>"))
    assert await topology.apply_stream(connection, other) == "updated"
    (problem,) = await topology.check(connection, [FACTS])
    assert "subjects" in problem


async def test_a_missing_stream_is_reported(connect):
    problems = await topology.check(await connect())
    assert len(problems) == len(STREAMS)
    assert all("apply the topology" in problem for problem in problems)


async def test_history_receives_what_facts_hold(connection):
    await JetStreamLog(connection, "FACTS").append([NewMessage("cluster.a", b"{}"), NewMessage("cluster.b", b"{}")])
    pump = JetStreamLog(connection, "HISTORY").pump(["cluster.*"])
    seen = []
    async for delivery in pump:
        seen += [m.subject for m in delivery.messages]
        if len(seen) == 2:
            break
    await pump.close()
    assert seen == ["cluster.a", "cluster.b"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:01Z", 1.0),
        ("1970-01-01T00:00:01.5Z", 1.5),
        ("1970-01-01T00:00:01.123456789Z", 1.123456),
        ("1970-01-01T01:00:01.25+01:00", 1.25),
    ],
)
def test_times_of_the_server_are_read(text, seconds):
    assert parse_time(text) == pytest.approx(seconds)
