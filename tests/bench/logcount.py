"""Counts what was appended to the streams of an installation between two moments."""

from __future__ import annotations

from collections import Counter
from typing import Final, Self

from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services.cli.common.layout import Layout

STREAMS: Final = ("FACTS", "OBSERVED")
OBJECTS: Final = "OBJECTS"
"""Objects of the embedded API server; a real one keeps them elsewhere."""


class LogCount:
    """Positions of the streams, and their messages by family of subjects."""

    def __init__(self, connection: Connection, streams: tuple[str, ...]) -> None:
        self._connection = connection
        self._logs = {name: JetStreamLog(connection, name) for name in streams}

    @classmethod
    async def open(cls, layout: Layout) -> Self:
        """Connect to the log of an installation."""
        installation = layout.load()
        assert installation is not None
        streams = STREAMS if installation.control_kubeconfig else (*STREAMS, OBJECTS)
        return cls(await Connection.open(installation.log_access, name="bench"), streams)

    async def close(self) -> None:
        """Disconnect."""
        await self._connection.close()

    async def position(self, stream: str = "FACTS") -> int:
        """Last position of a stream."""
        return (await self._logs[stream].identity()).last_seq

    async def positions(self) -> dict[str, int]:
        """Last positions of all streams."""
        return {name: await self.position(name) for name in self._logs}

    async def since(self, stream: str, position: int) -> Counter[str]:
        """Messages stored after a position that are still there, by the first token of their subject.

        Objects of the API server are counted by resource.
        """
        found: Counter[str] = Counter()
        if stream not in self._logs:
            return found
        stop = await self.position(stream)
        if stop <= position:
            return found
        async for message in self._logs[stream].read([">"], position + 1, stop):
            tokens = message.subject.split(".")
            found[tokens[0] if tokens[0] != "obj" else tokens[2]] += 1
        return found
