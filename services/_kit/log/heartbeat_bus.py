"""Messages that are not stored: the heartbeats of leaders, over core NATS."""

from __future__ import annotations

from collections.abc import Callable

from nats.aio.msg import Msg

from services._kit.log.connection import Connection

Listener = Callable[[bytes], None]


class NatsBus:
    """Core NATS."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def publish(self, subject: str, data: bytes) -> None:
        """Send to all subscribers; does nothing while disconnected, since a late heartbeat would be wrong."""
        if self._connection.is_connected:
            await self._connection.publish(subject, data)

    async def deliver(self, subject: str, data: bytes, timeout: float) -> bool:
        """Send, and wait until the server has it; false while disconnected or without its answer."""
        if not self._connection.is_connected:
            return False
        await self._connection.publish(subject, data)
        return await self._connection.flushed(timeout)

    async def subscribe(self, subject: str, listener: Listener) -> None:
        """Receive everything published on a subject from now on."""

        def hear(message: Msg) -> None:
            listener(message.data)

        await self._connection.listen(subject, hear)
