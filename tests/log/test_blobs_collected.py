"""Bytes that no fact names go after a while; a writer that found them there is never left with a name of nothing."""

from __future__ import annotations

import pytest

from schemas.topology import STREAMS
from services._kit.content.blobs import BlobMissing, Blobs
from services._kit.log.stream_port import NewMessage
from services._rules.history.blob_grace import GRACE, REFRESH_AFTER, TRUST
from services.janitor.blob_gc import BlobCollector
from tests.support.manual_clock import ManualClock
from tests.support.memory_log import MemoryLog


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def logs(clock):
    return {stream.name: MemoryLog(stream, clock) for stream in STREAMS}


@pytest.fixture
def collector(logs, clock):
    return BlobCollector(logs, clock, 60.0)


def event(digest):
    return b'{"type":"WorkRendered.v1","digest":"%s"}' % digest.encode()


async def test_unnamed_blobs_are_collected_and_named_ones_stay(logs, clock, collector):
    blobs = Blobs(logs["BLOBS"], clock=clock)
    present, past, nobodys = await blobs.put_many([b"present", b"past", b"nobody's"])
    await logs["FACTS"].append([NewMessage("work.m1.configmaps._.a", event(present))])
    # A stream that others source from takes any subject.
    logs["HISTORY"] = MemoryLog(next(stream for stream in STREAMS if stream.name == "FACTS"), clock)
    await logs["HISTORY"].append([NewMessage("template.1.configmaps._.a", event(past))])
    assert await collector.collect() == 0, "too young"
    clock.advance(GRACE + 1)
    assert await collector.collect() == 1
    fresh = Blobs(logs["BLOBS"], clock=clock)
    assert await fresh.get(present) == b"present"
    assert await fresh.get(past) == b"past"
    with pytest.raises(BlobMissing):
        await fresh.get(nobodys)


async def test_writer_protects_old_blobs_from_a_running_collector(logs, clock):
    """The collector has looked for names already when the writer comes to need the bytes again."""
    await Blobs(logs["BLOBS"], clock=clock).put(b"again")
    clock.advance(GRACE + 1)
    writer = Blobs(logs["BLOBS"], clock=clock)
    blobs, found = logs["BLOBS"], []

    class Meanwhile:
        """BLOBS, with a writer that comes between the collector's look and its purge."""

        name = "BLOBS"

        async def counts(self, pattern):
            return await blobs.counts(pattern)

        async def last(self, subject):
            message = await blobs.last(subject)
            found.append(await writer.put(b"again"))
            return message

        async def purge(self, pattern, up_to):
            return await blobs.purge(pattern, up_to)

    await BlobCollector({**logs, "BLOBS": Meanwhile()}, clock, 60.0).collect()
    assert writer.may_name(found[0])
    assert await Blobs(blobs, clock=clock).get(found[0]) == b"again"


async def test_writer_checks_blobs_it_named_long_ago(logs, clock, collector):
    writer = Blobs(logs["BLOBS"], clock=clock)
    digest = await writer.put(b"reverted")
    assert writer.may_name(digest)
    clock.advance(GRACE + 1)
    await collector.collect()
    assert not writer.may_name(digest)
    assert await writer.put(b"reverted") == digest
    assert await Blobs(logs["BLOBS"], clock=clock).get(digest) == b"reverted"


async def test_whatever_may_be_named_outlives_the_next_collection(logs, clock, collector):
    """Stored, found again just before it counts as old, named at the last moment: the latest that the rules allow."""
    writer = Blobs(logs["BLOBS"], clock=clock)
    digest = await writer.put(b"late")
    clock.advance(REFRESH_AFTER - 1)
    assert await writer.put(b"late") == digest
    assert (await logs["BLOBS"].identity()).last_seq == 1, "young bytes are not written again"
    clock.advance(TRUST - 1)
    assert writer.may_name(digest)
    await collector.collect()
    assert await Blobs(logs["BLOBS"], clock=clock).get(digest) == b"late"


async def test_batch_stores_old_blobs_anew(logs, clock):
    first = Blobs(logs["BLOBS"], clock=clock)
    await first.put_many([b"old"])
    clock.advance(REFRESH_AFTER + 1)
    await first.put_many([b"young"])
    before = (await logs["BLOBS"].identity()).last_seq
    digests = await Blobs(logs["BLOBS"], clock=clock).put_many([b"old", b"young", b"new"])
    assert (await logs["BLOBS"].identity()).last_seq == before + 2
    assert set((await Blobs(logs["BLOBS"], clock=clock).get_many(digests)).values()) == {b"old", b"young", b"new"}


async def test_base_of_a_short_blob_is_collected_after_it(logs, clock, collector):
    base = b"x" * (1 << 20)
    (copy,) = await Blobs(logs["BLOBS"], clock=clock).put_alike(base, [base + b"y"])
    work = await logs["FACTS"].append([NewMessage("work.m1.configmaps._.a", event(copy))])
    clock.advance(GRACE + 1)
    assert await collector.collect() == 0, "nothing names the base, and it is needed"
    assert await Blobs(logs["BLOBS"], clock=clock).get(copy) == base + b"y"
    await logs["FACTS"].purge("work.m1.configmaps._.a", work.last)
    assert await collector.collect() == 1
    assert await collector.collect() == 2, "the base and the mark"
    assert await logs["BLOBS"].counts("blob.*") == {}
