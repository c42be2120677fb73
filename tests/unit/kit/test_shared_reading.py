"""Readings of one endpoint are shared by those that wait, and never older than what they are to say something of."""

from __future__ import annotations

import asyncio

import pytest

from services._kit.identity.shared_reading import SharedReading
from services._kit.kube.client import Unreachable


class Endpoint:
    """Answers when the test lets it."""

    def __init__(self) -> None:
        self.begun = 0
        self.answers = asyncio.Event()
        self.problem = ""
        self.readings = SharedReading(self._read)

    async def _read(self) -> None:
        self.begun += 1
        await self.answers.wait()
        if self.problem:
            raise Unreachable(self.problem)


async def test_waiters_share_the_next_reading() -> None:
    endpoint = Endpoint()
    first = asyncio.create_task(endpoint.readings.since())
    await asyncio.sleep(0)
    others = [asyncio.create_task(endpoint.readings.since()) for _ in range(5)]
    await asyncio.sleep(0)
    assert endpoint.begun == 1
    endpoint.answers.set()
    await asyncio.gather(first, *others)
    assert endpoint.begun == 2, "the first reading began before the others asked"


async def test_reading_under_way_says_nothing_of_a_later_moment() -> None:
    endpoint = Endpoint()
    first = asyncio.create_task(endpoint.readings.since())
    await asyncio.sleep(0)
    moment = endpoint.readings.moment()
    endpoint.answers.set()
    await first
    await endpoint.readings.since(moment)
    assert endpoint.begun == 2
    await endpoint.readings.since(moment)
    assert endpoint.begun == 2


async def test_failed_reading_is_told_and_repeated() -> None:
    endpoint = Endpoint()
    endpoint.answers.set()
    endpoint.problem = "no answer"
    moment = endpoint.readings.moment()
    for count in (1, 2):
        with pytest.raises(Unreachable, match="no answer"):
            await endpoint.readings.since(moment)
        assert endpoint.begun == count
    endpoint.problem = ""
    await endpoint.readings.since(moment)
    assert endpoint.begun == 3
