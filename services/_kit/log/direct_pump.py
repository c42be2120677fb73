"""Reads a stream by direct requests, without a consumer: for identities that may only read.

Messages come from any replica, in log order. What is published meanwhile rings a bell; a server that is behind, or a
pattern that cannot be heard, is asked again after a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from services._kit.log.stream_port import Delivery, Message

if TYPE_CHECKING:
    from services._kit.log.jetstream import JetStreamLog

MOST: Final = 256
"""Messages of one request."""
ASKED_AGAIN: Final = 1.0


class DirectPump:
    """An endless reader of one stream; iterate over it once."""

    def __init__(self, log: JetStreamLog, filters: Sequence[str], start: int | None) -> None:
        self._log = log
        self._filters = tuple(dict.fromkeys(filters))
        self._start = start
        self._position = start - 1 if start else 0
        self._bell = asyncio.Event()
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[Delivery]:
        """Deliveries in log order."""
        connection, told = self._log.connection, False
        heard = [pattern for pattern in self._filters if pattern[:1] not in ">*"]
        subscriptions = [await connection.listen(pattern, lambda _: self._bell.set()) for pattern in heard]
        try:
            if self._start is None:
                end = (await self._log.identity()).last_seq
                present = [one for one in await self._log.last_many(self._filters) if one.seq <= end]
                self._position, told = end, True
                yield Delivery(present, True, self._position)
            while not self._closed:
                self._bell.clear()
                messages, more = await self._next()
                if messages or not (more or told):
                    self._position = messages[-1].seq if messages else self._position
                    told = not more
                    yield Delivery(messages, not more, self._position)
                if not more:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(ASKED_AGAIN):
                            await self._bell.wait()
        finally:
            for subscription in subscriptions:
                await subscription.unsubscribe()

    async def _next(self) -> tuple[list[Message], bool]:
        """What follows, as far as every pattern was read; and whether there is more."""
        found: dict[int, Message] = {}
        horizon = 0
        for pattern in self._filters:
            messages, more = await self._log.following(pattern, self._position + 1, MOST)
            found |= {message.seq: message for message in messages}
            if more:
                horizon = min(horizon or messages[-1].seq, messages[-1].seq)
        return [found[seq] for seq in sorted(found) if not horizon or seq <= horizon], bool(horizon)

    async def close(self) -> None:
        """Stop reading; the iteration ends."""
        self._closed = True
        self._bell.set()

    @property
    def behind(self) -> int:
        """Messages between the last one handed over and the end of the log; not known here."""
        return 0
