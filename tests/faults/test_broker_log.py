"""A log that three servers keep: leaders change under load, clients leave a server that is cut off, a store is full."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from schemas.codec import decode
from schemas.topology import FACTS, OBSERVED, PARKED
from services._kit.base.log_errors import Ambiguous, LogError, Unavailable
from services._kit.log import streams as topology
from services._kit.log.connection import Connection
from services._kit.log.jetstream import IDENTITY_KEY, JetStreamLog
from services._kit.log.stream_port import Fence
from services._kit.runtime.appender import Appender
from services._kit.runtime.outbox import KeyedEvents
from tests.faults.log_load import Load, backend_on
from tests.log.running import eventually, insist, running
from tests.log.toy import Toy, wanted
from tests.natscluster import Cluster
from tests.natsserver import ProcessServer, find_binary
from tests.support.closing import closing
from tests.support.waiting import NotYet

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

STREAMS = (FACTS, OBSERVED, PARKED)
CHANGES = 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Three servers with the streams on all of them."""
    if find_binary() is None:
        pytest.skip("no nats-server found")
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.start()
        asyncio.run(_apply(made.urls))
        yield made
    finally:
        made.stop()


async def _apply(urls):
    async with closing(await Connection.open(urls)) as connection:

        async def applied():
            try:
                # Until they have elected a leader the servers do not answer at all.
                await connection.request("$JS.API.INFO", timeout=1.0)
                await topology.apply(connection, STREAMS, replicas=3)
            except (Ambiguous, Unavailable) as error:
                raise NotYet(repr(error)) from None
            return True

        await eventually(applied, "the streams of three servers", seconds=100)


@pytest.fixture
async def opened(cluster):
    """Opens connections to the servers, and closes them."""
    made = []

    async def open_one(**options):
        made.append(await Connection.open(cluster.urls, **options))
        return made[-1]

    yield open_one
    for connection in made:
        await connection.close()
    cluster.heal()


async def step_down(connection):
    calls = [f"STREAM.LEADER.STEPDOWN.{stream.name}" for stream in STREAMS]

    async def stepped_down():
        done = await asyncio.gather(*(connection.request(f"$JS.API.{call}") for call in calls), return_exceptions=True)
        if not any(not isinstance(answer, Exception) and b'"success":true' in answer.data for answer in done):
            raise NotYet(f"no stream has a leader right now: {done}")
        return True

    await eventually(stepped_down, "a leader that steps down")


async def test_leaders_change_under_load(opened):
    watching, loading = await opened(), await opened()
    backend = backend_on(watching)
    load = Load(backend_on(loading).logs)
    async with running(Toy(), backend) as toy:
        load.start()
        for number in range(CHANGES):
            await load.more(100, f"change {number}")
            await step_down(watching)
        await load.more(100, "the load goes on")
        await load.stop()
        await toy.until_idle(backend.facts)
        assert toy.runner.terms == 1, "a change of the log's leaders deposes nobody"
        await load.held_once(backend.facts, toy.state)


async def test_batches_behind_one_fence_take_turns(opened):
    """Several servers refuse the second of two batches that are under way with the same condition."""
    log = JetStreamLog(await opened(), "FACTS")
    # Tells that several servers keep it; whoever reads the log before it leads has asked.
    await insist(log.identity)
    lease = await insist(lambda: log.append([wanted("turns")]))
    fence = Fence(wanted("turns").subject, lease.last)
    appender = Appender({"FACTS": log}, "detector", lambda: fence)

    def groups(batch):
        messages = [wanted(f"turn-{batch}-{number}") for number in range(3)]
        return [KeyedEvents(message.subject, [decode(message.subject, message.data)]) for message in messages]

    outcomes = await asyncio.gather(*(appender.append(groups(batch)) for batch in range(8)))
    stored = [positions["FACTS"] for outcome in outcomes for positions in outcome.stored.values()]
    assert len(set(stored)) == 24
    assert not any(outcome.parked for outcome in outcomes)


async def test_a_client_leaves_a_server_that_is_cut_off(cluster, opened):
    connection = await opened(move_after=0.5)
    log = JetStreamLog(connection, "FACTS", timeout=0.5)
    port = connection.nc.connected_url.port
    cut_off = next(node for node in cluster.nodes if node.port == port)
    await asyncio.to_thread(cluster.cut_off, cut_off, silently=True)

    async def appended_elsewhere():
        # What is read may be answered by the copy of a server that is cut off; what is written is not.
        try:
            await log.append([wanted("elsewhere")])
        except LogError as error:
            raise NotYet(repr(error)) from None
        url = connection.nc.connected_url
        return url is not None and url.port != port

    await eventually(appended_elsewhere, "an append to another server", seconds=150)


async def test_a_full_store_is_told_and_waited_for(tmp_path):
    binary = find_binary()
    if binary is None:
        pytest.skip("no nats-server found")
    server = ProcessServer(binary, tmp_path, "max_file_store: 3MB")
    server.start()
    connection = await Connection.open(server.url)
    try:
        # Without a bound of its own, as an operator may have it: what is full is the server.
        config = {**topology.stream_config(FACTS), "max_bytes": -1, "metadata": {IDENTITY_KEY: "unbounded"}}
        await connection.request("$JS.API.STREAM.CREATE.FACTS", msgspec.json.encode(config))
        log = JetStreamLog(connection, "FACTS")
        appender = Appender({"FACTS": log}, "detector")
        stored = {}

        async def fill():
            for number in range(80):
                message = wanted(f"big-{number}", "m" * 50_000)
                event = decode(message.subject, message.data)
                outcome = await appender.append([KeyedEvents(number, [event])])
                assert not outcome.parked
                stored.update(outcome.stored)

        filling = asyncio.create_task(fill())
        await eventually(lambda: filling.done() or "insufficient resources" in appender.trouble)
        assert not filling.done()
        held = len(stored)
        assert held == (await log.identity()).last_seq
        server.stop()
        server.configure("max_file_store: 1GB")
        server.start()
        await filling
        assert [positions["FACTS"] for positions in stored.values()] == list(range(1, 81))
    finally:
        await connection.close()
        server.stop()
