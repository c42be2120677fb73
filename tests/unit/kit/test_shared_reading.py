"""Services of one process read a stream once: each gets its own part of it, in order, whatever the others do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing
from itertools import pairwise, product
from typing import Self

import pytest

from schemas.codec import DecodeError
from services._kit.base.log_errors import LogReplaced
from services._kit.log.batch_delay import BatchDelay
from services._kit.log.stream_port import Delivery, Message, NewMessage, match
from services._kit.runtime.shared_consumer import SharedReading, united
from tests.support.memory_log import MemoryLog


class CountedLog(MemoryLog):
    """Keeps what its readers asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Sequence[str]] = []

    def pump(self, filters: Sequence[str], *arguments: object, **more: object):  # type: ignore[no-untyped-def]  # the other's
        self.asked.append(filters)
        return super().pump(filters, *arguments, **more)  # type: ignore[arg-type]  # passed on as they are


class Reading:
    """Readers of one log; each collects in a task of its own."""

    def __init__(self, log: MemoryLog, parties: int) -> None:
        self.log = log
        self.shared = SharedReading({log.name: parties})
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        await self.shared.close()

    async def part(
        self, *filters: str, window: int = 64, patience: BatchDelay | None = None
    ) -> AsyncIterator[Delivery]:
        pump = self.shared.pump(self.log, filters, window, patience)
        return await self._stack.enter_async_context(aclosing(pump.__aiter__()))  # type: ignore[type-var]  # a generator


async def positions(deliveries: AsyncIterator[Delivery], up_to: int) -> list[int]:
    """Positions handed over until one is reached."""
    found: list[int] = []
    async with asyncio.timeout(60):
        while not found or found[-1] < up_to:
            found += [message.seq for message in (await anext(deliveries)).messages]
    return found


async def write(log: MemoryLog, *subjects: str) -> None:
    for subject in subjects:
        await log.append([NewMessage(subject, b"{}")])


async def test_shared_log_knows_that_a_stream_is_replicated() -> None:
    """Only the one that is read finds out, and leases, appends and reads of the others depend on it as well."""
    read, other = CountedLog(), MemoryLog()
    shared = SharedReading({read.name: 2})
    async with (
        aclosing(shared.pump(read, ["cluster.*"], 64, None).__aiter__()) as first,  # type: ignore[type-var]  # a generator
        aclosing(shared.pump(other, ["work.>"], 64, None).__aiter__()) as second,  # type: ignore[type-var]  # a generator
    ):
        read.replicated = True
        await asyncio.gather(anext(first), anext(second))
        assert other.replicated
        read.replicated = False
        await write(read, "work.a.x")
        await anext(second)
        assert not other.replicated
    await shared.close()


async def test_each_reader_gets_its_filters_from_one_read() -> None:
    log = CountedLog()
    await write(log, "cluster.a", "binding.x.y.z", "cluster.a", "work.a.x", "binding.x.y.z")
    async with Reading(log, 2) as reading:
        clusters, both = await reading.part("cluster.*"), await reading.part("binding.>", "cluster.*")
        first, second = await asyncio.gather(positions(clusters, 3), positions(both, 5))
        assert (first, second) == ([3], [3, 5])
        await write(log, "binding.x.y.z", "work.a.x", "cluster.b")
        assert await asyncio.gather(positions(clusters, 8), positions(both, 8)) == [[8], [6, 8]]
    assert [sorted(filters) for filters in log.asked] == [["binding.>", "cluster.*"]]


async def test_every_reader_learns_that_the_end_is_reached() -> None:
    log = MemoryLog()
    await write(log, "cluster.a")
    async with Reading(log, 2) as reading:
        works, clusters = await reading.part("work.>"), await reading.part("cluster.*")
        async with asyncio.timeout(60):
            none, one = await asyncio.gather(anext(works), anext(clusters))
    assert (none.messages, none.caught_up, none.position) == ([], True, 0)
    assert ([message.seq for message in one.messages], one.caught_up) == ([1], True)


async def test_nobody_gets_a_message_before_all_asked() -> None:
    log = MemoryLog()
    await write(log, "cluster.a")
    async with Reading(log, 2) as reading:
        early = asyncio.create_task(anext(await reading.part("cluster.*")))
        await write(log, "cluster.b")
        assert not early.done()
        late = await reading.part("work.>")
        async with asyncio.timeout(60):
            await anext(late)
            assert [message.seq for message in (await early).messages] == [1, 2]


async def test_slow_reader_misses_nothing_and_holds_one_window() -> None:
    log = MemoryLog()
    async with Reading(log, 2) as reading:
        slow, quick = await reading.part("work.>", window=4), await reading.part("work.>", window=4)
        await asyncio.gather(anext(slow), anext(quick))
        await write(log, *(f"work.a.{number}" for number in range(40)))
        found: list[int] = []
        async with asyncio.timeout(60):
            while len(found) < 40:
                # The quick one is stopped where the slow one has no room: it gets on only when that one reads.
                waiting = asyncio.create_task(anext(quick))
                part = await anext(slow)
                assert len(part.messages) <= 8
                found += [message.seq for message in part.messages]
                assert {message.seq for message in (await waiting).messages}
    assert found == list(range(1, 41))


async def test_a_replaced_log_ends_all() -> None:
    log = MemoryLog()
    await write(log, "work.a.x")
    async with Reading(log, 2) as reading:
        one, other = await reading.part("work.>"), await reading.part("cluster.*")
        await asyncio.gather(anext(one), anext(other))
        log.replace()
        for deliveries in (one, other):
            with pytest.raises(LogReplaced):
                async with asyncio.timeout(60):
                    await anext(deliveries)


async def test_event_is_decoded_once_for_all_readers() -> None:
    shared = SharedReading({"FACTS": 2})
    lease = Message("lease.x", 1, 0.0, {}, b'{"type":"LeaseTaken.v1","service":"x","instance":"x-0"}')
    broken = Message("lease.x", 2, 0.0, {}, b"{")
    assert shared.decode(lease, "FACTS") is shared.decode(lease, "FACTS")
    for _ in range(2):
        with pytest.raises(DecodeError):
            shared.decode(broken, "FACTS")


async def test_messages_wait_for_others_until_one_hurries() -> None:
    log = MemoryLog()
    async with Reading(log, 1) as reading:
        part = await reading.part("work.>", "cluster.*", patience=BatchDelay(lambda: 3600.0, ("cluster.",)))
        async with asyncio.timeout(60):
            assert (await anext(part)).caught_up
            await write(log, "work.a.x", "work.a.y")
            waiting = asyncio.create_task(anext(part))
            await write(log, "work.a.z", "cluster.a")
            assert [message.seq for message in (await waiting).messages] == [1, 2, 3, 4]


async def test_patience_ends_by_time_or_half_of_the_window() -> None:
    log = MemoryLog()
    seconds = 0.01
    async with Reading(log, 1) as reading:
        part = await reading.part("work.>", window=8, patience=BatchDelay(lambda: seconds))
        async with asyncio.timeout(60):
            assert (await anext(part)).caught_up
            await write(log, "work.a.x")
            assert await positions(part, 1) == [1]
            seconds = 3600.0
            await write(log, *(f"work.a.{number}" for number in range(4)))
            assert await positions(part, 5) == [2, 3, 4, 5]


PATTERNS = ("a.>", "a.*", "a.b", "a.b.>", "a.*.c", "a.b.*", "b.>", "b.c", "a.*.c.>")
SUBJECTS = [".".join(words) for size in (2, 3, 4) for words in product("abcd", repeat=size)]


@pytest.mark.parametrize("chosen", [(one, two, three) for one, two in pairwise(PATTERNS) for three in PATTERNS])
def test_united_patterns_match_every_subject_once(chosen: tuple[str, ...]) -> None:
    found = united(chosen)
    for subject in SUBJECTS:
        times = sum(match(pattern, subject) for pattern in found)
        assert times <= 1
        assert times == 1 or not any(match(pattern, subject) for pattern in chosen)
    assert {pattern.partition(".")[0] for pattern in found} == {pattern.partition(".")[0] for pattern in chosen}
