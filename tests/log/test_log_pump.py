"""What every pump does: last per subject first, then the tail, in order, without gaps, however slow the reader is."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from services._kit.base.log_errors import LogReplaced
from services._kit.log.stream_port import NewMessage


def new(subject, data=b"{}"):
    return NewMessage(subject, data)


@asynccontextmanager
async def reading(log, filters, start=None, window=4096):
    """Deliveries of a pump; closes it in the end."""
    pump = log.pump(filters, start, window)
    deliveries = pump.__aiter__()
    try:
        yield deliveries
    finally:
        await pump.close()
        await deliveries.aclose()


async def until_caught_up(deliveries):
    """Messages up to the first delivery that is caught up."""
    messages = []
    async for delivery in deliveries:
        messages += delivery.messages
        if delivery.caught_up:
            return messages, delivery.position
    raise AssertionError("the pump ended")


async def until_seq(deliveries, seq):
    """Messages up to a sequence."""
    messages = []
    async for delivery in deliveries:
        messages += delivery.messages
        if delivery.position >= seq:
            return messages
    raise AssertionError("the pump ended")


async def test_an_empty_log_is_caught_up_at_once(backend):
    async with reading(backend.facts, ["cluster.*"]) as deliveries:
        assert await until_caught_up(deliveries) == ([], 0)


async def test_last_message_of_each_subject_precedes_the_tail(backend):
    log = backend.facts
    await log.append([new("cluster.a", b"1"), new("cluster.b", b"2"), new("lease.x"), new("cluster.a", b"3")])
    async with reading(log, ["cluster.*"]) as deliveries:
        messages, position = await until_caught_up(deliveries)
        assert [(m.subject, m.seq, m.data) for m in messages] == [("cluster.b", 2, b"2"), ("cluster.a", 4, b"3")]
        assert position == 4
        await log.append([new("cluster.a", b"5"), new("lease.x"), new("cluster.a", b"7")])
        assert [m.seq for m in await until_seq(deliveries, 7)] == [5, 7]


async def test_a_start_sequence_gives_everything_from_there(backend):
    log = backend.facts
    await log.append([new("cluster.a"), new("cluster.a"), new("cluster.b"), new("cluster.a")])
    async with reading(log, ["cluster.*"], start=2) as deliveries:
        assert [m.seq for m in await until_seq(deliveries, 4)] == [2, 3, 4]


async def test_a_start_behind_the_end_waits_for_the_tail(backend):
    log = backend.facts
    await log.append([new("cluster.a")])
    async with reading(log, ["cluster.*"], start=2) as deliveries:
        messages, position = await until_caught_up(deliveries)
        assert (messages, position) == ([], 1)
        await log.append([new("cluster.b")])
        assert [m.seq for m in await until_seq(deliveries, 2)] == [2]


async def test_a_slow_reader_with_a_small_window_loses_nothing(backend):
    log = backend.facts
    async with reading(log, ["cluster.*"], start=1, window=16) as deliveries:
        await until_caught_up(deliveries)
        for start in range(0, 1200, 400):
            await log.append([new(f"cluster.c{i}") for i in range(start, start + 400)])
        seen = []
        async for delivery in deliveries:
            seen += [m.seq for m in delivery.messages]
            assert len(delivery.messages) <= 16
            await asyncio.sleep(0)
            if len(seen) == 1200:
                break
        assert seen == list(range(1, 1201))


async def test_several_filters_arrive_in_log_order(backend):
    log = backend.facts
    await log.append([new("cluster.a"), new("lease.s"), new("work.m.a.b.c"), new("cluster.b")])
    async with reading(log, ["work.>", "cluster.*"]) as deliveries:
        messages, _ = await until_caught_up(deliveries)
        assert [m.seq for m in messages] == [1, 3, 4]


async def test_two_pumps_do_not_disturb_each_other(backend):
    log = backend.facts
    async with reading(log, ["cluster.*"]) as one, reading(log, ["cluster.*"]) as other:
        await until_caught_up(one)
        await until_caught_up(other)
        await log.append([new(f"cluster.c{i}") for i in range(50)])
        first, second = await asyncio.gather(until_seq(one, 50), until_seq(other, 50))
        assert [m.seq for m in first] == [m.seq for m in second] == list(range(1, 51))


async def test_a_closed_pump_ends_its_iteration(backend):
    pump = backend.facts.pump(["cluster.*"])
    seen = []

    async def read():
        async for delivery in pump:
            seen.append(delivery)
            await pump.close()

    async with asyncio.timeout(60):
        await read()
    assert len(seen) == 1


async def test_a_log_that_ends_before_what_was_read_ends_the_reader(backend):
    await backend.facts.append([new("cluster.a")])
    async with reading(backend.facts, ["cluster.*"], start=9) as deliveries:
        with pytest.raises(LogReplaced, match="ends at 1"):
            await until_caught_up(deliveries)


async def test_another_stream_of_the_same_name_ends_the_reader():
    from tests.support.memory_log import MemoryLog

    log = MemoryLog()
    await log.append([new("cluster.a")])
    async with reading(log, ["cluster.*"]) as deliveries:
        await until_caught_up(deliveries)
        log.replace()
        with pytest.raises(LogReplaced):
            await until_seq(deliveries, 2)
