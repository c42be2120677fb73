"""Writes that wait for the stream: one per object at a time, many in a batch."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Final

from schemas.manifest import Manifest
from services.apiserver.store.store_port import Conflict, Entry, Key, encode_value

MOST_WRITES: Final = 500
MOST_BYTES: Final = 4 << 20
"""What one batch holds at most, but for the write that goes over it."""


TRACEPARENT: Final[ContextVar[str]] = ContextVar("traceparent", default="")
"""The trace that the client of the request under way has begun, as it stands in its header; empty without one."""


class Write:
    """One object to store or to delete, and the answer that its caller waits for."""

    __slots__ = ("deleted", "done", "expected", "key", "obj", "sequence", "stored", "traceparent", "value")

    def __init__(self, key: Key, obj: Manifest, expected: int, deleted: bool) -> None:
        self.key, self.obj, self.expected, self.deleted = key, obj, expected, deleted
        self.value = self.stored = encode_value(obj)
        self.traceparent = TRACEPARENT.get()
        self.sequence = 0  # last sequence of the subject, tombstones included
        self.done: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()

    def succeed(self, entry: Entry) -> None:
        """Answer the caller, if it still waits."""
        if not self.done.done():
            self.done.set_result(entry)

    def fail(self, error: Exception) -> None:
        """Answer the caller with an error, if it still waits."""
        if not self.done.done():
            self.done.set_exception(error)


Writes = list[Write]


def fail_all(writes: Iterable[Write], error: Exception) -> None:
    """Answer every caller with the same error."""
    for write in writes:
        write.fail(error)


class WriteQueue:
    """Writes in the order of their arrival; objects of the batch under way are busy."""

    def __init__(self) -> None:
        self._waiting: deque[Write] = deque()
        self._busy: set[Key] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, write: Write) -> None:
        """Queue a write behind the others."""
        self._waiting.append(write)

    def busy(self, key: Key) -> bool:
        """Whether the batch under way writes this object."""
        return key in self._busy

    def release(self) -> None:
        """The batch under way has its answer."""
        self._busy.clear()

    def take(self, prepare: Callable[[Write], None]) -> Writes:
        """The next batch, with at most one write per object; those that `prepare` finds in conflict fail."""
        batch: Writes = []
        later: Writes = []
        size = 0
        self._busy.clear()
        while self._waiting and len(batch) < MOST_WRITES and size < MOST_BYTES:
            write = self._waiting.popleft()
            if write.done.cancelled():
                continue
            if write.key in self._busy:
                later.append(write)
                continue
            try:
                prepare(write)
            except Conflict as error:
                write.fail(error)
                continue
            self._busy.add(write.key)
            batch.append(write)
            size += len(write.value)
        self._waiting.extendleft(reversed(later))
        return batch
