"""How long the history of a resource gets: by events, by bytes, and less of it after a start."""

import pytest

from services.apiserver.store import object_index as projection
from services.apiserver.store.object_index import Projection
from services.apiserver.store.store_port import Compacted, Entry, Key, encode_value


def put(state: Projection, name: str, revision: int, size: int = 0) -> int:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "x" * size}}
    entry = Entry(Key("", "configmaps", "ns", name), encode_value(obj), revision)
    state.apply_put(entry)
    return len(entry.raw)


def test_large_objects_shorten_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection, "HISTORY_BYTES", 10_000)
    state = Projection()
    for revision in range(1, 31):
        put(state, "a", revision, 1000)
    bucket = state.bucket("", "configmaps")
    assert sum(len(event.entry.raw) for event in bucket.events) <= 10_000
    assert bucket.floor == bucket.events[0].revision - 1
    with pytest.raises(Compacted):
        state.watch("", "configmaps", bucket.floor - 1)
    state.watch("", "configmaps", bucket.floor)


async def test_watch_after_shortening_gets_the_newest_events() -> None:
    state = Projection()
    size = max(put(state, "a", revision, 100) for revision in range(1, 21))
    bucket = state.bucket("", "configmaps")
    bucket.shorten(3 * size)
    assert [event.revision for event in await state.watch("", "configmaps", 17).next(1)] == [18, 19, 20]
    assert bucket.floor == 17
    with pytest.raises(Compacted):
        state.watch("", "configmaps", 16)
    bucket.shorten(3 * size)
    assert bucket.floor == 17
    bucket.shorten(0)
    assert (bucket.events, bucket.floor) == ([], 20)


def test_watch_before_the_dropped_history_is_compacted() -> None:
    state = Projection(history=10)
    put(state, "a", 1)
    for revision in range(2, 40):
        put(state, "a", revision)
    assert len(state.bucket("", "configmaps").events) <= 10
    with pytest.raises(Compacted):
        state.watch("", "configmaps", 1)
