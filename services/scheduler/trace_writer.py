"""Writes explanations to stream EXPLAINED, beside the decisions and never in their way.

An explanation may be lost (a crash, a log that is full): the fact it belongs to stands without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

import msgspec
import structlog

from schemas.subjects import explained as subject_of
from services._kit.base.log_errors import LogError
from services._kit.concurrency.supervision import spawn
from services._kit.log.stream_port import Log, NewMessage
from services.scheduler.decision_trace import Changed, explained

MOST_WAITING: Final = 2_000
"""Decisions that wait to be explained; beyond that the oldest are not."""
_AT_ONCE: Final = 32
_CLOSING: Final = 2.0

log = structlog.get_logger("explanations")


class ExplanationWriter:
    """Explains decisions one batch after the other while there are any."""

    def __init__(self, stream: Log) -> None:
        self.written = 0
        self.lost = 0
        self._stream = stream
        self._encode = msgspec.json.Encoder().encode
        self._waiting: list[Changed] = []
        self._task: asyncio.Task[None] | None = None

    def offer(self, changed: Iterable[Changed]) -> None:
        """Take decisions that were stored; returns at once."""
        self._waiting.extend(changed)
        spare = len(self._waiting) - MOST_WAITING
        if spare > 0:
            del self._waiting[:spare]
            self.lost += spare
        if self._waiting and (self._task is None or self._task.done()):
            self._task = spawn("explanations", self._write())

    async def idle(self) -> None:
        """Wait until everything that was offered is written or lost."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    async def close(self) -> None:
        """Give what is waiting two seconds, then let go of it."""
        try:
            await asyncio.wait_for(self.idle(), _CLOSING)
        except TimeoutError:
            if self._task is not None:
                self._task.cancel()

    async def _write(self) -> None:
        while self._waiting:
            taken, self._waiting = self._waiting[:_AT_ONCE], self._waiting[_AT_ONCE:]
            messages = []
            for item in taken:
                try:
                    made = explained(item.event, item.considered)
                except Exception as error:  # noqa: BLE001 - a decision that cannot be explained still stands
                    self.lost += 1
                    log.warning("a decision cannot be explained", key=str(item.key), error=f"{error!r}")
                    continue
                messages.append(NewMessage(subject_of(item.key), self._encode(made)))
                # With a thousand clusters one explanation takes milliseconds: decisions go first.
                await asyncio.sleep(0)
            answers = await asyncio.gather(*(self._append(message) for message in messages))
            self.written += sum(answers)
            self.lost += len(answers) - sum(answers)

    async def _append(self, message: NewMessage) -> bool:
        try:
            await self._stream.append([message])
        except LogError as error:
            log.warning("an explanation was not stored", subject=message.subject, error=str(error))
            return False
        return True
