"""Answers are swallowed, connections cut and held: the runtime finds out what happened and goes on where it was."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from schemas.codec import decode
from schemas.topology import FACTS
from services._kit.base.log_errors import Ambiguous, LogReplaced, Unavailable
from services._kit.log import streams as topology
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import Fence, NewMessage
from services._kit.runtime.appender import Appender
from services._kit.runtime.outbox import KeyedEvents
from tests.faults.proxy import Proxy
from tests.log.running import eventually
from tests.log.toy import wanted

pytestmark = pytest.mark.faults


@pytest.fixture
async def proxy(nats_server):
    async with Proxy(nats_server.port) as made:
        yield made


@pytest.fixture
async def behind(connect, connection, proxy):
    """FACTS as seen through the proxy."""
    return JetStreamLog(await connect(proxy.url), "FACTS")


def group(name):
    message = wanted(name)
    return KeyedEvents(name, [decode(message.subject, message.data)])


async def until_stored(log, seq):
    """Return once the log holds a sequence."""
    pump = log.pump([">"], start=1)
    async for delivery in pump:
        if delivery.position >= seq:
            break
    await pump.close()


async def bindings(log):
    return [message.subject async for message in log.read(["binding.>"])]


@pytest.mark.parametrize("count", [1, 2, 50])
async def test_a_swallowed_answer_stores_nothing_twice(proxy, behind, connection, count):
    log = JetStreamLog(connection, "FACTS")
    appender = Appender({"FACTS": behind}, "detector")
    await appender.append([group("warm")])
    proxy.swallow_answers = True
    appending = asyncio.create_task(appender.append([group(f"d{i}") for i in range(count)]))
    await until_stored(log, 1 + count)
    await eventually(lambda: proxy.swallowed > 0, "an answer is swallowed")
    proxy.cut()
    proxy.swallow_answers = False
    outcome = await appending
    assert outcome.stored == {f"d{i}": {"FACTS": i + 2} for i in range(count)}
    assert appender.stats.ambiguous >= 1
    assert len(await bindings(log)) == 1 + count


async def test_unexplained_refusal_is_retried(connection, monkeypatch):
    """Servers that elect a leader refuse to say who holds the lease."""
    log = JetStreamLog(connection, "FACTS")
    lease = await log.append([wanted("lease")])
    stale = Fence(wanted("lease").subject, lease.last - 1)

    async def silent(subject):
        raise Unavailable("no leader")

    monkeypatch.setattr(log, "last", silent)
    results = await log.append_each([wanted("a"), wanted("b")], stale)
    assert [type(result) for result in results] == [Unavailable, Unavailable]
    with pytest.raises(Unavailable, match="no leader"):
        await log.append([wanted("a")], stale)


async def test_a_broken_connection_fails_requests_at_once(proxy, behind):
    proxy.hold()
    asking = asyncio.create_task(behind.identity())
    await asyncio.sleep(0)
    proxy.cut()
    with pytest.raises(Ambiguous, match="lost"):
        await asking
    proxy.release()


async def test_a_batch_that_never_left_is_sent_later(proxy, behind, connection):
    appender = Appender({"FACTS": behind}, "detector")
    proxy.accept = False
    proxy.cut()
    await eventually(lambda: not behind.connection.is_connected)
    appending = asyncio.create_task(appender.append([group("a"), group("b")]))
    await eventually(lambda: appender.trouble)
    proxy.accept = True
    outcome = await appending
    assert outcome.stored == {"a": {"FACTS": 1}, "b": {"FACTS": 2}}


async def test_a_reader_goes_on_where_it_was_after_every_cut(proxy, behind, connection):
    log = JetStreamLog(connection, "FACTS")
    pump = behind.pump(["binding.>"], window=64)
    seen = []
    total = 1500

    async def read():
        async for delivery in pump:
            seen.extend(message.seq for message in delivery.messages)
            if len(seen) >= total:
                return

    reading = asyncio.create_task(read())
    for start in range(0, total, 100):
        await log.append([wanted(f"d{i}") for i in range(start, start + 100)])
        if start % 300 == 0:
            await eventually(lambda start=start: len(seen) > start // 2)
            proxy.cut()
    await reading
    await pump.close()
    assert seen == list(range(1, total + 1))
    assert pump.stats.consumers > 1


async def test_a_reader_survives_the_loss_of_its_consumer(behind, connection):
    log = JetStreamLog(connection, "FACTS")
    pump = behind.pump(["binding.>"])
    seen = []

    async def read():
        async for delivery in pump:
            seen.extend(message.seq for message in delivery.messages)

    reading = asyncio.create_task(read())
    await log.append([wanted("a")])
    await eventually(lambda: seen == [1])
    answer = await connection.request(f"$JS.API.CONSUMER.DELETE.FACTS.{pump._consumer}")
    assert b'"success":true' in answer.data
    await log.append([wanted("b")])
    await eventually(lambda: seen == [1, 2])
    await pump.close()
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert pump.stats.consumers == 2 + pump.stats.silences


async def test_a_stream_made_anew_behind_a_reader_ends_it(proxy, behind, connection):
    log = JetStreamLog(connection, "FACTS")
    await log.append([wanted("a")])
    pump = behind.pump(["binding.>"])
    deliveries = pump.__aiter__()
    assert [m.seq for m in (await anext(deliveries)).messages] == [1]
    await connection.request("$JS.API.STREAM.DELETE.FACTS")
    await topology.apply_stream(connection, FACTS)
    await log.append([wanted("x"), wanted("y"), wanted("z")])
    proxy.cut()

    async def drain():
        async for _ in deliveries:
            pass

    with pytest.raises(LogReplaced, match="created again"):
        await drain()


@pytest.mark.parametrize(("after", "said"), [(1, "ends at 1"), (5, "lost message 5"), (9, "lost message 5")])
async def test_a_log_that_lost_its_end_ends_the_reader(proxy, behind, connection, after, said):
    """Restored from an older backup under the same identity, or a disk that failed; since then it grew again."""
    log = JetStreamLog(connection, "FACTS")
    identity = (await log.identity()).id
    await log.append([wanted(f"d{i}") for i in range(5)])
    pump = behind.pump(["binding.>"])
    deliveries = pump.__aiter__()
    while (await anext(deliveries)).position < 5:
        continue
    await connection.request("$JS.API.STREAM.DELETE.FACTS")
    await topology.apply_stream(connection, FACTS)
    info = await connection.request("$JS.API.STREAM.INFO.FACTS")
    config = msgspec.json.decode(info.data)["config"]
    config["metadata"]["fleetlog-id"] = identity
    await connection.request("$JS.API.STREAM.UPDATE.FACTS", msgspec.json.encode(config))
    await log.append([wanted(f"d{i}") for i in range(after)])
    proxy.cut()

    async def drain():
        async for _ in deliveries:
            pass

    with pytest.raises(LogReplaced, match=said):
        await drain()


async def test_a_slow_fold_holds_the_server_back_and_drops_nothing(behind, connection):
    log = JetStreamLog(connection, "FACTS")
    total, window = 5000, 100
    pump = behind.pump(["binding.>"], start=1, window=window)
    seen, largest = [], 0
    for start in range(0, total, 500):
        await log.append([NewMessage(f"binding.1.a.b.d{i}", b"x" * 500) for i in range(start, start + 500)])
    async for delivery in pump:
        seen.extend(message.seq for message in delivery.messages)
        largest = max(largest, len(delivery.messages), len(pump._buffer))
        await asyncio.sleep(0.001)
        if len(seen) == total:
            break
    await pump.close()
    assert seen == list(range(1, total + 1))
    assert largest <= window
    assert pump.stats.consumers == 1 + pump.stats.silences
