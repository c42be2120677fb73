"""SPDY/3.1 frames and sessions, with a client that sends what it should and what it should not."""

import asyncio
import struct
import zlib

import pytest

from services._kit.concurrency.tasks import end
from services.member_sim.streams import spdy_framing as spdy
from services.member_sim.streams.spdy_framing import BadSpdy, Frame, FrameReader
from services.member_sim.streams.spdy_session import MOST_STREAMS, SpdySession, SpdyStream
from tests.support.spdy_client import ClientFrames
from tests.support.waiting import eventually


def test_the_dictionary_is_that_of_the_draft() -> None:
    assert (len(spdy.DICTIONARY), zlib.adler32(spdy.DICTIONARY)) == (1423, 0xE3C6A7C2)


def test_frames_are_read_whatever_pieces_they_come_in() -> None:
    client = ClientFrames()
    raw = client.opened(1, {"StreamType": "data", "port": "80"}) + client.data(1, b"abc", last=True)
    raw += client.opened(3, {"streamtype": "error"}) + client.ping(5)
    reader = FrameReader()
    found = [frame for place in range(len(raw)) for frame in reader.feed(raw[place : place + 1])]
    assert [frame.kind for frame in found] == [spdy.SYN_STREAM, spdy.DATA, spdy.SYN_STREAM, spdy.PING]
    assert found[0].headers == {"streamtype": "data", "port": "80"}
    assert found[1] == Frame(spdy.DATA, 1, spdy.FIN, b"abc")
    assert found[1].last
    assert found[2].headers == {"streamtype": "error"}


def _bomb() -> bytes:
    packer = zlib.compressobj(zdict=spdy.DICTIONARY)
    packed = packer.compress(bytes(10_000_000)) + packer.flush(zlib.Z_SYNC_FLUSH)
    return spdy.control(spdy.SYN_STREAM, 0, struct.pack(">IIH", 1, 0, 0) + packed)


@pytest.mark.parametrize(
    "raw",
    [
        struct.pack(">II", 1, spdy.LARGEST + 1),
        struct.pack(">II", 0x80020001, 0),
        spdy.control(spdy.SYN_STREAM, 0, b"abc"),
        spdy.control(spdy.SYN_STREAM, 0, struct.pack(">IIH", 1, 0, 0) + b"no zlib"),
        spdy.control(spdy.PING, 0, b""),
        _bomb(),
        b"GET / HTTP/1.1\r\n\r\n" * 3,
    ],
    ids=["large", "version", "short", "no zlib", "ping", "bomb", "http"],
)
def test_bytes_that_are_no_frames_are_refused(raw: bytes) -> None:
    with pytest.raises(BadSpdy):
        list(FrameReader().feed(raw))


class Wire:
    """Both directions of a connection."""

    def __init__(self) -> None:
        self.to_server: asyncio.Queue[bytes] = asyncio.Queue()
        self.sent: list[Frame] = []
        self._reader = FrameReader()

    async def read(self) -> bytes:
        return await self.to_server.get()

    async def write(self, data: bytes) -> None:
        self.sent += self._reader.feed(data)

    def kinds(self) -> list[int]:
        return [frame.kind for frame in self.sent]


async def test_streams_carry_bytes_both_ways_until_both_end() -> None:
    wire, client, streams = Wire(), ClientFrames(), list[SpdyStream]()

    def opened(stream: SpdyStream) -> bool:
        streams.append(stream)
        return True

    session = SpdySession(wire, opened)
    running = asyncio.create_task(session.run())
    wire.to_server.put_nowait(client.opened(1, {"a": "b"}) + client.data(1, b"hello") + client.ping(7))
    await eventually(lambda: wire.kinds() == [spdy.SYN_REPLY, spdy.PING])
    assert await streams[0].read() == b"hello"
    wire.to_server.put_nowait(client.data(1, b"", last=True))
    assert await streams[0].read() == b""
    await streams[0].write(b"x" * 100_000)
    await streams[0].finish()
    assert sum(len(frame.body) for frame in wire.sent if frame.kind == spdy.DATA) == 100_000
    assert wire.sent[-1].last
    wire.to_server.put_nowait(client.data(1, b"late") + client.goaway(1))
    await running


async def test_streams_beyond_the_bound_are_reset() -> None:
    wire, client = Wire(), ClientFrames()
    running = asyncio.create_task(SpdySession(wire, lambda _: True).run())
    for number in range(MOST_STREAMS + 1):
        wire.to_server.put_nowait(client.opened(2 * number + 1, {}))
    await eventually(lambda: spdy.RST_STREAM in wire.kinds())
    assert wire.kinds().count(spdy.SYN_REPLY) == MOST_STREAMS
    await end(running)


async def test_nonsense_ends_the_session_and_its_streams() -> None:
    wire, client, streams = Wire(), ClientFrames(), list[SpdyStream]()
    session = SpdySession(wire, lambda stream: streams.append(stream) or True)
    wire.to_server.put_nowait(client.opened(1, {}))
    wire.to_server.put_nowait(b"\xff" * 64)
    await session.run()
    assert wire.kinds()[-1] == spdy.GOAWAY
    assert await streams[0].read() == b""
