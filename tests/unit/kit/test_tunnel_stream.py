"""Both sides of one stream, joined without a server: order, credit, ends, silence."""

from __future__ import annotations

import asyncio

import pytest

from services._kit.base.log_errors import Unavailable
from services._kit.proxying.flow_credit import WINDOW
from services._kit.proxying.member_exchange import CHUNK, MemberRefused, MemberUnreachable
from services._kit.proxying.tunnel_frames import REFUSED, Cancel, Credit, Data, FrameError, Head, Open, unpacked
from services._kit.proxying.tunnel_stream import ALIVE_SECONDS, SILENCE_SECONDS, Patience, TunnelStream
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually

ID = "a" * 32


class Pair:
    """Two sides; frames of each go to the other at once."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.frames: list[object] = []
        self.down = False
        self.left = TunnelStream(ID, lambda data: self._bring(data, "right"), self.clock.monotonic)
        self.right = TunnelStream(ID, lambda data: self._bring(data, "left"), self.clock.monotonic)

    async def _bring(self, data: bytes, to: str) -> None:
        if self.down:
            raise Unavailable("cut")
        frame = unpacked(data)
        self.frames.append(frame)
        side = self.left if to == "left" else self.right
        side.heard(frame)
        assert not isinstance(frame, Open | Head)
        side.take(frame)


@pytest.fixture
async def pair() -> Pair:
    """Two sides of a stream."""
    return Pair()


async def test_bytes_arrive_in_order_and_end(pair: Pair) -> None:
    async def send() -> None:
        for number in range(300):
            await pair.left.write(bytes([number % 256]) * 20_000)
        await pair.left.end()

    sending = asyncio.create_task(send())
    found = bytearray()
    while data := await pair.right.read():
        assert len(data) <= CHUNK
        found += data
    await sending
    assert bytes(found) == b"".join(bytes([number % 256]) * 20_000 for number in range(300))
    assert pair.right.ended
    assert pair.left.sent == pair.right.received == 6_000_000


async def test_a_writer_waits_for_a_reader(pair: Pair) -> None:
    writing = asyncio.create_task(pair.left.write(b"x" * (2 * WINDOW)))
    await eventually(lambda: pair.left.sent == WINDOW, "a full window")
    assert not writing.done()
    read = 0
    while read < 2 * WINDOW:
        read += len(await pair.right.read())
    await writing
    assert all(isinstance(frame, Data | Credit) for frame in pair.frames)


async def test_a_cancelled_stream_gives_what_came_first(pair: Pair) -> None:
    await pair.left.write(b"some")
    await pair.left.cancel(REFUSED, "not\r\nhere")
    assert await pair.right.read() == b"some"
    with pytest.raises(MemberRefused, match="not here"):
        await pair.right.read()
    with pytest.raises(MemberRefused):
        await pair.right.write(b"more")
    with pytest.raises(MemberUnreachable):
        await pair.left.write(b"more")
    assert await pair.left.read() == b""


def test_frames_that_break_the_rules_are_refused() -> None:
    pair = Pair()
    side = pair.left
    side.take(Data(ID, 0, b"x" * CHUNK))
    for _ in range(WINDOW // CHUNK - 1):
        side.take(Data(ID, 0, b"x" * CHUNK))
    with pytest.raises(FrameError, match="credit for 0"):
        side.take(Data(ID, 0, b"x"))
    with pytest.raises(FrameError):
        side.take(Credit(ID, 0, 1))
    with pytest.raises(FrameError):
        side.heard(Cancel(ID, 1, "gone"))


async def test_a_silent_stream_is_over(pair: Pair) -> None:
    pair.clock.advance(ALIVE_SECONDS + 1)
    await pair.left.look()
    (sign,) = pair.frames
    assert isinstance(sign, Credit)
    assert sign.size == 0
    pair.clock.advance(SILENCE_SECONDS - 1)
    await pair.left.look()
    assert "nothing was heard" in str(pair.left.failure)
    # The other side heard the sign.
    await pair.right.look()
    assert pair.right.failure is None
    with pytest.raises(MemberUnreachable):
        await pair.left.read()


async def test_a_server_that_is_gone_ends_a_stream(pair: Pair) -> None:
    pair.down = True
    with pytest.raises(MemberUnreachable, match="cut"):
        await pair.left.write(b"x")
    with pytest.raises(MemberUnreachable, match="cut"):
        await pair.left.read()
    await pair.left.cancel()


async def test_patience_lasts_as_long_as_something_moves() -> None:
    with pytest.raises(TimeoutError):
        async with Patience(0.01):
            await asyncio.Event().wait()
    async with Patience(None) as patience:
        patience.moved()
    async with Patience(60.0) as patience:
        patience.moved()
    patience.moved()
