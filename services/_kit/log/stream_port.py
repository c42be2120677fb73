"""The port to one stream of the log: appends, reads and deliveries to readers.

JetStreamLog implements it. MemoryLog (tests/support) does so for unit tests, and passes the same behaviour suite.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct

from services._kit.base.log_errors import LogError, TooLarge
from services._kit.log.batch_delay import BatchDelay

MAX_BATCH: Final = 500
MAX_BATCH_BYTES: Final = 4 << 20
APART: Final = 8
"""Messages that cost less one by one: the server stages a batch in files of its own (measured with 2.15)."""


class Message(Struct, frozen=True, gc=False):
    """One stored message; `seq` is its position in the stream, `time` when it was stored, in seconds since 1970."""

    subject: str
    seq: int
    time: float
    headers: Mapping[str, str]
    data: bytes


class NewMessage(Struct, frozen=True, gc=False):
    """One message to append.

    `expect_last` is the sequence the subject's last message must have (0: the subject must be empty, None: no check);
    only the first message of a subject within a batch may carry it.
    """

    subject: str
    data: bytes
    headers: Mapping[str, str] = {}
    expect_last: int | None = None


class Fence(Struct, frozen=True):
    """A condition on a whole batch: the last message of `subject` still has sequence `seq`."""

    subject: str
    seq: int


class Appended(Struct, frozen=True):
    """Sequences of the first and last message of a stored batch; those between are contiguous."""

    first: int
    last: int


class LogIdentity(Struct, frozen=True):
    """Which stream this is: the random id it got when it was created, and its last sequence."""

    id: str
    last_seq: int


class Delivery(Struct, frozen=True):
    """What a pump hands over: messages in log order.

    `caught_up`: nothing matching was left behind `position` when the last of them was sent; it turns false again
    when the pump had to restart. `position` is the sequence of the last message delivered so far.
    """

    messages: Sequence[Message]
    caught_up: bool
    position: int


class Pump(Protocol):
    """An endless reader: iterate over it for deliveries, close it when done."""

    def __aiter__(self) -> AsyncIterator[Delivery]:
        """Deliveries from now on; raises LogReplaced when the stream is another one."""

    async def close(self) -> None:
        """Stop reading; the iteration ends."""

    @property
    def behind(self) -> int:
        """Messages between the last one handed over and the end of the log, as far as is known."""


class Log(Protocol):
    """One stream."""

    replicated: bool
    """Whether several servers keep it, as far as is known."""

    @property
    def name(self) -> str:
        """Name of the stream."""

    async def append(self, messages: Sequence[NewMessage], fence: Fence | None = None) -> Appended:
        """Store all messages or none, one after the other without gaps.

        At most MAX_BATCH messages and MAX_BATCH_BYTES bytes. Raises FenceLost, Conflict, Duplicate, TooLarge,
        StreamFull, Refused (nothing stored), Unavailable (nothing stored, retry) or Ambiguous (unknown).
        """

    @property
    def apart(self) -> int:
        """Up to how many messages cost less one by one than as a batch; 0: none."""

    async def append_each(
        self, messages: Sequence[NewMessage], fence: Fence | None = None
    ) -> list[Appended | LogError]:
        """Store every message on its own, each with the fence, all sent at once; what became of each, as of `append`.

        They are stored in their order, others' messages between them; what follows one that was refused is still tried.
        """

    async def last(self, subject: str) -> Message | None:
        """The last message of a subject, never an outdated one."""

    async def peek(self, subject: str) -> Message | None:
        """The last message of a subject from any replica; cheap, may be outdated."""

    async def get(self, seq: int) -> Message | None:
        """The message at a sequence, None when it is gone or not there yet."""

    async def last_many(self, subjects: Sequence[str]) -> list[Message]:
        """Last messages of many subjects (wildcards allowed), in log order; subjects without one are left out."""

    async def identity(self) -> LogIdentity:
        """Which stream this is and where it ends."""

    def pump(
        self, filters: Sequence[str], start: int | None = None, window: int = 4096, patience: BatchDelay | None = None
    ) -> Pump:
        """A reader of the subjects that match.

        From sequence `start` (whatever precedes it counts as read: a log that ends earlier was replaced), or (None) the
        last message of every subject first and then the tail. `window` bounds how many messages wait for a slow
        reader; nothing is ever dropped. With `patience` messages may be handed over later, many together.
        """

    def read(self, filters: Sequence[str], start: int = 1, stop: int | None = None) -> AsyncIterator[Message]:
        """Every stored message that matches, from `start` up to `stop` (None: the end at the time of the call)."""

    async def purge(self, pattern: str, up_to: int) -> int:
        """Remove what a subject or pattern holds up to and including a position; how many messages that were.

        Positions of what stays, and the end of the stream, do not change.
        """

    async def counts(self, pattern: str) -> dict[str, int]:
        """How many messages each subject that matches holds."""


def match(pattern: str, subject: str) -> bool:
    """Whether a subject matches a pattern with `*` (one token) and a final `>` (one or more tokens)."""
    if pattern == subject:
        return True
    wanted = pattern.split(".")
    tokens = subject.split(".")
    for index, want in enumerate(wanted):
        if want == ">":
            return index < len(tokens)
        if index >= len(tokens) or (want not in ("*", tokens[index])):
            return False
    return len(wanted) == len(tokens)


def check_batch(messages: Sequence[NewMessage], fence: Fence | None) -> None:
    """Refuse a batch that no log takes, before anything is sent.

    Raises ValueError for a programming error (empty, a fence and an expectation on the first message, an expectation
    behind an earlier message of its subject) and TooLarge.
    """
    if not messages:
        raise ValueError("an empty batch cannot be appended")
    if len(messages) > MAX_BATCH:
        raise TooLarge(0, f"{len(messages)} messages in one batch, at most {MAX_BATCH} are allowed")
    size = 0
    seen: set[str] | None = None
    for index, message in enumerate(messages):
        size += len(message.data)
        if message.expect_last is not None:
            if index == 0 and fence is not None:
                raise ValueError("the first message of a fenced batch cannot carry an expectation of its own")
            if seen is None:
                seen = {earlier.subject for earlier in messages[:index]}
            if message.subject in seen:
                raise ValueError(f"{message.subject} is checked behind an earlier message of the same batch")
        if seen is not None:
            seen.add(message.subject)
    if size > MAX_BATCH_BYTES and len(messages) > 1:
        raise TooLarge(0, f"{size} bytes in one batch, at most {MAX_BATCH_BYTES} are allowed")
