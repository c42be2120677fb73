"""Keeps one connection to the hub: connects in the background, and reconnects when it was closed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from services._kit.base.log_errors import Unavailable
from services._kit.base.pacing import Backoff
from services._kit.base.settings import Settings, credentials, tls_context
from services._kit.log.connection import Connection

log = structlog.get_logger("agent.link")

RETRY: Final = Backoff(1.0, 30.0)


class HubConnection:
    """The connection to the hub, whatever becomes of it."""

    def __init__(self, settings: Settings, name: str) -> None:
        self.trouble = "not connected to the hub yet"
        """Why there is no connection; empty while there is one."""
        self.entered = False
        """Whether there was ever one since the start."""
        self._settings = settings
        self._name = name
        self._tls = tls_context(settings)
        self._credentials = credentials(settings)
        self._connection: Connection | None = None
        self._up = asyncio.Event()
        self._down = asyncio.Event()
        self._down.set()
        self._listeners: list[Callable[[], None]] = []

    async def run(self) -> None:
        """Connect, and connect again after the server closed the connection for good, until cancelled."""
        pauses = RETRY.pauses()
        while True:
            try:
                self._connection = await self._open()
                pauses = RETRY.pauses()
                self._regained()
                await self._connection.closed.wait()
                self._lost()
            except (NatsError, OSError) as error:
                self._complain(error)
            finally:
                connection, self._connection = self._connection, None
                self._up.clear()
                self._down.set()
                if connection is not None:
                    await connection.close()
            await asyncio.sleep(next(pauses))

    async def _open(self) -> Connection:
        connection = await Connection.open(
            self._settings.nats_url,
            name=self._name,
            on_error=self._complain,
            tls=self._tls,
            retry_seconds=RETRY.first,
            **self._credentials,
        )
        connection.on_lost(self._lost)
        connection.on_regained(self._regained)
        return connection

    def _complain(self, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        if not self.is_connected and text != self.trouble:
            log.warning("hub_unreachable", url=self._settings.nats_url, reason=text)
            self.trouble = text

    def _lost(self) -> None:
        if self._up.is_set():
            log.warning("hub_lost")
            self.trouble = "the connection to the hub was lost"
        self._up.clear()
        self._down.set()
        for listener in self._listeners:
            listener()

    def _regained(self) -> None:
        log.info("hub_connected")
        self.trouble, self.entered = "", True
        self._down.clear()
        self._up.set()

    @property
    def is_connected(self) -> bool:
        """Whether the hub's server is connected right now."""
        return self._connection is not None and self._connection.is_connected

    async def wait_connected(self) -> None:
        """Return once it is."""
        await self._up.wait()

    async def wait_lost(self) -> None:
        """Return once it is not."""
        await self._down.wait()

    def on_lost(self, listener: Callable[[], None]) -> None:
        """Call a function whenever the connection is lost."""
        self._listeners.append(listener)

    async def request(self, subject: str, data: bytes, timeout: float = 10.0) -> Msg:
        """The answer to a request; raises Unavailable or Ambiguous."""
        return await self._open_connection().request(subject, data, timeout=timeout)

    async def publish(self, subject: str, data: bytes, reply: str = "") -> None:
        """Send a message, whose answers come to `reply`; raises LogError."""
        await self._open_connection().publish(subject, data, reply=reply)

    async def listen(self, callback: Callable[[Msg], Awaitable[None]]) -> tuple[str, Any]:
        """A subject for answers of one's own and its subscription; raises Unavailable."""
        connection = self._open_connection()
        inbox = connection.inbox()
        try:
            return inbox, await connection.subscribe(inbox, callback)
        except NatsError as error:
            raise Unavailable(f"not connected to the hub: {error}") from error

    async def hear(self, handler: Callable[[Msg], None]) -> tuple[str, Any]:
        """The same with a function that is called while messages are read: it must be quick and never wait."""
        connection = self._open_connection()
        inbox = connection.inbox()
        try:
            return inbox, await connection.listen(inbox, handler)
        except NatsError as error:
            raise Unavailable(f"not connected to the hub: {error}") from error

    def _open_connection(self) -> Connection:
        connection = self._connection
        if connection is None or not connection.is_connected:
            raise Unavailable("not connected to the hub")
        return connection


async def unlisten(subscription: Any) -> None:
    """Give up a subscription, on whatever connection it was."""
    try:
        await subscription.unsubscribe()
    except NatsError:
        return
