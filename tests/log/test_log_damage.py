"""Messages whose bytes were damaged on the disk are named, whoever reads; what was removed is no damage."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest

from schemas.topology import Stream
from services._kit.base.log_errors import Unreadable
from services._kit.log import streams as topology
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import NewMessage
from tests.natsserver import ProcessServer, find_binary
from tests.support.byte_flips import damage
from tests.support.closing import closing

S = Stream(name="S", subjects=("s.>",), purpose="test", max_per_subject=8, allow_atomic=True)

pytestmark = pytest.mark.skipif(find_binary() is None, reason="the files of a server in a container are not ours")


@pytest.fixture
def server(tmp_path):
    server = ProcessServer(find_binary(), tmp_path)
    server.start()
    yield server
    server.stop()


@asynccontextmanager
async def opened(server):
    async with closing(await Connection.open(server.url, retry_seconds=0.05)) as connection:
        yield JetStreamLog(connection, "S")


async def fill(server, subjects=10, each=4):
    async with opened(server) as log:
        await topology.apply_stream(log.connection, S)
        for number in range(each):
            await log.append([NewMessage(f"s.k{k}", f"{k} {number} {'x' * 50}".encode()) for k in range(subjects)])


async def until_caught_up(pump):
    """Messages up to the end of the log."""
    messages = []
    async with asyncio.timeout(60):
        async for delivery in pump:
            messages += delivery.messages
            if delivery.caught_up:
                return messages
    raise AssertionError("the pump ended")


async def remove(log, *seqs):
    for seq in seqs:
        query = msgspec.json.encode({"seq": seq})
        await log.connection.request("$JS.API.STREAM.MSG.DELETE.S", query)


async def test_sound_stream_with_removed_messages_has_no_damage(server):
    await fill(server)
    async with opened(server) as log:
        await remove(log, 1, 17, 18, 40)
        assert await log.damage() == []


async def test_an_empty_stream_has_no_damage(server):
    async with opened(server) as log:
        await topology.apply_stream(log.connection, S)
        assert await log.damage() == []


@pytest.mark.parametrize("seq", [1, 17, 40])
async def test_a_damaged_message_is_named(server, tmp_path, seq):
    await fill(server)
    async with opened(server) as log:
        await remove(log, 20)
    server.stop()
    damage(tmp_path / "store", "S", seq)
    server.start()
    async with opened(server) as log:
        assert [(found.seq, found.subject) for found in await log.damage()] == [(seq, f"s.k{(seq - 1) % 10}")]


async def test_whoever_reads_all_is_told_what_cannot_be_read(server, tmp_path):
    await fill(server)
    server.stop()
    damage(tmp_path / "store", "S", 17)
    server.start()
    async with opened(server) as log:
        with pytest.raises(Unreadable, match=r"stream S, message 17 \(s.k6\) is unreadable; run `fleetlog log repair"):
            async with asyncio.timeout(60):
                [message async for message in log.read(["s.>"])]


async def test_who_skips_damage_looks_for_it_once(server, tmp_path):
    await fill(server)
    server.stop()
    for seq in (7, 17):
        damage(tmp_path / "store", "S", seq)
    server.start()
    async with opened(server) as log:
        log.skips_damaged = True
        pump = log.pump(["s.>"], start=1)
        messages = await until_caught_up(pump)
        assert [message.seq for message in messages] == [seq for seq in range(1, 41) if seq not in (7, 17)]
        assert (pump.stats.stalls, pump.stats.consumers) == (1, 2), "the second one knows what it passes over"


@pytest.mark.parametrize("seq", [33, 40])
async def test_reader_of_last_messages_learns_of_damaged_ones(server, tmp_path, seq):
    await fill(server)
    server.stop()
    damage(tmp_path / "store", "S", seq)
    server.start()
    async with opened(server) as log:
        pump = log.pump(["s.>"])
        with pytest.raises(Unreadable, match=rf"message {seq} "):
            await until_caught_up(pump)
        assert pump.stats.stalls >= 1


async def test_damaged_earlier_message_stops_no_reader_of_last_ones(server, tmp_path):
    await fill(server)
    server.stop()
    damage(tmp_path / "store", "S", 17)
    server.start()
    async with opened(server) as log:
        messages = await until_caught_up(log.pump(["s.>"]))
    assert [message.seq for message in messages] == list(range(31, 41))


async def test_a_reader_that_its_consumer_left_in_the_middle_goes_on(server):
    """A server that dies takes the consumer with it; nothing is read twice and nothing is missed."""
    await fill(server, subjects=100, each=8)
    async with opened(server) as log:
        seen, killed = [], False
        async with asyncio.timeout(60):
            async for delivery in log.pump(["s.>"], start=1, window=64):
                seen += [message.seq for message in delivery.messages]
                if len(seen) > 300 and not killed:
                    server.kill9()
                    killed = True
                    server.start()
                if delivery.caught_up:
                    break
    assert seen == list(range(1, 801))
