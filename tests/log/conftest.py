"""Runs the behaviour suite of the log against both of its implementations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from schemas.topology import STREAMS, Stream
from services._kit.log import streams as topology
from services._kit.log.heartbeat_bus import NatsBus
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import Log
from tests.support.memory_bus import MemoryBus
from tests.support.memory_log import MemoryLog

Logs = dict[str, Log]


class Backend:
    """One implementation: all streams of the topology, more on request, and a bus."""

    def __init__(self, logs: Logs, bus: NatsBus, make: Callable[[Stream], Any], real: bool) -> None:
        self.logs = logs
        self.bus = bus
        self.make = make
        self.real = real
        self.facts = logs["FACTS"]


def _memory() -> Backend:
    async def make(stream: Stream) -> Log:
        return MemoryLog(stream)

    return Backend({stream.name: MemoryLog(stream) for stream in STREAMS}, MemoryBus(), make, real=False)


@pytest.fixture(params=["memory", "jetstream"])
def backend(request: pytest.FixtureRequest) -> Backend:
    """The log in memory, then the log on a real server."""
    if request.param == "memory":
        return _memory()
    connection = request.getfixturevalue("connection")

    async def make(stream: Stream) -> Log:
        await topology.apply_stream(connection, stream)
        return JetStreamLog(connection, stream.name)

    logs: Logs = {stream.name: JetStreamLog(connection, stream.name) for stream in STREAMS}
    return Backend(logs, NatsBus(connection), make, real=True)
