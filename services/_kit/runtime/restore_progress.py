"""Follows a restore on the log for one service, and reports there when this service has compared everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog

from schemas.codec import DecodeError, decode
from schemas.events.restore import RestoreCompared, RestoreStarted
from schemas.shard_groups import WHOLE, ShardGroup
from schemas.subjects import restore
from services._kit.base.clock import Clock
from services._kit.log.stream_port import Message
from services._kit.runtime.appender import Appender
from services._kit.runtime.outbox import KeyedEvents
from services._rules.log.restore_order import Restoring

log = structlog.get_logger("restoring")
PREFIX = "restore."


class Restoration:
    """What the runtime and a service know of the restore under way."""

    def __init__(self, service: str, appender: Appender[Any], clock: Clock, group: ShardGroup = WHOLE) -> None:
        self.state = Restoring()
        self.waits_for = ""
        """What this service waits for before it has compared everything; for people."""
        self._service = service
        self._group = group
        self._appender = appender
        self._clock = clock
        self._last: dict[str, int] = {}
        self._said = 0

    @property
    def holds(self) -> bool:
        """Whether nothing may be delivered to members."""
        return self.state.holds

    @property
    def may_decide(self) -> bool:
        """Whether this service may decide."""
        return self.state.may_decide(self._service)

    @property
    def trouble(self) -> str:
        """Why nothing is delivered, and what this service has to do with it; empty when no restore is under way."""
        words = self.state.words
        return f"{words}; {self._service} waits: {self.waits_for}" if words and self.waits_for else words

    def last_seq(self, subject: str) -> int:
        """Position of the last event of a subject of this family, 0 for none."""
        return self._last.get(subject, 0)

    def observe(self, message: Message) -> bool:
        """Take in a message of this family that was read from the log; whether a restore begins with it."""
        try:
            event = decode(message.subject, message.data)
        except DecodeError as error:
            log.warning("restore_not_readable", subject=message.subject, position=message.seq, reason=str(error))
            return False
        self._last[message.subject] = message.seq
        self.state.take(message.seq, event)
        if not isinstance(event, RestoreStarted):
            return False
        self.waits_for = ""
        return True

    async def idle(self, unsettled: Callable[[], str]) -> None:
        """Report that everything is compared, if it is this service's turn and nothing is unsettled.

        Called when the service has nothing left to decide. Raises FenceLost and LogError.
        """
        state = self.state
        if not state.is_due(self._service, self._group) or self._said == state.position:
            return
        waits_for = unsettled()
        if waits_for != self.waits_for:
            self.waits_for = waits_for
            if waits_for:
                log.info("restore_waits", service=self._service, reason=waits_for)
        if waits_for:
            return
        position = state.position
        name = self._group.named(self._service)
        event = RestoreCompared(service=name, restore=position, compared_at=self._clock.now())
        outcome = await self._appender.append([KeyedEvents(restore(name), (event,))])
        if outcome.stored:
            self._said = position
            log.info("restore_compared", service=name, restore=position)

    def begin(self) -> None:
        """A term begins: what an earlier one said may not have been stored."""
        self._said = 0
        self.waits_for = ""
        if self.holds:
            self.tell()

    def tell(self) -> None:
        """Log that delivery waits, or that it goes on."""
        if self.holds:
            log.warning("restore_started", service=self._service, reason=self.state.words)
        else:
            log.info("restore_finished", service=self._service, position=self.state.position)
