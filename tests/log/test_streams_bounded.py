"""Streams have bounds: new ones, those of an older installation, and those of a server with little room."""

from __future__ import annotations

from pathlib import Path
from random import randbytes

import msgspec
import pytest
from msgspec.structs import replace

from schemas.topology import FACTS, HISTORY, OBSERVED, STREAMS
from services._kit.base.log_errors import StreamFull, TooLarge
from services._kit.content.blobs import Blobs
from services._kit.log import streams as topology
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import NewMessage
from tests.log.running import running
from tests.log.toy import Toy, placed_on, released, wanted
from tests.natsserver import ProcessServer, find_binary

MIB = 1 << 20


async def limits(connection) -> dict[str, int]:
    return {fill.stream: fill.most for fill in await topology.fills(connection)}


async def fill(connection, name: str) -> topology.Fill:
    return next(one for one in await topology.fills(connection) if one.stream == name)


async def test_new_streams_are_bounded_and_know_how_full_they_are(connection):
    assert await limits(connection) == {stream.name: stream.max_bytes for stream in STREAMS}
    await JetStreamLog(connection, "FACTS").append([NewMessage("binding.1.a", b"x" * MIB)])
    facts = await fill(connection, "FACTS")
    assert facts.messages == 1
    assert MIB < facts.bytes < 2 * MIB
    assert facts.refuses
    assert not (await fill(connection, "OBSERVED")).refuses
    assert (await fill(connection, "HISTORY")).passing


async def test_streams_of_an_older_installation_get_bounds(connect):
    connection = await connect()
    older = [replace(stream, max_bytes=-1, max_message=-1, discard="old") for stream in STREAMS]
    older[0] = replace(older[0], discard="new")
    await topology.apply(connection, older)
    facts, blobs = JetStreamLog(connection, "FACTS"), JetStreamLog(connection, "BLOBS")
    await facts.append([NewMessage(f"binding.1.{number}", b"x" * 100_000) for number in range(30)])
    await blobs.append([NewMessage(f"blob.{number}", b"x" * 100_000) for number in range(30)])
    before = (await facts.identity()).id
    small = [replace(stream, max_bytes=MIB) for stream in STREAMS]
    assert (await topology.apply(connection, small))["FACTS"] == "updated"
    assert (await facts.identity()).id == before
    assert len([m async for m in facts.read(["binding.>"])]) == 30
    assert len([m async for m in blobs.read(["blob.*"])]) == 30
    held = await fill(connection, "FACTS")
    assert held.most == 2 * held.bytes
    assert (await fill(connection, "BLOBS")).refuses
    assert set((await topology.apply(connection, small)).values()) == {"unchanged"}
    assert await topology.check(connection) == []


async def test_stream_size_set_by_an_operator_stays(connection):
    asked = {"FACTS": 64 * MIB}
    assert await topology.apply_stream(connection, FACTS, sizes=asked) == "updated"
    assert await topology.apply_stream(connection, FACTS) == "unchanged"
    assert (await limits(connection))["FACTS"] == 64 * MIB
    assert await topology.check(connection) == []
    assert await topology.apply_stream(connection, FACTS, sizes={"FACTS": 128 * MIB}) == "updated"
    assert (await limits(connection))["FACTS"] == 128 * MIB


async def test_a_server_with_little_room_gets_smaller_streams(tmp_path: Path):
    binary = find_binary()
    if binary is None:
        pytest.skip("no nats-server installed")
    server = ProcessServer(binary, tmp_path, "max_file_store: 1GB")
    server.start()
    connection = await Connection.open(server.url)
    try:
        await topology.apply(connection)
        found = await limits(connection)
        assert set(found) == {stream.name for stream in STREAMS}
        assert all(size > 0 for size in found.values())
        assert sum(found.values()) <= 10**9
        assert found["FACTS"] > 100 * MIB, "all were made smaller alike"
        assert found["HISTORY"] > found["FACTS"]
        assert await topology.check(connection) == []
        assert set((await topology.apply(connection)).values()) == {"unchanged"}
    finally:
        await connection.close()
        server.stop()


async def test_a_message_that_is_too_large_for_its_stream_is_refused(connection):
    observed = JetStreamLog(connection, "OBSERVED")
    with pytest.raises(TooLarge):
        await observed.append([NewMessage("observed.m1.a", b"x" * (OBSERVED.max_message + 1))])
    await observed.append([NewMessage("observed.m1.a", b"x" * MIB)])


async def test_a_history_drops_its_oldest_when_it_is_full(connection):
    small = replace(HISTORY, max_bytes=16 * MIB)
    await topology.apply_stream(connection, small, sizes={"HISTORY": 16 * MIB})
    facts, history = JetStreamLog(connection, "FACTS"), JetStreamLog(connection, "HISTORY")
    body = b"".join(number.to_bytes(4) for number in range(250_000))  # Not to be compressed to nothing.
    for number in range(30):
        await facts.append([NewMessage(f"binding.1.{number}", number.to_bytes(4) + body)])

    async def last() -> int:
        return (await history.identity()).last_seq

    while await last() < 30:
        pass
    assert (await fill(connection, "HISTORY")).bytes <= 16 * MIB
    assert (await fill(connection, "FACTS")).messages == 30


async def until_full(store) -> None:
    for number in range(32):
        await store(number)


async def test_full_streams_take_nothing_from_facts(tmp_path: Path):
    binary = find_binary()
    if binary is None:
        pytest.skip("no nats-server installed")
    least, most = 16 * MIB, 24 * MIB
    room = least * (len(STREAMS) - 1) + most
    server = ProcessServer(binary, tmp_path, f"max_file_store: {room}")
    server.start()
    connection = await Connection.open(server.url)
    try:
        await topology.apply(connection, sizes={stream.name: least for stream in STREAMS} | {"FACTS": most})
        observed, blobs = JetStreamLog(connection, "OBSERVED"), JetStreamLog(connection, "BLOBS")
        facts, history = JetStreamLog(connection, "FACTS"), JetStreamLog(connection, "HISTORY")
        contents = Blobs(blobs)

        def body(number: int) -> bytes:
            # Not to be compressed to nothing.
            return number.to_bytes(4) + bytes(range(256)) * 8 + randbytes(MIB)

        for number in range(18):
            await observed.append([NewMessage(f"observed.m1.{number}", body(number))])
        assert await observed.last("observed.m1.0") is None, "the oldest went"
        assert await observed.last("observed.m1.17") is not None
        with pytest.raises(StreamFull):
            await until_full(lambda number: contents.put(body(number)))
        held = (await fill(connection, "BLOBS")).bytes
        assert 14 * MIB < held <= least
        assert (await fill(connection, "BLOBS")).alarming
        for number in range(22):
            await facts.append([NewMessage(f"binding.1.{number}", body(number))])
        while (await history.identity()).last_seq < 22:
            pass
        assert (await fill(connection, "HISTORY")).bytes <= least
        assert (await fill(connection, "FACTS")).messages == 22, "all room of its own"
        with pytest.raises(StreamFull):
            await until_full(lambda number: facts.append([NewMessage(f"binding.2.{number}", body(number))]))
        # A stream that is trimmed, or given more room, takes writes again; so does every other one meanwhile.
        await observed.append([NewMessage("observed.m1.new", b"seen")])
        await facts.purge("binding.1.*", 10)
        await facts.append([NewMessage("binding.2.new", b"x")])
        await blobs.purge("blob.*", (await blobs.identity()).last_seq - 1)
        assert await contents.get(await contents.put(b"small")) == b"small"
    finally:
        await connection.close()
        server.stop()


async def test_services_wait_while_facts_is_full(backend, request):
    if not backend.real:
        pytest.skip("the log in memory has no bytes")
    connection = request.getfixturevalue("connection")
    config = msgspec.json.decode((await connection.request("$JS.API.STREAM.INFO.FACTS")).data)["config"]

    async def bound(size: int) -> None:
        body = msgspec.json.encode({**config, "max_bytes": size})
        answer = msgspec.json.decode((await connection.request("$JS.API.STREAM.UPDATE.FACTS", body)).data)
        assert "error" not in answer, answer

    async with running(Toy(), backend) as toy:
        await backend.facts.append([wanted("a")])
        await toy.until(lambda: placed_on(toy.state, "a"))
        before = (await fill(connection, "FACTS")).bytes
        await backend.facts.append([released("a")])
        await toy.until(lambda: placed_on(toy.state, "a") is None)
        held = (await fill(connection, "FACTS")).bytes
        assert held > before
        await bound(held + 700)  # Enough for the question, and not for its answer.
        await backend.facts.append([wanted("c")])
        await toy.until(lambda: toy.runner.appender.stats.retries > 2)
        assert "maximum bytes" in toy.runner.appender.trouble
        assert not toy.runner.health.ready
        assert placed_on(toy.state, "c") is None
        with pytest.raises(StreamFull):
            await backend.facts.append([NewMessage("template.1.y", b"x" * 1000)])
        await bound(64 * MIB)
        await toy.until(lambda: placed_on(toy.state, "c") == ["m1"])
        await toy.until(lambda: toy.runner.health.ready)
