"""Sends observations to the hub in order, and retries until the hub has stored them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
import structlog

from schemas.agent import MAX_REPORT_BYTES, MAX_REPORTS, Reported, ReportedAnswer
from schemas.events.observed import WorkObserved
from services._kit.base.log_errors import LogError, Unavailable
from services._kit.base.pacing import Backoff
from services._rules.identity.accounts import reports_subject
from services.agent.hub_connection import HubConnection

log = structlog.get_logger("agent.publishing")

BACKOFF: Final = Backoff(0.2, 2.0)
PATIENCE: Final = 4.0
"""Seconds until a request without an answer is repeated: a hub with too much to do drops requests."""


class HubPublisher:
    """The way of observations to the hub; `stored` is called with each that the hub has taken (or never will).

    `session` names the current session; `superseded` is called with a session that the hub reports as ended.
    """

    def __init__(
        self,
        hub: HubConnection,
        cluster: str,
        stored: Callable[[WorkObserved], None],
        session: Callable[[], str],
        superseded: Callable[[str], None],
    ) -> None:
        self.sent = 0
        self.refused = 0
        self._hub = hub
        self._subject = reports_subject(cluster)
        self._stored = stored
        self._session = session
        self._superseded = superseded

    async def publish(self, events: Sequence[WorkObserved]) -> bool:
        """Store them, however long the hub is away."""
        for batch in _batches(events):
            answer = await self._hand_over(batch)
            for index, reason in answer.refused:
                log.warning("report_refused", reason=reason, key=str(batch[index].key) if index < len(batch) else "")
            self.refused += len(answer.refused)
            self.sent += len(batch) - len(answer.refused)
            for event in batch:
                self._stored(event)
        return True

    async def _hand_over(self, batch: Sequence[WorkObserved]) -> ReportedAnswer:
        pauses = BACKOFF.pauses()
        while True:
            await self._hub.wait_connected()
            session = self._session()
            body = msgspec.json.encode(Reported(events=tuple(batch), session=session))
            try:
                message = await self._hub.request(self._subject, body, timeout=PATIENCE)
                answer = msgspec.json.decode(message.data, type=ReportedAnswer)
                if not answer.problem:
                    return answer
                if answer.superseded:
                    self._superseded(session)
                raise Unavailable(answer.problem)
            except (LogError, msgspec.MsgspecError) as error:
                log.info("reports_wait", reason=str(error))
            await asyncio.sleep(next(pauses))


def _batches(events: Sequence[WorkObserved]) -> Iterator[list[WorkObserved]]:
    """Observations in order, as many at once as one request holds."""
    batch: list[WorkObserved] = []
    size = 0
    for event in events:
        length = len(msgspec.json.encode(event))
        if batch and (len(batch) == MAX_REPORTS or size + length > MAX_REPORT_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += length
    if batch:
        yield batch
