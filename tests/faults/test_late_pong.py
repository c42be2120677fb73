"""A heartbeat whose confirmation comes too late costs the leader one confirmation, not its connection."""

from __future__ import annotations

import pytest

from services._kit.log.heartbeat_bus import NatsBus
from services._kit.log.jetstream import JetStreamLog
from tests.faults.proxy import Proxy
from tests.natsserver import PATIENCE

pytestmark = pytest.mark.faults


@pytest.fixture
async def proxy(nats_server):
    async with Proxy(nats_server.port) as made:
        yield made


async def test_late_confirmation_leaves_the_connection_whole(proxy, connect, connection):
    far = await connect(proxy.url)
    bus, log = NatsBus(far), JetStreamLog(far, "FACTS")
    assert await bus.deliver("alive.toy", b"1", PATIENCE)
    proxy.hold()
    assert not await bus.deliver("alive.toy", b"2", 1.0)
    proxy.release()
    # What came too late is read before this answer.
    await log.identity()
    assert await bus.deliver("alive.toy", b"3", PATIENCE)
    assert far.generation == 0


async def test_nothing_is_delivered_without_an_answer(proxy, connect, connection):
    far = await connect(proxy.url)
    bus = NatsBus(far)
    assert await bus.deliver("alive.toy", b"1", PATIENCE)
    proxy.hold()
    assert not await bus.deliver("alive.toy", b"2", 1.0)
    assert not await bus.deliver("alive.toy", b"3", 1.0)
    proxy.cut()
    proxy.release()
    await far.wait_connected()
