"""The log's server is killed under load: nothing acknowledged is lost, nothing is there twice, projections agree."""

from __future__ import annotations

import os

import pytest

from schemas.codec import decode
from services._kit.runtime.appender import Appender
from services._kit.runtime.outbox import KeyedEvents
from tests.faults.log_load import Load, backend_on
from tests.log.running import running
from tests.log.toy import Toy, key, wanted

pytestmark = pytest.mark.faults

ROUNDS = int(os.environ.get("FAULT_ROUNDS", "3"))


async def test_kill_under_load(nats_server, connect, connection):
    other = await connect()
    backend = backend_on(connection)
    load = Load(backend_on(other).logs)
    service = Toy()
    async with running(service, backend) as toy:
        load.start()
        for number in range(ROUNDS):
            await load.more(200, f"round {number}")
            nats_server.kill9()
            nats_server.start()
        await load.more(100, "the load goes on")
        await load.stop()
        await toy.until_idle(backend.facts)
        await load.held_once(backend.facts, toy.state)


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
