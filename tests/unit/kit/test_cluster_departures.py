"""What is under way with a cluster that leaves ends, wherever it stands; what is for other clusters goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from services._kit.proxying.cluster_departures import DepartureTransport
from services._kit.proxying.member_exchange import Exchange, MemberLeft, MemberRequest
from tests.support.waiting import eventually


class Silent:
    """A transport and its exchange: answers begin when they may, and say nothing."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: tuple[tuple[str, str], ...] = ()
        self.begins = asyncio.Event()
        self.waits = 0
        self.closed = 0

    async def open(self, request: MemberRequest, body: AsyncIterator[bytes] | None = None) -> Exchange:
        await self._wait(self.begins)
        return self

    async def read(self) -> bytes:
        await self._wait(asyncio.Event())
        return b""

    async def write(self, data: bytes) -> None:
        await self._wait(asyncio.Event())

    async def close(self) -> None:
        self.closed += 1

    async def _wait(self, event: asyncio.Event) -> None:
        self.waits += 1
        try:
            await event.wait()
        finally:
            self.waits -= 1


def asked(cluster: str) -> MemberRequest:
    return MemberRequest(cluster, "GET", "/", (), "jane", ())


async def test_a_request_without_an_answer_ends() -> None:
    silent = Silent()
    transport = DepartureTransport(silent)
    opening = [asyncio.create_task(transport.open(asked(name))) for name in ("m1", "m2")]
    await eventually(lambda: silent.waits == 2, "both requests")
    transport.left("m1")
    with pytest.raises(MemberLeft, match="cluster m1 is no member any more"):
        await opening[0]
    silent.begins.set()
    assert (await opening[1]).status == 200


async def test_both_directions_of_a_connection_end() -> None:
    silent = Silent()
    silent.begins.set()
    transport = DepartureTransport(silent)
    exchange = await transport.open(asked("m1"))
    tasks = [asyncio.create_task(exchange.read()), asyncio.create_task(exchange.write(b"x"))]
    await eventually(lambda: silent.waits == 2, "both directions")
    transport.left("m1")
    for found in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(found, MemberLeft)
    with pytest.raises(MemberLeft):
        await exchange.read()
    await exchange.close()
    assert silent.closed == 1


async def test_a_member_does_not_wait_for_a_slow_caller() -> None:
    silent = Silent()
    silent.begins.set()
    transport = DepartureTransport(silent)
    exchange = await transport.open(asked("m1"))
    transport.left("m1")
    await eventually(lambda: silent.closed == 1, "the end of the exchange")
    with pytest.raises(MemberLeft):
        await exchange.read()


async def test_a_caller_that_leaves_at_the_same_time_is_gone() -> None:
    silent = Silent()
    silent.begins.set()
    transport = DepartureTransport(silent)
    exchange = await transport.open(asked("m1"))
    reading = asyncio.create_task(exchange.read())
    await eventually(lambda: silent.waits == 1, "the reading")
    transport.left("m1")
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_what_ended_before_is_forgotten() -> None:
    silent = Silent()
    silent.begins.set()
    transport = DepartureTransport(silent)
    exchange = await transport.open(asked("m1"))
    await exchange.close()
    assert not transport._stays
    transport.left("m1")
    assert silent.closed == 1
