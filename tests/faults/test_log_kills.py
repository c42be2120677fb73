"""The log's server is killed under load: nothing acknowledged is lost, nothing is there twice, projections agree."""

from __future__ import annotations

import asyncio
import os

import pytest

from schemas.codec import decode
from schemas.envelope import HEADER_EVENT_ID
from schemas.events.binding import BindingRequested
from services._kit.log.stream_port import Delivery
from services._kit.runtime.appender import Appender
from services._kit.runtime.outbox import KeyedEvents
from services._kit.runtime.projection import Projection
from tests.faults.log_load import Load, all_messages, backend_on
from tests.log.running import eventually, running
from tests.log.toy import Toy, key, wanted

pytestmark = pytest.mark.faults

ROUNDS = int(os.environ.get("FAULT_ROUNDS", "3"))


async def test_kill_under_load(nats_server, connect, connection):
    other = await connect()
    backend = backend_on(connection)
    load = Load(backend_on(other).logs)
    service = Toy()
    async with running(service, backend) as toy:
        loading = asyncio.create_task(load.run())
        for round_number in range(ROUNDS):
            goal = len(load.acknowledged) + 200
            await eventually(
                lambda goal=goal: loading.done() or len(load.acknowledged) >= goal, f"round {round_number}"
            )
            nats_server.kill9()
            nats_server.start()
        goal = len(load.acknowledged) + 100
        await eventually(lambda: loading.done() or len(load.acknowledged) >= goal, "the load goes on")
        load.stopped = True
        await loading
        await toy.until_idle(backend.facts)

        messages = await all_messages(backend.facts)
        by_seq = {message.seq: message for message in messages}
        # Nothing acknowledged is lost, and it stands where the acknowledgement said.
        for name, seq in load.acknowledged.items():
            assert by_seq[seq].subject == wanted(name).subject
        # Nothing is there twice.
        ids = [message.headers[HEADER_EVENT_ID] for message in messages]
        assert len(ids) == len(set(ids))
        bindings = [m.subject for m in messages if m.subject.startswith("binding.")]
        assert len(bindings) == len(set(bindings)) == len(load.acknowledged)
        # The projection of the survivor is the fold of the log.
        fresh = Projection(Toy())
        fresh.feed(Delivery(messages, True, messages[-1].seq))
        assert fresh.state == toy.state
        assert [seq for seq, _ in toy.state.history] == [seq for seq, _ in fresh.state.history]
        # And every wish was fulfilled once.
        placements = [m for m in messages if m.subject.startswith("placement.")]
        assert len(placements) == len(bindings)
        for message in messages:
            event = decode(message.subject, message.data)
            if isinstance(event, BindingRequested):
                assert toy.state.placements[event.key][1].clusters[0].name == event.labels["clusters"]


async def test_a_service_is_alive_again_after_a_kill(nats_server, connection):
    backend = backend_on(connection)
    async with running(Toy(), backend) as toy:
        await toy.until(lambda: toy.runner.active)
        nats_server.kill9()
        nats_server.start()
        message = wanted("a")
        event = decode(message.subject, message.data)
        await Appender(backend.logs, "detector").append([KeyedEvents("a", [event])])
        await toy.until(lambda: key("a") in toy.state.placements)
        assert toy.runner.terms == 1, "a broker's absence deposes nobody"
