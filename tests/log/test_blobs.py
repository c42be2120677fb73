"""Manifest bytes are stored once, read through a bounded cache, and never mistaken for others."""

from __future__ import annotations

import asyncio

import pytest

from services._kit.base.log_errors import Refused
from services._kit.content.blobs import BlobMissing, Blobs, digest_of
from services._kit.log.stream_port import NewMessage


@pytest.fixture
def log(backend):
    return backend.logs["BLOBS"]


async def count(log):
    return len([message async for message in log.read(["blob.*"])])


async def test_what_was_put_is_read_back_by_another_process(log):
    digest = await Blobs(log).put(b"manifest")
    assert digest == digest_of(b"manifest")
    assert await Blobs(log).get(digest) == b"manifest"


async def test_the_same_bytes_are_stored_once(log):
    for _ in range(2):
        blobs = Blobs(log)
        assert await blobs.put(b"same") == await blobs.put(b"same")
    assert (await log.identity()).last_seq == 1


async def test_a_batch_with_known_and_new_blobs_stores_the_new_ones(log):
    await Blobs(log).put_many([b"a", b"b"])
    digests = await Blobs(log).put_many([b"b", b"c", b"a", b"d", b"c"])
    assert digests == [digest_of(data) for data in (b"b", b"c", b"a", b"d", b"c")]
    assert await count(log) == 4
    assert (await log.identity()).last_seq == 4


async def test_many_processes_putting_the_same_blobs_agree(log):
    data = [str(i).encode() for i in range(40)]
    await asyncio.gather(*(Blobs(log).put_many(data) for _ in range(4)))
    assert await count(log) == 40
    assert set((await Blobs(log).get_many([digest_of(one) for one in data])).values()) == set(data)


async def test_more_blobs_than_a_batch_takes(log):
    data = [str(i).encode() for i in range(620)]
    await Blobs(log).put_many(data)
    assert await count(log) == 620


async def test_the_cache_is_bounded_in_bytes(log):
    blobs = Blobs(log, cache_bytes=1000)
    digests = await blobs.put_many([bytes([i]) * 400 for i in range(5)])
    assert blobs.cached_bytes <= 1000
    for i, digest in enumerate(digests):
        assert await blobs.get(digest) == bytes([i]) * 400
    assert blobs.cached_bytes <= 1000


async def test_a_missing_blob_says_which(log):
    with pytest.raises(BlobMissing, match="abc"):
        await Blobs(log).get("abc")
    assert await Blobs(log).get_many(["abc"]) == {}


async def test_bytes_under_a_wrong_name_are_refused(log):
    await log.append([NewMessage("blob.abc", b"forged")])
    with pytest.raises(Refused, match="other bytes"):
        await Blobs(log).get("abc")


async def test_similar_blobs_are_stored_in_short_and_read_whole(log):
    base = b"".join(digest_of(bytes([number])).encode() for number in range(250)) * 64
    copies = [base.replace(b"0", b"-", number) for number in (1, 2)] + [b"something else", base]
    await Blobs(log).put(base)
    digests = await Blobs(log).put_alike(base, copies)
    assert digests == [digest_of(copy) for copy in copies]
    assert sum([len(message.data) async for message in log.read(["blob.*"])]) < 1.01 * len(base)
    for blobs in (Blobs(log), Blobs(log, cache_bytes=0)):
        assert [await blobs.get(digest) for digest in digests] == copies
        assert await blobs.get_many(digests) == dict(zip(digests, copies, strict=True))
    before = (await log.identity()).last_seq
    assert await Blobs(log).put_alike(base, copies) == digests
    assert await Blobs(log).put_many(copies) == digests
    assert (await log.identity()).last_seq == before


async def test_a_short_form_without_what_it_builds_on_is_missing(log):
    base = b"x" * (1 << 20)
    (digest,) = await Blobs(log).put_alike(base, [base + b"y"])
    await log.purge(f"blob.{digest_of(base)}", (await log.identity()).last_seq)
    with pytest.raises(BlobMissing, match=digest_of(base)):
        await Blobs(log).get(digest)
    assert await Blobs(log).get_many([digest]) == {}
