"""A callback that fails ends neither its subscription nor what hears of reconnections."""

from __future__ import annotations

import asyncio

from nats.aio.msg import Msg

from services._kit.concurrency.supervision import Supervisor
from services._kit.log.connection import Connection
from tests.support.waiting import eventually


async def test_a_callback_that_raises_hears_the_next_message(connection: Connection) -> None:
    heard: list[bytes] = []

    async def hear(message: Msg) -> None:
        heard.append(message.data)
        if message.data == b"raises":
            raise KeyError("cluster")
        if message.data == b"cancelled":
            inner = asyncio.create_task(asyncio.sleep(60))
            inner.cancel()
            await inner

    async with Supervisor() as supervisor:
        await connection.subscribe("told.*", hear)
        for data in (b"raises", b"cancelled", b"last"):
            await connection.publish("told.m1", data)
        await eventually(lambda: heard == [b"raises", b"cancelled", b"last"])
        assert supervisor.failures() == [(("subscription",), 2.0)]


async def test_a_listener_that_raises_keeps_no_other_from_hearing(connection: Connection) -> None:
    heard = asyncio.Event()

    def fails() -> None:
        raise KeyError("cluster")

    connection.on_regained(fails)
    connection.on_regained(heard.set)
    await connection.nc.force_reconnect()
    await asyncio.wait_for(heard.wait(), 60)
    assert connection.is_connected
