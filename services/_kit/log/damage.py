"""Finds damaged messages of a stream, which the server counts but cannot deliver.

To a reader such a message looks like one that was removed. A removed one is on the server's list of deleted sequences
and not in its counts; a damaged one is neither. All headers are read once, and what is missing is compared with that.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct
from nats.aio.msg import Msg

from services._kit.base.log_errors import Ambiguous, LogError
from services._kit.log.ids import Sequence as Ids
from services._kit.log.jetstream_api import (
    ApiAnswer,
    StreamInfo,
    StreamState,
    answer,
    create_consumer,
    passing_consumer,
    positions,
    result,
    subject_counts,
)

if TYPE_CHECKING:
    from services._kit.log.connection import Connection

BATCH: Final = 2000
SILENCE: Final = 5.0
"""Seconds without an answer after which the server is taken to be away."""
_NOTHING_LEFT: Final = frozenset({"404", "408"})

_ids = Ids()


class Damage(Struct, frozen=True, order=True):
    """A message that is on the stream and cannot be read; `subject` is empty where it cannot be determined."""

    seq: int
    subject: str = ""

    def __str__(self) -> str:
        return f"{self.seq} ({self.subject})" if self.subject else str(self.seq)


class _Got(ApiAnswer):
    message: Any = None


class _Seen:
    """What a scan was handed: the holes between sequences, and how many messages of each subject."""

    def __init__(self, start: int) -> None:
        self.next = start
        self.holes: list[tuple[int, int]] = []
        self.subjects: dict[str, int] = {}

    def take(self, seq: int, subject: str) -> None:
        """The next message, in order."""
        if seq > self.next:
            self.holes.append((self.next, seq - 1))
        self.next = seq + 1
        self.subjects[subject] = self.subjects.get(subject, 0) + 1


async def find_damage(connection: Connection, stream: str, timeout: float = 10.0) -> list[Damage]:
    """Every message of a stream that cannot be read, in order; raises LogError when the server does not answer."""
    before = await _state(connection, stream, {}, timeout)
    if before.last_seq == 0:
        return []
    seen = _Seen(max(1, before.first_seq))
    await _scan(connection, stream, before.last_seq, seen, timeout)
    if seen.next <= before.last_seq:
        seen.holes.append((seen.next, before.last_seq))
    if not seen.holes:
        return []
    after = await _state(connection, stream, {"deleted_details": True}, timeout)
    removed = set(after.deleted or ())
    suspects = [
        seq
        for first, last in seen.holes
        for seq in range(max(first, after.first_seq), last + 1)
        if seq not in removed and not await _is_there(connection, stream, seq, timeout)
    ]
    if not suspects:
        return []
    # One that was removed since is no damage.
    removed = set((await _state(connection, stream, {"deleted_details": True}, timeout)).deleted or ())
    lost = [seq for seq in suspects if seq not in removed]
    counts = await subject_counts(connection, stream, ">", timeout)
    # Of these the server counts more messages than it handed out.
    subjects = [subject for subject, count in counts.items() if count > seen.subjects.get(subject, 0)]
    # With several subjects, which of them a message is on is not known from outside.
    only = subjects[0] if len(subjects) == 1 else ""
    return [Damage(seq, only) for seq in lost]


async def _state(connection: Connection, stream: str, query: dict[str, object], timeout: float) -> StreamState:
    return (await result(connection, f"STREAM.INFO.{stream}", query, StreamInfo, timeout)).state


async def _is_there(connection: Connection, stream: str, seq: int, timeout: float) -> bool:
    return (await answer(connection, f"STREAM.MSG.GET.{stream}", {"seq": seq}, _Got, timeout)).message is not None


async def _scan(connection: Connection, stream: str, last: int, seen: _Seen, timeout: float) -> None:
    """Hand over place and subject of every readable message up to a sequence."""
    name = f"scan-{_ids.next()}"
    config = passing_consumer(name, 30.0) | {"deliver_policy": "all", "headers_only": True}
    await create_consumer(connection, stream, config, timeout)
    inbox = connection.inbox()
    news: asyncio.Queue[Msg] = asyncio.Queue()
    subscription = await connection.listen(inbox, news.put_nowait)
    generation = connection.generation
    try:
        # No wait: the server sends what it has at once, and then reports that nothing is left.
        more = msgspec.json.encode({"batch": BATCH, "no_wait": True})
        while seen.next <= last:
            await connection.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}", more, reply=inbox)
            if not await _batch(news, seen):
                return
            if connection.generation != generation:
                raise Ambiguous(f"the connection was lost while stream {stream} was looked through")
    except TimeoutError:
        raise Ambiguous(f"stream {stream} was not handed out any further behind message {seen.next - 1}") from None
    finally:
        await subscription.unsubscribe()
        if connection.is_connected:
            await connection.publish(f"$JS.API.CONSUMER.DELETE.{stream}.{name}", b"")


async def _batch(news: asyncio.Queue[Msg], seen: _Seen) -> bool:
    """Take one batch; whether there may be another."""
    for count in range(BATCH):
        async with asyncio.timeout(SILENCE):
            message = await news.get()
        if not (message.reply or "").startswith("$JS.ACK."):
            status = (message.headers or {}).get("Status", "")
            if status in _NOTHING_LEFT:
                return count > 0
            raise LogError(f"the server ended the reading: {(message.headers or {}).get('Description', status)}")
        seen.take(positions(message.reply)[0], message.subject)
    return True
