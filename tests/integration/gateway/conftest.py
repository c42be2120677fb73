"""A gateway that reads a real log, facts to put on it, and a client."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import aiohttp
import pytest

from schemas.codec import encode, subject_of
from schemas.events.observed import WorkObserved
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import NewMessage
from services._kit.runtime.service_wiring import serve
from services.gateway.app import Gateway
from services.gateway.settings import GatewaySettings
from tests.support.waiting import NotYet, eventually

TOKEN = "s3cret"


class Writer:
    """Appends events the way the services do."""

    def __init__(self, connection):
        self.logs = {name: JetStreamLog(connection, name) for name in ("FACTS", "OBSERVED", "HISTORY", "BLOBS")}

    async def append(self, *events):
        """Store events; the position of the last."""
        last = 0
        for event in events:
            stream = "OBSERVED" if isinstance(event, WorkObserved) else "FACTS"
            last = (await self.logs[stream].append([NewMessage(subject_of(event), encode(event))])).last
        return last


class Client:
    """A client of the gateway."""

    def __init__(self, session, url):
        self.session = session
        self.url = url
        self.headers = {"Authorization": f"Bearer {TOKEN}"}

    async def get(self, path, accept="application/json", status=200, **params):
        async with self.session.get(
            self.url + path, params=params, headers={**self.headers, "Accept": accept}
        ) as answer:
            body = await answer.json()
            assert answer.status == status, body
            return body

    async def until(self, path, condition, **params):
        """Read until a condition holds."""

        async def holding():
            body = await self.get(path, **params)
            if not condition(body):
                raise NotYet(body)
            return (body,)

        (body,) = await eventually(holding, path)
        return body


@pytest.fixture
async def writer(connection):
    return Writer(connection)


@pytest.fixture
async def start_gateway(nats_server, connection, tmp_path):
    """Starts gateways; each runs until the test ends."""
    running = []

    async def start(**settings):
        token_file = tmp_path / "tokens"
        token_file.write_text(f'{TOKEN},alice,1,"admins"\n')
        made = GatewaySettings(nats_url=nats_server.url, http_port=-1, **{"token_file": str(token_file), **settings})
        gateway, stop, ready = Gateway(made), asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(serve(gateway, made, stop, lambda _: ready.set()))
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED, timeout=60)
        if task.done():
            task.result()
        assert ready.is_set()
        running.append((task, stop))
        return gateway

    yield start
    for task, stop in running:
        stop.set()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture
async def gateway(start_gateway):
    return await start_gateway()


@pytest.fixture
async def client(gateway):
    async with aiohttp.ClientSession() as session:
        yield Client(session, gateway.api.url)
