"""Reads the subjects of a stream that a service needs: last message per subject first, then the tail, without gaps.

A pull consumer (no acknowledgements, kept in the server's memory) feeds one inbox. Requests are sized so that no more
than a window of messages is on the way or waiting: a slow reader slows the server down and nothing is dropped. The
consumer's own numbering is checked for gaps. After a gap, missed heartbeats or a reconnect a new consumer starts behind
the last message handed over. Before that the stream's identity is compared with the one first seen, and that message
with what the stream holds in its place: a server whose disk failed may have lost it and taken another one.

The consumer lives on one of the servers that keep the stream, and that one may be behind the others or cut off from
them: only the stream's leader knows where the log ends. It is asked before the end is said to be reached, and now and
then while nothing arrives.

A message whose bytes are damaged on the server's disk is skipped by the server or stops it, and stays pending for ever.
So messages that are pending and do not come have a deadline: then the stream is looked through, and the reading ends
with what is unreadable, or goes on with a new consumer where nothing is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from nats.aio.msg import Msg

from services._kit.base.log_errors import LogError, LogReplaced, Unreadable
from services._kit.concurrency.supervision import supervise
from services._kit.log.batch_delay import BatchDelay, DeliveryGate
from services._kit.log.continuity import Continuity
from services._kit.log.ids import Sequence as Ids
from services._kit.log.jetstream_api import (
    NANOSECOND,
    NOTHING,
    create_consumer,
    ended,
    passing_consumer,
    positions,
    request,
)
from services._kit.log.stream_port import Delivery, LogIdentity, Message

if TYPE_CHECKING:
    from services._kit.log.jetstream import JetStreamLog

HEARTBEAT: Final = 0.5
STALLED: Final = 6  # ticks in which nothing comes though something is pending, after which the stream is examined
SILENCES: Final = 3  # consumers in a row that fell silent without a message, likewise
MISSED: Final = 4  # ticks of one heartbeat each without a sign of life
EXPIRES: Final = 30.0
INACTIVE: Final = 300.0
PULL_BYTES: Final = 8 << 20
RETRY: Final = 0.2
LONGEST_RETRY: Final = 2.0
ASKED_AGAIN: Final = 10  # ticks without a message after which the leader is asked for a sign of life

_ids = Ids()


class PumpStats(Struct):
    """Counters for metrics and tests: consumers made, gaps seen, messages handed over, examinations."""

    consumers: int = 0
    gaps: int = 0
    silences: int = 0
    stalls: int = 0
    messages: int = 0
    identity: LogIdentity | None = None


class JetStreamPump:
    """An endless reader of one stream; iterate over it once."""

    def __init__(
        self,
        log: JetStreamLog,
        filters: Sequence[str],
        start: int | None,
        window: int,
        patience: BatchDelay | None = None,
    ) -> None:
        self.stats = PumpStats()
        self._log = log
        self._filters = tuple(dict.fromkeys(filters))
        self._start = start
        self._window = max(2, window)
        self._position = start - 1 if start else 0
        self._continuity = Continuity(log)
        self._resumed = start is not None
        self._buffer: deque[Message] = deque()
        self._door = DeliveryGate(patience, self._window // 2)
        self._closed = False
        self._restart = True
        self._caught_up = False
        self._told_caught_up = False
        self._subscription: Any = None
        self._consumer = ""
        self._inbox = ""
        self._expected = 1  # next consumer sequence
        self._target = 0  # the stream's end when the consumer was made
        self._received = self._position  # last stream sequence put into the buffer
        self._on_way = 0  # requested and not yet received
        self._pending = 0  # not yet received, asked for or not
        self._quiet = 0
        self._still = 0  # ticks since the last message or the leader's last answer
        self._subjects = 0  # that match, as the server counted them before the consumer was made
        self._promised = 0  # pending when the consumer was made
        self._stalled = STALLED
        self._fruitless = 0  # consumers in a row that fell silent before they brought a message
        self._doubtful = False  # at the end as it was at first, with something pending behind it
        self._skipped: list[int] = []
        self._began = self._position  # what the consumer was made behind
        self._damage: Unreadable | None = None
        self._wanted = 0  # last message that matches, as the leader knows

    async def __aiter__(self) -> AsyncIterator[Delivery]:
        """Deliveries in log order; raises LogReplaced when the stream is another one, Unreadable for damaged ones."""
        connection = self._log.connection
        lost = self._lose
        connection.on_lost(lost)
        ticker = supervise("pump-ticker", self._tick)
        try:
            while not self._closed:
                if self._damage is not None:
                    raise self._damage
                if self._restart:
                    await self._begin()
                if self._doubtful:
                    await self._judge_end()
                    continue
                if self._told_caught_up == self._caught_up and not (self._buffer and self._door.is_open):
                    if not self._buffer:
                        self._door.close()
                    await self._ask()
                    await self._door.wait()
                    continue
                # What arrived before a restart became due is contiguous and may still be handed over.
                delivery = self._hand_over()
                await self._ask()
                yield delivery
                # It may be long until the next one, and thousands of messages may be in it.
                del delivery
        finally:
            ticker.cancel()
            connection.forget(lost)
            await self._drop()

    def _hand_over(self) -> Delivery:
        messages = list(self._buffer)
        self._buffer.clear()
        self._door.close()
        if messages:
            last = messages[-1]
            self._position = last.seq
            self._continuity.read(last)
            self.stats.messages += len(messages)
        self._told_caught_up = self._caught_up
        return Delivery(messages, self._caught_up, self._position)

    async def close(self) -> None:
        """Stop reading; the iteration ends."""
        self._closed = True
        self._door.open()

    @property
    def behind(self) -> int:
        """Messages between the last one handed over and the end of the log, as the server last reported."""
        return self._pending + len(self._buffer)

    def _lose(self) -> None:
        self._restart = True
        self._doubtful = False
        self._caught_up = False
        self._door.open()

    async def _tick(self) -> None:
        """Count heartbeats that did not come; ticks instead of a clock, so that a busy process blames itself."""
        while True:
            await asyncio.sleep(HEARTBEAT)
            if self._restart or not self._on_way:
                self._quiet = self._still = 0
                continue
            self._quiet += 1
            self._still += 1
            if self._quiet > MISSED:
                self.stats.silences += 1
                self._fruitless += 1
                if self._fruitless >= SILENCES and self._pending:
                    await self._examine()
                self._lose()
            elif self._pending and self._still >= self._stalled:
                await self._examine()
                self._lose()
            elif self._pending == 0 and (not self._caught_up or self._still >= ASKED_AGAIN):
                await self._look_again()

    async def _examine(self) -> None:
        """Find out whether what does not come cannot be read; the reading ends then."""
        self.stats.stalls += 1
        # A server that is merely slow is given more time from now on: an examination costs it even more.
        self._stalled *= 2
        self._fruitless = 0
        try:
            damage = await self._log.damage()
        except LogError:
            return
        if damage and self._log.skips_damaged:
            self._skipped = [found.seq for found in damage]
        elif damage:
            self._damage = Unreadable(self._log.name, damage)

    def _left_out(self, position: int) -> int:
        """How many messages behind a position cannot be read and are left out."""
        return sum(seq > position for seq in self._skipped) if self._skipped else 0

    def _passed_over(self) -> int:
        """How many messages that cannot be read were passed: the server goes on counting them as pending."""
        return sum(self._began < seq <= self._received for seq in self._skipped)

    async def _judge_end(self) -> None:
        """Distinguish pending messages that were stored a moment ago from damaged ones, which have no position."""
        self._doubtful = False
        received, pending = self._received, self._pending
        try:
            last = (await self._log.identity()).last_seq
        except LogReplaced:
            self._lose()
            return
        except LogError:
            self._doubtful = not self._restart
            await asyncio.sleep(RETRY)
            return
        if pending - self._passed_over() > last - received:
            await self._examine()
            self._lose()
        elif not self._restart:
            self._caught_up = True

    async def _look_again(self) -> None:
        """Ask the leader where the log ends; its silence is the connection's to notice."""
        self._still = 0
        try:
            await self._look()
        except LogReplaced:
            self._lose()
        except LogError:
            return
        if not self._caught_up and not self._restart and self._received >= self._wanted:
            self._caught_up = True
            self._door.open()

    async def _begin(self) -> None:
        """Make a consumer behind the last message handed over; retries until the log answers."""
        pause = RETRY
        while not self._closed:
            await self._log.connection.wait_connected()
            self._restart = False
            try:
                await self._drop()
                await self._look()
                await self._continuity.compare()
                await self._create()
                await self._count()
                await self._ask()
            except LogReplaced:
                raise
            except LogError:
                self._restart = True
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, LONGEST_RETRY)
                continue
            if not self._restart:
                return

    async def _look(self) -> None:
        """Ask the leader whether this is the log that was read before, and where it ends; raises LogReplaced."""
        self._target = await self._continuity.look(self._position)
        self.stats.identity = self._continuity.identity
        if self._log.replicated and self._received < self._target:
            self._wanted = await self._log.last_of(self._filters)
        else:
            self._wanted = 0

    async def _create(self) -> None:
        self._buffer.clear()
        self._expected = 1
        self._began = self._received = self._position
        self._on_way = 0
        self._quiet = 0
        self._consumer = f"pump-{_ids.next()}"
        self._inbox = self._log.connection.inbox()
        self._subscription = await self._log.connection.listen(self._inbox, self._receiver(self._inbox))
        config = passing_consumer(self._consumer, INACTIVE) | {"max_waiting": 64}
        if len(self._filters) == 1:
            config["filter_subject"] = self._filters[0]
        else:
            config["filter_subjects"] = list(self._filters)
        if self._resumed or self._position:
            config["deliver_policy"] = "by_start_sequence"
            config["opt_start_seq"] = self._position + 1
        else:
            config["deliver_policy"] = "last_per_subject"
            self._subjects = await self._log.subjects(self._filters)
        timeout = max(10.0, self._log.timeout)
        self._promised = await create_consumer(self._log.connection, self._log.name, config, timeout)
        self.stats.consumers += 1
        self._pending = max(0, self._promised - self._left_out(self._position))
        self._caught_up = self._pending == 0 and self._position >= self._wanted

    async def _count(self) -> None:
        """Check whether the consumer will deliver the last message of every subject: it leaves out damaged ones."""
        if self._resumed or self._position:
            return
        # A subject that began since is no reason for doubt; one that ended is, for a moment.
        if self._promised < self._subjects:
            await self._examine()

    def _receiver(self, inbox: str) -> Callable[[Msg], None]:
        def receive(message: Msg) -> None:
            if inbox == self._inbox and not self._restart:
                self._take(message)

        return receive

    def _take(self, message: Msg) -> None:
        self._quiet = 0
        reply = message.reply
        if not reply or not reply.startswith("$JS.ACK."):
            self._status(message)
            return
        seq, number, stored, pending = positions(reply)
        self._on_way -= 1
        if number != self._expected or seq <= self._received:
            self.stats.gaps += 1
            self._lose()
            return
        self._expected += 1
        self._received = seq
        pending = self._pending = max(0, pending - self._left_out(seq))
        self._still = self._fruitless = 0
        self._buffer.append(Message(message.subject, seq, stored / NANOSECOND, message.headers or {}, message.data))
        if not self._caught_up and seq >= self._wanted:
            if pending == 0:
                self._caught_up = True
            elif seq >= self._target:
                # Stored since, or pending for ever.
                self._doubtful = True
                self._door.open()
        if self._caught_up == self._told_caught_up:
            self._door.knock(message.subject, len(self._buffer))
        else:
            self._door.open()

    def _status(self, message: Msg) -> None:
        """A status instead of a message: a heartbeat, the end of a request, or the end of the consumer."""
        headers = message.headers or {}
        if headers.get("Status") == NOTHING:
            return
        end = ended(headers)
        if end.why:
            self._lose()
            return
        self._on_way = end.on_way(self._on_way)
        self._door.open()

    async def _ask(self) -> None:
        """Request more once half of the window is free."""
        room = self._window - self._on_way - len(self._buffer)
        if room < self._window // 2 or not self._consumer or self._restart:
            return
        self._on_way += room
        call = f"$JS.API.CONSUMER.MSG.NEXT.{self._log.name}.{self._consumer}"
        try:
            more = request(room, PULL_BYTES, EXPIRES, HEARTBEAT)
            await self._log.connection.publish(call, more, reply=self._inbox)
        except LogError:
            self._lose()

    async def _drop(self) -> None:
        """Delete the consumer; if the request fails, the server expires it."""
        subscription, consumer = self._subscription, self._consumer
        self._subscription, self._consumer, self._inbox = None, "", ""
        connection = self._log.connection
        if subscription is not None and not connection.nc.is_closed:
            await subscription.unsubscribe()
        if consumer and connection.is_connected:
            with suppress(LogError):
                await connection.publish(f"$JS.API.CONSUMER.DELETE.{self._log.name}.{consumer}", b"")
