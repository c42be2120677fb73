"""Compares a stream with what was read of it before: one that ends earlier, or was made again, replaced it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from services._kit.base.log_errors import LogReplaced, Unavailable
from services._kit.log.stream_port import LogIdentity, Message

if TYPE_CHECKING:
    from services._kit.log.jetstream import JetStreamLog

SHORT: Final = 30.0
SAME_TIME: Final = 1e-5  # two forms in which the server reports one time differ by less


class Continuity:
    """What one reader knows of its stream."""

    def __init__(self, log: JetStreamLog) -> None:
        self.identity: LogIdentity | None = None
        """Which stream it is, and where it ended when it was last looked at."""
        self._log = log
        self._last: tuple[int, str, float] | None = None  # sequence, subject and time of the last message read
        self._short_since = 0.0

    def read(self, last: Message) -> None:
        """A message was handed over; it is the last one until now."""
        self._last = (last.seq, last.subject, last.time)

    async def look(self, position: int) -> int:
        """Ask the leader whether this is the log that was read up to a position; where it ends. Raises LogReplaced."""
        identity = await self._log.identity()
        if self.identity is not None and identity.id != self.identity.id:
            raise LogReplaced(f"stream {self._log.name} was created again; this process holds the state of the old one")
        if identity.last_seq >= position:
            self._short_since = 0.0
        elif self._log.replicated and not self._short_for_long():
            raise Unavailable("the leader of the stream has not applied yet what others stored")
        else:
            raise LogReplaced(
                f"stream {self._log.name} ends at {identity.last_seq}, but {position} was read from it before"
            )
        self.identity = identity
        return identity.last_seq

    async def compare(self) -> None:
        """Ask the leader whether the last message read is still the one in its place; raises LogReplaced."""
        if self._last is None:
            return
        seq, subject, stored = self._last
        present = await self._log.get(seq)
        # One that is gone was trimmed.
        if present is not None and (present.subject != subject or abs(present.time - stored) > SAME_TIME):
            raise LogReplaced(
                f"stream {self._log.name} lost message {seq} on {subject}; {present.subject} has its place"
            )

    def _short_for_long(self) -> bool:
        """Whether the log has ended before what was read of it for longer than a new leader needs."""
        now = time.monotonic()
        self._short_since = self._short_since or now
        return now - self._short_since > SHORT
