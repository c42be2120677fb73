"""Events leave the embedded API server some time after they were written last."""

from __future__ import annotations

from typing import Any

from schemas.manifest import Manifest
from services.apiserver.controllers.event_expiry import EventExpiry, written_at
from services.apiserver.store.memory_store import MemoryStore
from services.apiserver.store.store_port import Key
from tests.support.manual_clock import ManualClock


def event(name: str, **fields: Any) -> tuple[Key, Manifest]:
    return Key("", "events", "default", name), {"metadata": {"name": name, "namespace": "default"}, **fields}


async def names(store: MemoryStore) -> list[str]:
    return sorted(entry.key.name for entry in store.list("", "events"))


async def test_events_expire_after_their_last_write() -> None:
    clock, store = ManualClock(1_700_000_000.0), MemoryStore()
    await store.start()
    await store.put(*event("before", lastTimestamp="2023-11-14T22:12:20Z"), 0)
    await store.put(Key("", "configmaps", "default", "c"), {"metadata": {"name": "c"}}, 0)
    expiry = EventExpiry(store, 100.0, clock.now)
    await expiry.start()
    first = await store.put(*event("counted"), 0)
    await store.put(*event("once"), 0)
    clock.advance(50)
    await expiry.expire()
    assert await names(store) == ["counted", "once"]
    await store.put(*event("counted", count=2), first.revision)
    clock.advance(60)
    await expiry.expire()
    assert await names(store) == ["counted"]
    clock.advance(60)
    await expiry.expire()
    assert await names(store) == []
    assert len(list(store.list("", "configmaps"))) == 1
    await expiry.stop()
    await store.stop()


def test_age_is_that_of_the_last_write_an_event_says() -> None:
    both = {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "lastTimestamp": "2026-01-02T00:00:00Z"}
    only = {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "eventTime": None}
    assert written_at(both) - written_at(only) == 86_400
    assert written_at({"metadata": {}}) == 0.0
