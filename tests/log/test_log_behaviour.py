"""What every log does: sequences, atomic batches, fences, expectations, limits and reads."""

from __future__ import annotations

import asyncio

import pytest

from schemas.envelope import HEADER_EVENT_ID
from schemas.topology import OBSERVED, Stream
from services._kit.base.log_errors import Conflict, Duplicate, FenceLost, Refused, StreamFull, TooLarge
from services._kit.log.stream_port import MAX_BATCH, Appended, Fence, NewMessage, match


def new(subject, data=b"{}", **more):
    return NewMessage(subject, data, **more)


async def test_a_batch_gets_contiguous_sequences_and_headers_survive(backend):
    log = backend.facts
    assert (await log.append([new("cluster.a", b"1", headers={"X": "y"})])).last == 1
    appended = await log.append([new(f"cluster.c{i}", str(i).encode()) for i in range(5)])
    assert (appended.first, appended.last) == (2, 6)
    stored = await log.get(4)
    assert (stored.subject, stored.data) == ("cluster.c2", b"2")
    first = await log.last("cluster.a")
    assert (first.seq, first.data, first.headers["X"]) == (1, b"1", "y")
    assert first.time > 1_600_000_000


async def test_lost_fence_refuses_batches_and_single_messages(backend):
    log = backend.facts
    lease = await log.append([new("lease.s")])
    held = Fence("lease.s", lease.last)
    await log.append([new("cluster.a"), new("cluster.b")], held)
    await log.append([new("lease.s")])
    before = (await log.identity()).last_seq
    with pytest.raises(FenceLost):
        await log.append([new("cluster.a"), new("cluster.c")], held)
    with pytest.raises(FenceLost):
        await log.append([new("cluster.c")], held)
    assert (await log.identity()).last_seq == before
    assert await log.last("cluster.c") is None


async def test_single_messages_are_stored_in_order_with_the_fence(backend):
    log = backend.facts
    held = Fence("lease.s", (await log.append([new("lease.s")])).last)
    results = await log.append_each([new(f"cluster.c{i}", str(i).encode()) for i in range(4)], held)
    assert [(result.first, result.last) for result in results] == [(2, 2), (3, 3), (4, 4), (5, 5)]
    assert [message.data async for message in log.read(["cluster.*"])] == [b"0", b"1", b"2", b"3"]
    await log.append([new("lease.s")])
    lost = await log.append_each([new("cluster.d"), new("cluster.e")], held)
    assert [type(result) for result in lost] == [FenceLost, FenceLost]
    assert await log.last("cluster.d") is None


async def test_only_refused_single_messages_are_missing(backend):
    log = await backend.make(Stream(name="SMALL", subjects=("small.*",), purpose="test", max_bytes=1500, discard="new"))
    results = await log.append_each([new("small.a", b"x" * 100), new("small.b", b"x" * 5000), new("small.c")])
    assert [type(result) for result in results] == [Appended, StreamFull, Appended]
    assert [message.subject async for message in log.read(["small.*"])] == ["small.a", "small.c"]


async def test_repeated_single_message_answers_its_first_sequence(backend):
    message = new("cluster.a", headers={HEADER_EVENT_ID: "1"})
    first = await backend.facts.append_each([message, new("cluster.b")])
    assert await backend.facts.append_each([message]) == first[:1]


async def test_failed_expectation_differs_from_a_lost_fence(backend):
    log = backend.facts
    lease = await log.append([new("lease.s")])
    fence = Fence("lease.s", lease.last)
    await log.append([new("cluster.b")])
    with pytest.raises(Conflict) as caught:
        await log.append([new("cluster.a"), new("cluster.b", expect_last=0)], fence)
    assert not isinstance(caught.value, FenceLost)
    await log.append([new("lease.s")])
    with pytest.raises(FenceLost):
        await log.append([new("cluster.a"), new("cluster.c", expect_last=0)], fence)


async def test_expected_zero_creates_once(backend):
    log = backend.facts
    await log.append([new("cluster.a", expect_last=0)])
    with pytest.raises(Conflict):
        await log.append([new("cluster.a", expect_last=0)])
    with pytest.raises(Conflict):
        await log.append([new("cluster.b", expect_last=0), new("cluster.a", expect_last=0)])
    assert await log.last("cluster.b") is None


async def test_the_same_batch_sent_twice_is_stored_once(backend):
    log = backend.facts
    batch = [new(f"cluster.c{i}", headers={HEADER_EVENT_ID: f"id-{i}"}) for i in range(3)]
    first = await log.append(batch)
    with pytest.raises(Duplicate):
        await log.append(batch)
    assert (await log.identity()).last_seq == first.last


async def test_a_single_message_sent_twice_answers_its_first_sequence(backend):
    log = backend.facts
    lease = await log.append([new("lease.s")])
    fence = Fence("lease.s", lease.last)
    message = new("cluster.a", headers={HEADER_EVENT_ID: "only"})
    first = await log.append([message], fence)
    assert await log.append([message], fence) == first


async def test_a_refused_batch_does_not_burn_its_id(backend):
    log = backend.facts
    batch = [new(f"cluster.c{i}", headers={HEADER_EVENT_ID: f"id-{i}"}) for i in range(3)]
    with pytest.raises(FenceLost):
        await log.append(batch, Fence("lease.s", 7))
    assert (await log.append(batch)).last == 3


async def test_oversized_batch_is_refused_before_it_is_sent(backend):
    log = backend.facts
    with pytest.raises(TooLarge):
        await log.append([new(f"cluster.c{i}") for i in range(MAX_BATCH + 1)])
    with pytest.raises(TooLarge):
        await log.append([new(f"cluster.c{i}", b"x" * (3 << 20)) for i in range(2)])
    with pytest.raises(ValueError, match="empty"):
        await log.append([])
    with pytest.raises(ValueError, match="fenced"):
        await log.append([new("cluster.a", expect_last=0)], Fence("lease.s", 0))
    with pytest.raises(ValueError, match="behind an earlier"):
        await log.append([new("cluster.a"), new("cluster.a", expect_last=0)])
    assert (await log.identity()).last_seq == 0


async def test_a_full_batch_is_stored(backend):
    appended = await backend.facts.append([new(f"cluster.c{i}") for i in range(MAX_BATCH)])
    assert (appended.first, appended.last) == (1, MAX_BATCH)


async def test_a_subject_keeps_only_its_newest_messages(backend):
    log = backend.logs["OBSERVED"]
    kept = OBSERVED.max_per_subject
    for i in range(kept + 3):
        await log.append([new("observed.m.a.b.c", str(i).encode())])
    assert [m.data async for m in log.read(["observed.>"])] == [str(i).encode() for i in range(3, kept + 3)]
    assert await log.get(1) is None


async def test_a_full_stream_says_so(backend):
    log = await backend.make(Stream(name="SMALL", subjects=("small.*",), purpose="test", max_bytes=4096, discard="new"))
    await log.append([new("small.1", b"x" * 3000)])
    with pytest.raises(StreamFull):
        await log.append([new("small.2", b"x" * 3000)])


async def test_last_many_answers_in_log_order_and_takes_wildcards(backend):
    log = backend.facts
    await log.append([new("cluster.a"), new("cluster.b"), new("cluster.a"), new("lease.s")])
    found = await log.last_many(["cluster.*", "lease.s", "lease.none"])
    assert [(m.subject, m.seq) for m in found] == [("cluster.b", 2), ("cluster.a", 3), ("lease.s", 4)]
    assert await log.last_many(["lease.none"]) == []


async def test_last_many_takes_more_subjects_than_one_request_may_name(backend):
    log = backend.facts
    subjects = [f"cluster.c{i}" for i in range(1200)]
    for start in range(0, 1200, 400):
        await log.append([new(subject) for subject in subjects[start : start + 400]])
    assert [m.subject for m in await log.last_many(subjects)] == subjects


async def test_what_is_absent_is_none(backend):
    log = backend.facts
    assert await log.last("cluster.a") is None
    assert await log.peek("cluster.a") is None
    assert await log.get(1) is None
    await log.append([new("cluster.a", b"x")])
    assert (await log.peek("cluster.a")).data == b"x"


async def test_a_bounded_read_ends(backend):
    log = backend.facts
    await log.append([new("cluster.a"), new("lease.s"), new("cluster.b"), new("cluster.c")])
    assert [m.seq async for m in log.read(["cluster.*"])] == [1, 3, 4]
    assert [m.seq async for m in log.read(["cluster.*"], start=2, stop=3)] == [3]
    assert [m.seq async for m in log.read(["binding.>"])] == []


async def test_concurrent_batches_do_not_mix(backend):
    log = backend.facts
    appended = await asyncio.gather(*(log.append([new(f"cluster.b{b}m{i}") for i in range(20)]) for b in range(8)))
    assert sorted(a.first for a in appended) == [1 + 20 * b for b in range(8)]
    for number, one in enumerate(appended):
        assert [(await log.get(seq)).subject for seq in (one.first, one.last)] == [
            f"cluster.b{number}m0",
            f"cluster.b{number}m19",
        ]


async def test_the_identity_is_stable_and_counts(backend):
    log = backend.facts
    before = await log.identity()
    await log.append([new("cluster.a")])
    after = await log.identity()
    assert before.id == after.id != ""
    assert (before.last_seq, after.last_seq) == (0, 1)


async def test_a_foreign_subject_is_not_stored(backend):
    before = (await backend.facts.identity()).last_seq
    for count in (1, 2):
        with pytest.raises(Refused):
            await backend.facts.append([new(f"observed.m.a.b.c{i}") for i in range(count)])
    assert (await backend.facts.identity()).last_seq == before


@pytest.mark.parametrize(
    ("pattern", "subject", "expected"),
    [
        ("cluster.*", "cluster.a", True),
        ("cluster.*", "cluster.a.b", False),
        ("work.>", "work.m.a", True),
        ("work.>", "work", False),
        ("work.*.a", "work.m.a", True),
        ("work.*.a", "work.m.b", False),
        ("cluster.a", "cluster.a", True),
        ("cluster.a.b", "cluster.a", False),
    ],
)
def test_patterns_match_as_the_server_matches(pattern, subject, expected):
    assert match(pattern, subject) is expected
