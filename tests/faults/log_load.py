"""A load of bindings on a log, and the log as it stands."""

from __future__ import annotations

from schemas.codec import decode
from schemas.topology import STREAMS
from services._kit.log.heartbeat_bus import NatsBus
from services._kit.log.jetstream import JetStreamLog
from services._kit.runtime.appender import Appender
from services._kit.runtime.outbox import KeyedEvents
from tests.log.conftest import Backend
from tests.log.running import insist
from tests.log.toy import wanted


def backend_on(connection):
    return Backend(
        {stream.name: JetStreamLog(connection, stream.name) for stream in STREAMS}, NatsBus(connection), None, real=True
    )


async def all_messages(log):
    async def read():
        return [message async for message in log.read(["binding.>", "placement.>", "lease.*"])]

    return await insist(read)


class Load:
    """Appends bindings as fast as the log takes them and remembers what was acknowledged."""

    def __init__(self, logs):
        self.appender = Appender(logs, "detector")
        self.acknowledged = {}
        self.stopped = False
        self._number = 0

    async def run(self):
        while not self.stopped:
            groups = []
            for _ in range(20):
                self._number += 1
                name = f"d{self._number}"
                message = wanted(name, f"m{self._number % 7}")
                groups.append(KeyedEvents(name, [decode(message.subject, message.data)]))
            outcome = await self.appender.append(groups)
            assert outcome.parked == {}
            for name, positions in outcome.stored.items():
                self.acknowledged[name] = positions["FACTS"]
