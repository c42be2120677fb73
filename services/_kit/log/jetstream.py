"""A stream of the log on JetStream: appends, coherent reads from the leader, cheap reads from any replica."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct
from nats.aio.msg import Msg

from schemas.subjects import SETTLED
from schemas.topology import BLOBS
from services._kit.base.log_errors import (
    DUPLICATE,
    IN_PROCESS,
    Ambiguous,
    FenceLost,
    LogError,
    LogReplaced,
    Refused,
    Unavailable,
    from_api,
)
from services._kit.base.log_errors import Conflict as ConflictError
from services._kit.log.atomic_batch import (
    EXPECTED_SEQ,
    EXPECTED_STREAM,
    parse_ack,
    publish_batch,
    publish_each,
)
from services._kit.log.batch_delay import BatchDelay
from services._kit.log.connection import Connection
from services._kit.log.damage import Damage, find_damage
from services._kit.log.direct_pump import DirectPump
from services._kit.log.jetstream_api import (
    NO_MESSAGE,
    NO_STREAM,
    ApiAnswer,
    StreamInfo,
    answer,
    result,
    subject_counts,
)
from services._kit.log.pump import JetStreamPump
from services._kit.log.stream_port import APART, Appended, Fence, LogIdentity, Message, NewMessage, Pump

HANDOVER = 2.0
"""Seconds until an answer of several servers counts as lost: another one leads long before, unless all are electing."""
IDENTITY_KEY = "fleetlog-id"
MULTI = 500
NEVER = str(2**62)
"""A sequence that no message has."""
_ASKED = {BLOBS.name: SETTLED}
"""Subjects for messages that are to be refused, of streams that services read without the right to write there."""


class _Purged(ApiAnswer):
    purged: int = 0


class _Stored(Struct):
    subject: str = ""
    seq: int = 0
    hdrs: str = ""
    data: str = ""
    time: str = ""


class _Got(ApiAnswer):
    message: _Stored | None = None


def parse_time(text: str) -> float:
    """Seconds since 1970 of JetStream's RFC 3339 times (nanoseconds are cut to microseconds)."""
    head, dot, rest = text.partition(".")
    if dot:
        digits = rest.rstrip("Z")
        zone = ""
        for sign in "+-":
            if sign in digits:
                digits, zone = digits.split(sign)[0], sign + digits.split(sign)[1]
        text = f"{head}.{digits[:6]}{zone or 'Z'}"
    return datetime.fromisoformat(text).timestamp()


def parse_headers(block: bytes) -> dict[str, str]:
    """Headers of a stored message from their wire form."""
    headers: dict[str, str] = {}
    for line in block.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            headers[name.decode()] = value.strip().decode()
    return headers


class JetStreamLog:
    """One stream behind a connection; `timeout` bounds every request, in seconds."""

    def __init__(self, connection: Connection, stream: str, timeout: float = 5.0) -> None:
        self.connection = connection
        self.timeout = timeout
        self._name = stream
        self.replicated = False
        """Whether several servers keep the stream, as far as is known."""
        self.skips_damaged = False
        """Whether readers skip unreadable messages, as a search for them does; else they end with Unreadable."""
        self._in_turn: asyncio.Lock | None = None

    @property
    def name(self) -> str:
        """Name of the stream."""
        return self._name

    async def append(self, messages: Sequence[NewMessage], fence: Fence | None = None) -> Appended:
        """Store all messages or none; see `Log.append`.

        A stream that several servers keep refuses a fenced batch while another one with the same fence is under way:
        after the first such refusal they are sent one after the other.
        """
        if fence is None:
            return await publish_batch(self.connection, self._name, messages, None, self._patience)
        if self._in_turn is None:
            return await self._append_fenced(messages, fence)
        async with self._in_turn:
            return await self._append_fenced(messages, fence)

    async def _append_fenced(self, messages: Sequence[NewMessage], fence: Fence) -> Appended:
        try:
            return await publish_batch(self.connection, self._name, messages, fence, self._patience)
        except ConflictError as error:
            raise await self._judged(error, messages, fence) from None

    async def _judged(self, error: ConflictError, messages: Sequence[NewMessage], fence: Fence) -> LogError:
        """What a conflict of fenced messages means: the lease was taken, an expectation failed, or it will pass."""
        if error.err_code == DUPLICATE:
            return error
        try:
            current = await self.last(fence.subject)
        except Refused as refused:
            return refused
        except LogError as problem:
            # A refused batch is not stored; the next attempt finds the reason.
            return Unavailable(f"{error.description}; why is not known yet: {problem}")
        seq = current.seq if current else 0
        if seq > fence.seq or (seq < fence.seq and not self.replicated):
            return FenceLost(error.err_code, error.description)
        if seq < fence.seq:
            # A lease is never taken back: this server has not heard yet that others lead the stream.
            return Unavailable(f"the server of the log is behind: {error.description}")
        if any(message.expect_last is not None for message in messages):
            return error
        if error.err_code == IN_PROCESS and self._in_turn is None:
            self._in_turn = asyncio.Lock()
        return Unavailable(f"another batch is being stored: {error.description}")

    @property
    def _patience(self) -> float:
        """Seconds until what was sent is asked for; a server that leaves leaves unanswered what it took last."""
        return min(self.timeout, HANDOVER) if self.replicated else self.timeout

    @property
    def apart(self) -> int:
        """Up to how many messages cost less one by one than as a batch; 0: none."""
        # Every message among several servers waits for their agreement, and expects the same fence as the one before.
        return 0 if self.replicated else APART

    async def append_each(
        self, messages: Sequence[NewMessage], fence: Fence | None = None
    ) -> list[Appended | LogError]:
        """Store every message on its own; see `Log.append_each`."""
        results = await publish_each(self.connection, self._name, messages, fence, self._patience)
        if fence is None:
            return results
        return [
            await self._judged(result, [message], fence) if isinstance(result, ConflictError) else result
            for message, result in zip(messages, results, strict=True)
        ]

    async def last(self, subject: str) -> Message | None:
        """The last message of a subject as the stream's leader has it."""
        if self.replicated and not self.connection.observes:
            await self._settled(subject)
        return await self._message({"last_by_subj": subject})

    async def _settled(self, subject: str) -> None:
        """Return once the leader has applied what was stored before it was elected.

        One that is elected answers reads before that, but takes messages only afterwards: it is sent one that it has to
        refuse.
        """
        headers = {EXPECTED_STREAM: self._name, EXPECTED_SEQ: NEVER}
        try:
            parse_ack(await self.connection.request(_ASKED.get(self._name, subject), b"", headers, self._patience))
        except ConflictError:
            return

    async def get(self, seq: int) -> Message | None:
        """The message at a sequence."""
        return await self._message({"seq": seq})

    async def peek(self, subject: str) -> Message | None:
        """The last message of a subject from any replica."""
        found = await self.connection.request(
            f"{self.connection.api}.DIRECT.GET.{self._name}.{subject}", timeout=self.timeout
        )
        if found.headers and found.headers.get("Status") == "404":
            return None
        return _direct(found)

    async def last_many(self, subjects: Sequence[str]) -> list[Message]:
        """Last messages of many subjects, in log order."""
        found: list[Message] = []
        for start in range(0, len(subjects), MULTI):
            query = {"multi_last": list(subjects[start : start + MULTI])}
            found += (await self._direct_many(query, f"{len(subjects)} subjects"))[0]
        found.sort(key=lambda message: message.seq)
        return found

    async def identity(self) -> LogIdentity:
        """Which stream this is; raises LogReplaced when it does not exist any more."""
        info = await answer(self.connection, f"STREAM.INFO.{self._name}", {}, StreamInfo, self.timeout)
        if info.error is not None:
            if info.error.err_code == NO_STREAM:
                raise LogReplaced(f"stream {self._name} does not exist any more")
            raise info.error.translated()
        self.replicated = info.config.num_replicas > 1
        # A stream made by other means has no id of ours; its time of creation then identifies it.
        return LogIdentity(info.config.metadata.get(IDENTITY_KEY) or info.created, info.state.last_seq)

    async def last_of(self, filters: Sequence[str]) -> int:
        """Sequence of the last message that matches any of these filters, as the leader has it; 0 for none."""
        found = await asyncio.gather(*(self._message({"last_by_subj": pattern}) for pattern in filters))
        return max((message.seq for message in found if message is not None), default=0)

    def pump(
        self, filters: Sequence[str], start: int | None = None, window: int = 4096, patience: BatchDelay | None = None
    ) -> Pump:
        """A reader of the subjects that match; see `Log.pump`."""
        if self.connection.observes:
            return DirectPump(self, filters, start)
        return JetStreamPump(self, filters, start, window, patience)

    async def read(self, filters: Sequence[str], start: int = 1, stop: int | None = None) -> AsyncIterator[Message]:
        """Every stored message that matches, from `start` up to `stop`."""
        if stop is None:
            stop = (await self.identity()).last_seq
        pump = self.pump(filters, start)
        try:
            async for delivery in pump:
                for message in delivery.messages:
                    if message.seq > stop:
                        return
                    yield message
                if delivery.caught_up:
                    return
        finally:
            await pump.close()

    async def subjects(self, filters: Sequence[str]) -> int:
        """How many subjects that match any of these filters (no two the same) hold messages, as the server counts."""
        return sum(await asyncio.gather(*(self._subjects(pattern) for pattern in filters)))

    async def _subjects(self, pattern: str) -> int:
        # An offset behind the last subject: the total comes with an empty page.
        query = {"subjects_filter": pattern, "offset": 1 << 30}
        return (await result(self.connection, f"STREAM.INFO.{self._name}", query, StreamInfo, self.timeout)).total

    async def damage(self) -> list[Damage]:
        """Messages that are on the stream and cannot be read; reads all headers."""
        return await find_damage(self.connection, self._name)

    async def purge(self, pattern: str, up_to: int) -> int:
        """Remove what a subject or pattern holds up to and including a position; how many messages that were."""
        # The server keeps the sequence it is given.
        query = {"filter": pattern, "seq": up_to + 1}
        return (await result(self.connection, f"STREAM.PURGE.{self._name}", query, _Purged, self.timeout)).purged

    async def counts(self, pattern: str) -> dict[str, int]:
        """How many messages each subject that matches holds; asked page by page."""
        return await subject_counts(self.connection, self._name, pattern, self.timeout)

    async def _message(self, query: Mapping[str, object]) -> Message | None:
        got = await answer(self.connection, f"STREAM.MSG.GET.{self._name}", query, _Got, self._patience)
        if got.error is not None:
            if got.error.err_code == NO_MESSAGE:
                return None
            raise got.error.translated()
        stored = got.message
        if stored is None:
            raise Refused(0, "the answer holds no message")
        headers = parse_headers(b64decode(stored.hdrs)) if stored.hdrs else {}
        return Message(stored.subject, stored.seq, parse_time(stored.time), headers, b64decode(stored.data))

    async def following(self, pattern: str, start: int, most: int) -> tuple[list[Message], bool]:
        """Up to so many messages that match, from a sequence on, from any replica; and whether more follow them."""
        query = {"seq": start, "next_by_subj": pattern, "batch": most}
        found, pending = await self._direct_many(query, f"{pattern} from {start}")
        return found, pending > 0

    async def _direct_many(self, query: Mapping[str, object], what: str) -> tuple[list[Message], int]:
        """One request, many answers, then a status that ends them and says how many were left."""
        found: list[Message] = []
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def take(answer: Msg) -> None:
            status = answer.headers.get("Status") if answer.headers else None
            if done.done():
                return
            if status is None:
                found.append(_direct(answer))
            elif status in ("204", "404"):
                done.set_result(int((answer.headers or {}).get("Nats-Num-Pending", "0")))
            else:
                text = answer.headers.get("Description", "") if answer.headers else ""
                done.set_exception(from_api(int(status), 0, text))

        inbox = self.connection.inbox()
        subscription = await self.connection.subscribe(inbox, take)
        try:
            body = msgspec.json.encode(query)
            await self.connection.publish(f"{self.connection.api}.DIRECT.GET.{self._name}", body, reply=inbox)
            async with asyncio.timeout(self.timeout):
                pending = await done
        except TimeoutError:
            raise Ambiguous(f"no answer to a read of {what} in {self.timeout:g} s") from None
        finally:
            await subscription.unsubscribe()
        return found, pending


def _direct(answer: Msg) -> Message:
    headers = dict(answer.headers or {})
    if "Status" in headers:
        raise from_api(int(headers["Status"]), 0, headers.get("Description", ""))
    subject = headers.pop("Nats-Subject")
    seq = int(headers.pop("Nats-Sequence"))
    stored = parse_time(headers.pop("Nats-Time-Stamp"))
    for extra in ("Nats-Stream", "Nats-Last-Sequence", "Nats-Num-Pending", "Nats-UpTo-Sequence"):
        headers.pop(extra, None)
    return Message(subject, seq, stored, headers, bytes(answer.data))
