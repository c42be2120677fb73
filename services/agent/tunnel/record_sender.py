"""Sends records of answered requests to the hub, some at a time; those that are too many are counted."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from schemas.agent import MAX_RECORDS, Reported, ReportedAnswer
from schemas.events.request import MemberRequested
from services._kit.base.clock import Clock
from services._kit.base.log_errors import LogError
from services._kit.base.pacing import Backoff
from services._kit.proxying.request_journal import MOST_WAITING, RequestLimit
from services._rules.identity.accounts import reports_subject
from services.agent.hub_connection import HubConnection

log = structlog.get_logger("agent.records")

BACKOFF: Final = Backoff(0.5, 30.0)
GATHERED_SECONDS: Final = 0.5
"""How long a record waits for others."""
PATIENCE: Final = 4.0


class RecordSender:
    """Records on their way; `session` names the current session."""

    def __init__(self, hub: HubConnection, cluster: str, clock: Clock, session: Callable[[], str]) -> None:
        self.sent = 0
        self.lost = 0
        self._hub = hub
        self._subject = reports_subject(cluster)
        self._session = session
        self._limit = RequestLimit(clock)
        self._waiting: deque[MemberRequested] = deque()
        self._some = asyncio.Event()

    def take(self, event: MemberRequested) -> None:
        """Take a record; returns at once."""
        kept = self._limit.kept(event)
        if kept is not None and len(self._waiting) >= MOST_WAITING:
            self._limit.missed(1 + kept.missed)
            kept = None
        if kept is None:
            self.lost += 1
            return
        self._waiting.append(kept)
        self._some.set()

    async def run(self) -> None:
        """Send what there is, however long the hub is away, until cancelled."""
        pauses = BACKOFF.pauses()
        while True:
            await self._some.wait()
            await asyncio.sleep(GATHERED_SECONDS)
            await self._hub.wait_connected()
            taken = tuple(self._waiting)[:MAX_RECORDS]
            body = msgspec.json.encode(Reported(requests=taken, session=self._session()))
            try:
                message = await self._hub.request(self._subject, body, timeout=PATIENCE)
                answer = msgspec.json.decode(message.data, type=ReportedAnswer)
            except (LogError, msgspec.MsgspecError) as error:
                answer = ReportedAnswer(problem=str(error))
            if answer.problem:
                log.info("records_wait", reason=answer.problem)
                await asyncio.sleep(next(pauses))
                continue
            pauses = BACKOFF.pauses()
            self.sent += len(taken)
            for _ in taken:
                self._waiting.popleft()
            if not self._waiting:
                self._some.clear()
