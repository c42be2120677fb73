"""The bus of heartbeats inside one process."""

from __future__ import annotations

from collections import defaultdict

from services._kit.log.heartbeat_bus import Listener


class MemoryBus:
    """Stands for NatsBus."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[Listener]] = defaultdict(list)

    async def publish(self, subject: str, data: bytes) -> None:
        """Call every listener."""
        for listener in list(self._listeners[subject]):
            listener(data)

    async def deliver(self, subject: str, data: bytes, timeout: float) -> bool:
        """Call every listener."""
        await self.publish(subject, data)
        return True

    async def subscribe(self, subject: str, listener: Listener) -> None:
        """Call the listener with everything published on a subject from now on."""
        self._listeners[subject].append(listener)
