"""A reader knows how many messages lie between it and the end of the log."""

from __future__ import annotations

from collections.abc import AsyncIterator

from services._kit.log.stream_port import Delivery, NewMessage
from tests.log.conftest import Backend


async def _first_with_messages(deliveries: AsyncIterator[Delivery]) -> Delivery:
    async for delivery in deliveries:
        if delivery.messages:
            return delivery
    raise AssertionError("the reading ended")


async def test_a_pump_tells_how_far_behind_it_is(backend: Backend) -> None:
    facts = backend.facts
    await facts.append([NewMessage(f"cluster.m{number}", b"{}") for number in range(10)])
    pump = facts.pump(["cluster.*"], start=1, window=4)
    deliveries = aiter(pump)
    try:
        first = await _first_with_messages(deliveries)
        assert pump.behind == 10 - len(first.messages)
        seen = len(first.messages)
        while seen < 10:
            seen += len((await _first_with_messages(deliveries)).messages)
        assert pump.behind == 0
    finally:
        await pump.close()
        await deliveries.aclose()  # type: ignore[attr-defined]
