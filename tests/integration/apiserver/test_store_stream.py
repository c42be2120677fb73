"""What holds of a store on a stream alone: restarts, what was trimmed, other writers, what a server loses or hides."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import nats
import pytest

from services.apiserver.store.jetstream_store import JetStreamStore
from services.apiserver.store.store_port import Compacted, Conflict, StoreTooLarge, StoreUnavailable
from services.apiserver.store.subject_names import barrier_subject
from tests.natsserver import ProcessServer, Server
from tests.support.stores import config_map, key, started
from tests.support.waiting import eventually

Make = Callable[..., JetStreamStore]
LostOne = tuple[JetStreamStore, Callable[[], None]]


@pytest.fixture
def make(nats_server: Server) -> Make:
    """Builds stores on one stream."""

    def build(**options: Any) -> JetStreamStore:
        return JetStreamStore(nats_server.url, **options)

    return build


@pytest.fixture
async def store(make: Make) -> AsyncIterator[JetStreamStore]:
    async with started(make()) as made:
        yield made


async def test_a_restart_finds_everything_again(make: Make) -> None:
    store = make()
    await store.start()
    for i in range(300):
        await store.put(key(f"n{i}"), config_map(f"n{i}"), 0)
    first = store.get(key("n5"))
    assert first is not None
    changed = await store.put(key("n5"), config_map("n5", x="1"), first.revision)
    six = store.get(key("n6"))
    assert six is not None
    gone = await store.delete(key("n6"), six.obj, six.revision)
    await store.stop()

    async with started(make()) as again:
        assert again.revision == gone.revision
        assert len(list(again.list("", "configmaps"))) == 299
        found = again.get(key("n5"))
        assert found is not None
        assert found.raw == changed.raw
        events = await again.watch("", "configmaps", changed.revision - 1).next(5)
        assert [(e.deleted, e.revision) for e in events] == [(False, changed.revision), (True, gone.revision)]
        assert events[0].prev is not None
        assert events[0].prev.revision == first.revision
        recreated = await again.put(key("n6"), config_map("n6"), 0)
        assert recreated.revision == gone.revision + 1


async def test_trimmed_history_is_refused_after_a_restart(make: Make) -> None:
    store = make(keep=3)
    await store.start()
    entry = await store.put(key("a"), config_map("a"), 0)
    first = entry.revision
    for i in range(10):
        entry = await store.put(key("a"), config_map("a", x=str(i)), entry.revision)
    await store.stop()
    async with started(make(keep=3)) as again:
        with pytest.raises(Compacted):
            again.watch("", "configmaps", first)
        floor = again.floor("", "configmaps")
        assert floor == entry.revision - 2
        assert len(await again.watch("", "configmaps", floor).next(5)) == 2


async def test_old_deletions_are_forgotten_and_stay_forgotten(make: Make) -> None:
    store = make(tombstones=20)
    await store.start()
    start = store.revision
    for i in range(30):
        entry = await store.put(key(f"n{i}"), config_map(f"n{i}"), 0)
        await store.delete(key(f"n{i}"), entry.obj, entry.revision)
    kept = await store.put(key("kept"), config_map("kept"), 0)
    await eventually(lambda: store.floor("", "configmaps") > start, "old deletions are forgotten")
    floor = store.floor("", "configmaps")
    again_a = await store.put(key("n0"), config_map("n0"), 0)
    await store.stop()
    async with started(make(tombstones=20)) as again:
        assert again.floor("", "configmaps") >= floor
        assert {e.key.name for e in again.list("", "configmaps")} == {"kept", "n0"}
        assert again.get(key("kept")).revision == kept.revision  # type: ignore[union-attr]
        await again.put(key("n0"), config_map("n0", x="1"), again_a.revision)


async def test_a_foreign_write_is_noticed_and_applied_in_order(make: Make) -> None:
    one, two = make(), make()
    await one.start()
    await two.start()
    try:
        first = await one.put(key("a"), config_map("a"), 0)
        with pytest.raises(Conflict):
            await two.put(key("a"), config_map("a", by="two"), 0)
        assert two.get(key("a")).revision == first.revision  # type: ignore[union-attr]
        later = await two.put(key("b"), config_map("b"), 0)
        mine = await one.put(key("c"), config_map("c"), 0)
        assert one.get(key("b")).revision == later.revision  # type: ignore[union-attr]
        assert mine.revision == later.revision + 1
    finally:
        await one.stop()
        await two.stop()


async def test_an_object_larger_than_a_message_is_refused(store: JetStreamStore) -> None:
    with pytest.raises(StoreTooLarge):
        await store.put(key("big"), config_map("big", x="y" * (8 << 20)), 0)
    await store.put(key("small"), config_map("small"), 0)


async def test_an_answer_beside_silence_counts_once_a_later_one_came(store: JetStreamStore) -> None:
    stream, ask = store._stream, store._stream.request
    refused, takes_again = asyncio.Event(), asyncio.Event()
    silent = store._subject(key("b"))

    async def failing(subject: str, data: bytes, headers: dict[str, str] | None = None) -> dict[str, Any]:
        """A disk fails between two messages; the server answers that the first is safe."""
        if subject == silent:
            raise TimeoutError
        if subject == barrier_subject("obj") and not takes_again.is_set():
            refused.set()
            raise TimeoutError
        return await ask(subject, data, headers)

    stream.request = failing  # type: ignore[method-assign]
    first, second = (asyncio.ensure_future(store.put(key(name), config_map(name), 0)) for name in "ab")
    await refused.wait()
    assert not first.done()
    assert store.get(key("a")) is None
    takes_again.set()
    assert (await first) is store.get(key("a"))
    with pytest.raises(StoreUnavailable, match="did not confirm"):
        await second


@pytest.mark.parametrize("names", ["a", "abc"])
async def test_what_a_server_left_with_is_sent_once_more(store: JetStreamStore, names: str) -> None:
    """given a server that leaves with writes it took, when another one answers, then they are there, once."""
    stream, ask = store._stream, store._stream.request
    left: list[str] = []

    async def leaving(subject: str, data: bytes, headers: dict[str, str] | None = None) -> dict[str, Any]:
        if not left and subject == store._subject(key(names[-1])):
            left.append(subject)
            raise TimeoutError
        return await ask(subject, data, headers)

    stream.request = leaving  # type: ignore[method-assign]
    made = await store.put_all([(key(name), config_map(name), 0) for name in names])
    assert left
    assert made == [store.get(key(name)) for name in names]
    held = await stream.api("STREAM.INFO", {"subjects_filter": f"{stream.prefix}.>"})
    assert [held["state"]["subjects"][store._subject(key(name))] for name in names] == [1] * len(names)


@pytest.fixture
async def lost_one(nats_server: Server, make: Make, tmp_path: Path) -> AsyncIterator[LostOne]:
    """A store whose server is about to lose the last write that it confirmed."""
    if not isinstance(nats_server, ProcessServer):
        pytest.skip("the files of the server are in a container")
    files, copy = tmp_path / "store", tmp_path / "copy"
    before = make()
    await before.start()
    await before.put(key("a"), config_map("a"), 0)
    await before.stop()
    nats_server.stop()
    shutil.copytree(files, copy)
    nats_server.start()
    store = make()
    await store.start()
    await store.put(key("b"), config_map("b"), 0)

    def lose() -> None:
        nats_server.kill9()
        shutil.rmtree(files)
        copy.rename(files)
        nats_server.start()

    yield store, lose
    await store.stop()


async def test_lost_messages_are_noticed_without_a_write(lost_one: LostOne) -> None:
    store, lose = lost_one
    lose()
    assert "restart" in await asyncio.wait_for(store.lost(), 60)
    assert not store.ready
    with pytest.raises(StoreUnavailable):
        await store.put(key("c"), config_map("c"), 0)


async def test_a_message_in_the_place_of_a_lost_one_is_noticed(
    lost_one: LostOne, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, lose = lost_one
    connected = asyncio.Event()

    async def look() -> None:
        connected.set()

    monkeypatch.setattr(store, "_check_confirmed", look)
    lose()
    await connected.wait()
    with pytest.raises(StoreUnavailable, match="restart"):
        await store.put(key("c"), config_map("c"), 0)
    assert "restart" in await asyncio.wait_for(store.lost(), 60)


async def test_visible_write_is_not_confirmed_without_an_answer(make: Make) -> None:
    store = make()
    await store.start()
    stream, ask = store._stream, store._stream.request
    tried = 0

    async def unanswered(subject: str, data: bytes, headers: dict[str, str] | None = None) -> dict[str, Any]:
        """The server shows what it was sent, and answers from the third message on."""
        nonlocal tried
        if subject.startswith("$JS.API."):
            return await ask(subject, data, headers)
        tried += 1
        if tried == 1:
            await ask(subject, data, headers)
        if tried < 3:
            raise TimeoutError
        assert tried > 3 or not written.done()
        return await ask(subject, data, headers)

    try:
        stream.request = unanswered  # type: ignore[method-assign]
        written = asyncio.ensure_future(store.put(key("a"), config_map("a"), 0))
        entry = await written
        assert store.get(key("a")) is entry
        assert tried == 3, "what is seen was not enough"
        later = await store.put(key("b"), config_map("b"), 0)
        assert later.revision > entry.revision + 1
        assert [event.revision for event in await store.watch("", "configmaps", 0).next(1)] == [
            entry.revision,
            later.revision,
        ]
    finally:
        await store.stop()


async def test_a_stream_that_vanished_is_not_trusted(make: Make, nats_server: Server) -> None:
    async with started(make()) as store:
        await store.put(key("a"), config_map("a"), 0)
        connection = await nats.connect(nats_server.url)
        await connection.jetstream().delete_stream("OBJECTS")
        await connection.close()
        with pytest.raises(StoreUnavailable):
            await store.put(key("b"), config_map("b"), 0)
        assert not store.ready
        assert "restart" in await asyncio.wait_for(store.lost(), 60)
