"""The way of one service to pull members: a connection of its own, and the transport on it."""

from __future__ import annotations

from typing import Self

import structlog
from nats.errors import Error as NatsError

from services._kit.base.clock import Clock
from services._kit.base.log_errors import Unavailable
from services._kit.base.settings import Settings, credentials, tls_context
from services._kit.log.connection import Connection
from services._kit.proxying.pull_transport import PullTransport

log = structlog.get_logger("tunnel")


class PullMembers:
    """`transport` is there until it is closed; what agents send holds up no other connection of the service."""

    def __init__(self, connection: Connection, transport: PullTransport) -> None:
        self.transport = transport
        self._connection = connection

    @classmethod
    async def open(cls, settings: Settings, service: str, clock: Clock) -> Self:
        """Connect to the log's server once more; raises Unavailable when it does not answer."""
        try:
            connection = await Connection.open(
                settings.nats_url,
                name=f"{service}/requests",
                on_error=_complain,
                tls=tls_context(settings),
                **credentials(settings),
            )
        except (NatsError, OSError) as error:
            raise Unavailable(f"the log's server at {settings.nats_url} cannot be reached: {error}") from error
        transport = PullTransport(connection, clock)
        await transport.start()
        return cls(connection, transport)

    async def close(self) -> None:
        """End what is under way, and disconnect."""
        await self.transport.stop()
        await self._connection.close()


def _complain(error: Exception) -> None:
    log.warning("requests_connection", reason=f"{type(error).__name__}: {error}"[:500])
