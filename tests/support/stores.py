"""ConfigMaps for stores of the API server, and stores that run for a while."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from schemas.manifest import Manifest
from services.apiserver.store.jetstream_store import JetStreamStore
from services.apiserver.store.memory_store import MemoryStore
from services.apiserver.store.store_port import Key

AnyStore = TypeVar("AnyStore", MemoryStore, JetStreamStore)


def key(name: str, namespace: str = "ns", resource: str = "configmaps", group: str = "") -> Key:
    """The key of a ConfigMap, or of an object of another kind."""
    return Key(group, resource, namespace, name)


def config_map(name: str, namespace: str = "ns", **data: str) -> Manifest:
    """A ConfigMap with this data."""
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "namespace": namespace}, "data": data}


@asynccontextmanager
async def started(store: AnyStore) -> AsyncIterator[AnyStore]:
    """The store, started until the block ends."""
    await store.start()
    try:
        yield store
    finally:
        await store.stop()
