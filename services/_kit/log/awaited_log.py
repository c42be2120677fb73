"""Waits until the log can be used: a server takes this identity, and its streams are as this version needs them.

Services are started in any order: what is not there yet is made by another one. While it waits, a service is alive, not
ready, and says for what. What no waiting mends ends it: a password that is refused, a request that is not permitted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Literal

from nats.errors import Error as NatsError

from services._kit.base.health import Health
from services._kit.base.log_errors import Ambiguous, LogError, Unavailable
from services._kit.base.pacing import Backoff
from services._kit.base.settings import Settings, credentials, tls_context
from services._kit.concurrency.tasks import first_of
from services._kit.log import streams as topology
from services._kit.log.connection import Connection
from services._kit.log.streams import Shortcoming

What = Literal["connection", "streams"]

REFUSED_PATIENCE: Final = 60.0
"""Seconds after which a service ends whose identity the log's servers refuse."""
PAUSES: Final = Backoff(0.1, 2.0)
SAID_AGAIN_AFTER: Final = 60.0
"""Seconds for which the same trouble of a connection is not logged again: attempts follow each other quickly."""
_REFUSED: Final = "authorization violation"
_FORBIDDEN: Final = "permissions violation"
_MOST_SAID: Final = 100


class Awaited:
    """What a service waits for before it begins, as its readiness shows it; its log tells each reason once."""

    def __init__(self, health: Health, logger: Any) -> None:
        self._logger = logger
        self._what: What = "connection"
        self._reason = "the log was not reached yet"
        self._told = False
        self._since = time.monotonic()
        for what in ("connection", "streams"):
            health.check(what, partial(self._trouble, what))

    def _trouble(self, what: str) -> str:
        return self._reason if what == self._what else ""

    def because(self, what: What, reason: str, *, told: bool = False) -> None:
        """Wait for something, without a word in the log; `told` says that it has one already."""
        self._what, self._reason = what, reason
        self._told = self._told or told

    def tell(self, what: What, reason: str) -> None:
        """Wait for something; the log tells it where it is another reason than before."""
        if (what, reason) != (self._what, self._reason):
            self._logger.warning("waiting", on=what, reason=reason)
        self.because(what, reason, told=True)

    def over(self) -> None:
        """All is there; the log tells it where it told that this waits."""
        if self._told:
            self._logger.info("waited", seconds=round(time.monotonic() - self._since, 1))


class Complaints:
    """Logs what the client of the log complains about, the same words at most once a minute."""

    def __init__(self, logger: Any, url: str) -> None:
        self._logger = logger
        self._url = url
        self._said: dict[str, float] = {}
        self.last = ""

    def take(self, error: Exception) -> None:
        """The client tells of an error."""
        self.last, now = f"{type(error).__name__}: {error}", time.monotonic()
        # With several servers two reasons would take turns at every attempt.
        if now - self._said.get(self.last, -SAID_AGAIN_AFTER) < SAID_AGAIN_AFTER:
            return
        if len(self._said) >= _MOST_SAID:
            self._said.clear()
        self._said[self.last] = now
        self._logger.warning("connection trouble", url=self._url, reason=self.last)

    @property
    def refused(self) -> bool:
        """Whether the servers refuse this identity."""
        return _REFUSED in self.last.lower()

    @property
    def forbidden(self) -> bool:
        """Whether something was asked that this identity may not ask."""
        return _FORBIDDEN in self.last.lower()


async def connect(
    settings: Settings, name: str, awaited: Awaited, complaints: Complaints, stop: asyncio.Event
) -> Connection | None:
    """Connect to the log as soon as a server answers; None when asked to stop meanwhile.

    Raises LogError where the servers refuse this identity for a minute, or the client cannot use what is set.
    """
    opened: Connection | None = None

    def complain(error: Exception) -> None:
        complaints.take(error)
        if opened is None:
            reason = f"no server of the log answers at {settings.nats_url}: {complaints.last}"
            awaited.because("connection", reason, told=True)

    # The client itself retries without end once it is set to reconnect without end.
    opening = Connection.open(
        settings.nats_url, name=name, on_error=complain, tls=tls_context(settings), **credentials(settings)
    )
    try:
        first = await first_of(opening, stop.wait(), _given_up(settings, complaints))
    except (NatsError, OSError) as error:
        raise LogError(f"the log at {settings.nats_url} cannot be used: {error}") from error
    if not isinstance(first, Connection):
        return None
    opened = first
    return opened


async def _given_up(settings: Settings, complaints: Complaints) -> None:
    """Raise LogError once the servers have refused this identity for long; returns never."""
    while True:
        await asyncio.sleep(REFUSED_PATIENCE)
        if complaints.refused:
            raise LogError(f"no server of the log answers at {settings.nats_url}: {complaints.last}")


def reason_to_wait(found: Sequence[Shortcoming]) -> str:
    """Why the streams cannot be used yet, empty where they can; raises LogError for what no waiting mends."""
    for one in found:
        if one.kind in ("importing", "refused"):
            raise LogError(f"the streams are not as this version needs them: {one.words}")
    if missing := [one.stream for one in found if one.kind == "missing"]:
        several = len(missing) > 1
        return (
            f"stream{'s' if several else ''} {', '.join(missing)} {'are' if several else 'is'} not there yet; the"
            f" service with FLEETLOG_APPLY_TOPOLOGY=true (the detector) makes {'them' if several else 'it'}"
        )
    if not found:
        return ""
    why = "the log cannot be asked yet" if found[0].kind == "silent" else "not as this version needs them"
    return f"{why}: {found[0].words}"


async def streams_usable(
    connection: Connection, settings: Settings, sizes: dict[str, int], awaited: Awaited, complaints: Complaints
) -> None:
    """Return once all streams are as this version needs them, made by this service where its settings say so.

    Raises LogError for what no waiting mends.
    """
    awaited.because("streams", "the log is being asked for its streams")
    for pause in PAUSES.pauses():
        try:
            if settings.apply_topology:
                await topology.apply(connection, replicas=settings.topology_replicas, sizes=sizes)
            reason = reason_to_wait(await topology.look(connection))
        except (Unavailable, Ambiguous) as error:
            if connection.closed.is_set() or complaints.forbidden:
                raise
            reason = str(error)
        if not reason:
            awaited.over()
            return
        awaited.tell("streams", reason)
        await asyncio.sleep(pause)
