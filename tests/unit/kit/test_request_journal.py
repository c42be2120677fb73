"""Records of requests: what a transport hands over, how many are kept, and what happens when the log refuses them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from schemas.codec import decode
from schemas.events.request import MemberRequested
from schemas.topology import REQUESTS
from services._kit.base.log_errors import LogError, StreamFull
from services._kit.log.stream_port import Appended, NewMessage
from services._kit.proxying.member_exchange import Exchange, MemberRefused, MemberRequest, MemberUnreachable
from services._kit.proxying.recorded_transport import RecordedTransport
from services._kit.proxying.request_journal import BURST, RequestJournal, RequestLimit
from tests.support.manual_clock import ManualClock
from tests.support.memory_log import MemoryLog
from tests.support.waiting import eventually

ASKED = MemberRequest("m1", "POST", "/api/v1/pods?token=x", (), "anna", ("dev",))
TOLD = MemberRequested(cluster="m1", side="hub", by="gateway", user="anna", method="GET", path="/a")


class FakeExchange:
    """An answer of two parts that may break off; what is written to it is dropped."""

    status = 200
    headers = (("A", "b"),)

    def __init__(self, *parts: bytes | Exception) -> None:
        self._parts = list(parts)
        self.closed = False

    async def read(self) -> bytes:
        """The next part."""
        part = self._parts.pop(0) if self._parts else b""
        if isinstance(part, Exception):
            raise part
        return part

    async def write(self, data: bytes) -> None:
        """Take bytes."""

    async def close(self) -> None:
        """End it."""
        self.closed = True


class FakeTransport:
    """Answers with an exchange, or raises."""

    def __init__(self, answer: FakeExchange | BaseException) -> None:
        self._answer = answer

    async def open(self, request: MemberRequest, body: AsyncIterator[bytes] | None = None) -> Exchange:
        """Take the body and answer."""
        if body is not None:
            async for _ in body:
                pass
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


async def carried(answer: FakeExchange | BaseException) -> tuple[list[MemberRequested], RecordedTransport]:
    """A transport and where its records go."""
    records: list[MemberRequested] = []
    return records, RecordedTransport(FakeTransport(answer), "gateway", ManualClock(), records.append)


async def body() -> AsyncIterator[bytes]:
    """A body of 30 bytes."""
    for _ in range(3):
        yield b"x" * 10


async def test_a_request_is_recorded_when_it_ends() -> None:
    records, transport = await carried(answer := FakeExchange(b"12345", b"678"))
    found = await transport.open(ASKED, body())
    assert (found.status, found.headers) == (200, (("A", "b"),))
    while await found.read():
        assert not records
    await found.write(b"x" * 4)
    await found.close()
    await found.close()
    (told,) = records
    assert (told.cluster, told.side, told.by, told.user, told.groups) == ("m1", "hub", "gateway", "anna", ("dev",))
    assert (told.status, told.sent, told.received, told.problem) == (200, 34, 8, "")
    assert told.path == "/api/v1/pods?token="
    assert answer.closed


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (MemberRefused("not permitted"), "not permitted"),
        (MemberUnreachable("not there"), "not there"),
        (asyncio.CancelledError(), "it was given up before its answer"),
    ],
)
async def test_a_request_without_an_answer_is_recorded(error: BaseException, problem: str) -> None:
    records, transport = await carried(error)
    with pytest.raises(type(error)):
        await transport.open(ASKED)
    assert [(told.status, told.problem) for told in records] == [(0, problem)]


async def test_an_answer_that_broke_off_is_told_as_such() -> None:
    records, transport = await carried(FakeExchange(b"1", MemberUnreachable("gone")))
    found = await transport.open(ASKED)
    assert await found.read() == b"1"
    with pytest.raises(MemberUnreachable):
        await found.read()
    await found.close()
    assert [(told.status, told.received, told.problem) for told in records] == [(200, 1, "gone")]


def test_too_many_records_are_counted_in_the_next() -> None:
    clock = ManualClock()
    limit = RequestLimit(clock)
    kept = [limit.kept(TOLD) for _ in range(int(BURST) + 11)]
    assert sum(1 for event in kept if event is not None) == BURST + 1
    clock.advance(1.0)
    after = limit.kept(TOLD)
    assert after is not None
    assert after.missed == 10
    again = limit.kept(TOLD)
    assert again is not None
    assert again.missed == 0


async def test_records_arrive_on_the_log() -> None:
    stream = MemoryLog(REQUESTS)
    journal = RequestJournal(stream, ManualClock())
    for _ in range(150):
        journal.take(TOLD)
    await journal.close()
    assert journal.written == 150
    found = [decode(message.subject, message.data) async for message in stream.read(("request.>",))]
    assert found == [TOLD] * 150


class FullLog(MemoryLog):
    """A stream that refuses for a while."""

    full = True

    async def append_each(self, messages: Sequence[NewMessage], fence: Any = None) -> list[Appended | LogError]:
        """Refuse, or store."""
        if self.full:
            return [StreamFull(1, "full")] * len(messages)
        return await super().append_each(messages, fence)


async def test_what_a_full_log_refused_is_counted() -> None:
    stream = FullLog(REQUESTS)
    journal = RequestJournal(stream, ManualClock())
    journal.take(TOLD)
    journal.take(TOLD)
    await eventually(lambda: journal.lost == 2, "two losses")
    stream.full = False
    journal.take(TOLD)
    await journal.close()
    (message,) = [message async for message in stream.read(("request.>",))]
    event = decode(message.subject, message.data)
    assert isinstance(event, MemberRequested)
    assert event.missed == 2
