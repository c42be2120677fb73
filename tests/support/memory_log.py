"""The log in memory, for unit tests of services: same sequences, fences, atomic batches, limits and pumps."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Sequence

from schemas.codec import Known, encode, subject_of
from schemas.envelope import HEADER_EVENT_ID
from schemas.topology import FACTS, Stream
from services._kit.base.clock import Clock, SystemClock
from services._kit.base.log_errors import Conflict, Duplicate, FenceLost, LogError, LogReplaced, Refused, StreamFull
from services._kit.concurrency.tasks import first_of
from services._kit.log.batch_delay import BatchDelay
from services._kit.log.ids import random_id
from services._kit.log.stream_port import (
    APART,
    Appended,
    Delivery,
    Fence,
    Log,
    LogIdentity,
    Message,
    NewMessage,
    check_batch,
    match,
)


async def one_by_one(log: Log, messages: Sequence[NewMessage], fence: Fence | None) -> list[Appended | LogError]:
    """Append messages one after the other; what became of each, whatever became of those before it."""
    results: list[Appended | LogError] = []
    for message in messages:
        try:
            results.append(await log.append([message], fence))
        except LogError as error:
            results.append(error)
    return results


class MemoryLog:
    """One stream of a topology, kept in this process."""

    replicated = False
    apart = APART

    def __init__(self, stream: Stream = FACTS, clock: Clock | None = None) -> None:
        self._stream = stream
        self._clock = clock or SystemClock()
        self._grown = asyncio.Event()
        self._clear()

    async def given(self, *events: Known) -> None:
        """Append facts."""
        for event in events:
            await self.append([NewMessage(subject_of(event), encode(event), {})])

    def _clear(self) -> None:
        self._id = random_id()
        self._messages: dict[int, Message] = {}
        self._subjects: dict[str, deque[int]] = defaultdict(deque)
        self._ids: dict[str, tuple[float, int]] = {}
        self._bytes = 0
        self._last = 0

    @property
    def name(self) -> str:
        """Name of the stream."""
        return self._stream.name

    async def append(self, messages: Sequence[NewMessage], fence: Fence | None = None) -> Appended:
        """Store all messages or none; see `Log.append`."""
        check_batch(messages, fence)
        await asyncio.sleep(0)
        if fence is not None:
            self._expect(fence.subject, fence.seq, FenceLost)
        for message in messages:
            if not any(match(pattern, message.subject) for pattern in self._stream.subjects):
                raise Refused(0, f"{message.subject} does not belong to stream {self.name}")
            if message.expect_last is not None:
                self._expect(message.subject, message.expect_last, Conflict)
        event_id = messages[0].headers.get(HEADER_EVENT_ID)
        now = self._clock.now()
        if event_id:
            stored, seq = self._ids.get(event_id, (0.0, 0))
            if seq and now - stored < self._stream.duplicate_window:
                if len(messages) == 1:
                    return Appended(seq, seq)
                raise Duplicate(10201, f"message id {event_id} is stored already")
        size = sum(len(message.data) for message in messages)
        if self._stream.discard == "new" and 0 <= self._stream.max_bytes < self._bytes + size:
            raise StreamFull(10077, "maximum bytes exceeded")
        first = self._last + 1
        if event_id:
            self._ids[event_id] = (now, first)
        for message in messages:
            self._store(message, now)
        self._tell()
        return Appended(first, self._last)

    async def append_each(
        self, messages: Sequence[NewMessage], fence: Fence | None = None
    ) -> list[Appended | LogError]:
        """Store every message on its own; see `Log.append_each`."""
        return await one_by_one(self, messages, fence)

    async def last(self, subject: str) -> Message | None:
        """The last message of a subject."""
        held = self._subjects.get(subject)
        return self._messages[held[-1]] if held else None

    async def peek(self, subject: str) -> Message | None:
        """The last message of a subject."""
        return await self.last(subject)

    async def get(self, seq: int) -> Message | None:
        """The message at a sequence."""
        return self._messages.get(seq)

    async def last_many(self, subjects: Sequence[str]) -> list[Message]:
        """Last messages of many subjects, in log order."""
        return self.last_of(subjects)

    async def identity(self) -> LogIdentity:
        """Which stream this is; another one after `replace`."""
        return LogIdentity(self._id, self._last)

    def pump(
        self, filters: Sequence[str], start: int | None = None, window: int = 4096, patience: BatchDelay | None = None
    ) -> MemoryPump:
        """A reader of the subjects that match; see `Log.pump`. It never waits for more: waking it costs nothing."""
        del patience
        return MemoryPump(self, filters, start, window)

    async def read(self, filters: Sequence[str], start: int = 1, stop: int | None = None) -> AsyncIterator[Message]:
        """Every stored message that matches, from `start` up to `stop`."""
        end = self._last if stop is None else stop
        for seq in [seq for seq in self._messages if start <= seq <= end]:
            message = self._messages.get(seq)
            if message is not None and any(match(pattern, message.subject) for pattern in filters):
                yield message

    async def purge(self, pattern: str, up_to: int) -> int:
        """Remove what a subject or pattern holds up to and including a position; how many messages that were."""
        gone = [seq for seq, held in self._messages.items() if seq <= up_to and match(pattern, held.subject)]
        for seq in gone:
            message = self._messages.pop(seq)
            self._subjects[message.subject].remove(seq)
            self._bytes -= len(message.data)
        return len(gone)

    async def counts(self, pattern: str) -> dict[str, int]:
        """How many messages each subject that matches holds."""
        return {subject: len(held) for subject, held in self._subjects.items() if held and match(pattern, subject)}

    def replace(self) -> None:
        """Become another, empty stream of the same name, as if an operator had recreated it."""
        self._clear()
        self._tell()

    def since(self, position: int, filters: Sequence[str], limit: int) -> list[Message]:
        """Messages behind a position that match, at most `limit`."""
        found: list[Message] = []
        for seq in range(position + 1, self._last + 1):
            message = self._messages.get(seq)
            if message is not None and any(match(pattern, message.subject) for pattern in filters):
                found.append(message)
                if len(found) == limit:
                    break
        return found

    async def grown(self, position: int) -> None:
        """Return once the stream is longer than `position` (or was replaced)."""
        while self._last == position:
            event = self._grown
            await event.wait()

    @property
    def last_seq(self) -> int:
        """Sequence of the last message ever stored."""
        return self._last

    def last_of(self, filters: Sequence[str]) -> list[Message]:
        """Last messages of all subjects that match, in log order."""
        seqs = [
            held[-1]
            for subject, held in self._subjects.items()
            if held and any(match(pattern, subject) for pattern in filters)
        ]
        return [self._messages[seq] for seq in sorted(seqs)]

    def _tell(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()

    def _expect(self, subject: str, seq: int, error: type[Conflict]) -> None:
        held = self._subjects.get(subject)
        last = held[-1] if held else 0
        if last != seq:
            raise error(10071, f"wrong last sequence: {last}")

    def _store(self, message: NewMessage, now: float) -> None:
        self._last += 1
        stored = Message(message.subject, self._last, now, dict(message.headers), message.data)
        self._messages[self._last] = stored
        self._bytes += len(message.data)
        held = self._subjects[message.subject]
        held.append(self._last)
        if 0 <= self._stream.max_per_subject < len(held):
            self._bytes -= len(self._messages.pop(held.popleft()).data)


class MemoryPump:
    """An endless reader of a MemoryLog."""

    def __init__(self, log: MemoryLog, filters: Sequence[str], start: int | None, window: int) -> None:
        self._log = log
        self._filters = tuple(filters)
        self._start = start
        self._window = window
        self._scanned = 0
        self._closed = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[Delivery]:
        """Deliveries in log order; raises LogReplaced when the stream is another one."""
        identity = await self._log.identity()
        scanned = self._scanned = identity.last_seq
        if self._start is None:
            messages = self._log.last_of(self._filters)
            position = messages[-1].seq if messages else 0
            for index in range(0, len(messages), self._window):
                part = messages[index : index + self._window]
                yield Delivery(part, part[-1] is messages[-1], part[-1].seq)
            if not messages:
                yield Delivery([], True, 0)
        else:
            position = scanned = self._scanned = self._start - 1
            if identity.last_seq < position:
                raise LogReplaced(f"stream {self._log.name} ends at {identity.last_seq}, {position} was read before")
            yield Delivery([], self._log.last_seq <= scanned, position)
        while not self._closed.is_set():
            present = await self._log.identity()
            if present.id != identity.id:
                raise LogReplaced(f"stream {self._log.name} was created again")
            found = self._log.since(scanned, self._filters, self._window)
            scanned = self._scanned = found[-1].seq if len(found) == self._window else self._log.last_seq
            if found:
                position = found[-1].seq
                yield Delivery(found, scanned == self._log.last_seq, position)
                continue
            await self._wait(scanned)

    async def close(self) -> None:
        """Stop reading; the iteration ends."""
        self._closed.set()

    @property
    def behind(self) -> int:
        """Messages between the last one handed over and the end of the log."""
        return len(self._log.since(self._scanned, self._filters, self._log.last_seq + 1))

    async def _wait(self, scanned: int) -> None:
        await first_of(self._log.grown(scanned), self._closed.wait())
