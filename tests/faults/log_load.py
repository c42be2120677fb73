"""A load of bindings on a log, the log as it stands, and what must hold of both after a disturbance."""

from __future__ import annotations

import asyncio
from itertools import zip_longest

from schemas.codec import decode
from schemas.envelope import HEADER_EVENT_ID
from schemas.events.binding import BindingRequested
from schemas.topology import STREAMS
from services._kit.log.heartbeat_bus import NatsBus
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import Delivery
from services._kit.runtime.appender import Appender
from services._kit.runtime.outbox import KeyedEvents
from services._kit.runtime.projection import Projection
from tests.log.conftest import Backend
from tests.log.running import eventually, insist
from tests.log.toy import Toy, wanted


def backend_on(connection):
    return Backend(
        {stream.name: JetStreamLog(connection, stream.name) for stream in STREAMS}, NatsBus(connection), None, real=True
    )


async def all_messages(log):
    async def read():
        return [message async for message in log.read(["binding.>", "placement.>", "lease.*"])]

    return await insist(read)


def unlike(one, other):
    """The first places at which a list is not as another."""
    pairs = enumerate(zip_longest(one, other))
    return [(place, one[max(place - 2, 0) : place + 3]) for place, (mine, theirs) in pairs if mine != theirs][:3]


class Load:
    """Appends bindings as fast as the log takes them and remembers what was acknowledged."""

    def __init__(self, logs):
        self.appender = Appender(logs, "detector")
        self.acknowledged = {}
        self.stopped = False
        self._number = 0
        self._running = None

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

    def start(self):
        self._running = asyncio.create_task(self.run())

    async def more(self, count, what):
        """Return once so many further bindings were acknowledged."""
        goal = len(self.acknowledged) + count
        await eventually(lambda: self._running.done() or len(self.acknowledged) >= goal, what)

    async def stop(self):
        self.stopped = True
        await self._running

    async def held_once(self, log, state):
        """Everything acknowledged is where it was said to be, nothing is there twice, and the state is the fold."""
        everything = await all_messages(log)
        fresh = Projection(Toy())
        fresh.feed(Delivery(everything, True, everything[-1].seq))
        assert fresh.state == state
        folded, stored = ([seq for seq, _ in one.history] for one in (state, fresh.state))
        assert folded == stored, f"folded and not stored so: {unlike(folded, stored)}; else: {unlike(stored, folded)}"
        ours = {wanted(name).subject.partition(".")[2] for name in self.acknowledged}
        messages = [message for message in everything if message.subject.partition(".")[2] in ours]
        by_seq = {message.seq: message for message in messages}
        for name, seq in self.acknowledged.items():
            assert by_seq[seq].subject == wanted(name).subject
        ids = [message.headers[HEADER_EVENT_ID] for message in messages]
        assert len(ids) == len(set(ids))
        bindings = [message.subject for message in messages if message.subject.startswith("binding.")]
        placements = [message for message in messages if message.subject.startswith("placement.")]
        assert len(set(bindings)) == len(bindings) == len(placements) == len(self.acknowledged)
        for message in messages:
            event = decode(message.subject, message.data)
            if isinstance(event, BindingRequested):
                assert state.placements[event.key][1].clusters[0].name == event.labels["clusters"]
