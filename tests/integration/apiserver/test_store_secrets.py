"""Secrets lie encrypted on the stream of a store: over restarts, after an earlier version, until they are forgotten."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import nats
import pytest

from schemas.manifest import Manifest
from services._kit.content.master_keys import load_master_keys, new_master_keys
from services.apiserver.store.jetstream_store import JetStreamStore
from services.apiserver.store.secret_encryption import OWN_FILE, sealing_of
from services.apiserver.store.store_port import Compacted, Key, StoreUnavailable
from services.apiserver.store.subject_names import forget_subject
from tests.natsserver import Server

PASSWORD = "correct-horse-battery"
SHOP = Key("", "secrets", "shop", "db")


def secret(key: Key, text: str) -> Manifest:
    data = {"password": base64.b64encode(text.encode()).decode()}
    return {
        "kind": "Secret",
        "apiVersion": "v1",
        "metadata": {"name": key.name, "namespace": key.namespace},
        "data": data,
    }


def value(store: JetStreamStore, key: Key) -> str:
    entry = store.get(key)
    assert entry is not None
    return base64.b64decode(entry.obj["data"]["password"]).decode()


class Stores:
    """Starts stores on one stream, one after the other as a server does."""

    def __init__(self, url: str, directory: Path) -> None:
        self.url = url
        self.own = directory / "control"
        self._open: list[JetStreamStore] = []

    async def start(self, key_file: Path | None = None, *, sealed: bool = True, drop: bool = False) -> JetStreamStore:
        sealing = sealing_of(str(key_file or ""), self.own) if sealed else None
        store = JetStreamStore(self.url, sealing=sealing, drop_unreadable=drop)
        self._open.append(store)
        await store.start()
        return store

    async def close(self) -> None:
        for store in self._open:
            await store.stop()
        self._open.clear()


@pytest.fixture
async def stores(nats_server: Server, tmp_path: Path) -> AsyncIterator[Stores]:
    made = Stores(nats_server.url, tmp_path)
    yield made
    await made.close()


def on_disk(directory: Path, text: str) -> list[Path]:
    """Files that hold a text or its base64 form, whatever surrounds it."""
    raw = text.encode()
    wanted = {raw, *(base64.b64encode(b"x" * shift + raw)[4 * bool(shift) : -4] for shift in range(3))}
    files = [path for path in directory.rglob("*") if path.is_file()]
    return [path for path in files if any(form in path.read_bytes() for form in wanted)]


async def test_a_secret_is_read_after_a_restart_and_lies_encrypted(stores: Stores, tmp_path: Path) -> None:
    store = await stores.start()
    config = Key("", "configmaps", "shop", "db")
    await store.put(config, {**secret(config, "plain-words-here"), "kind": "ConfigMap"}, 0)
    entry = await store.put(SHOP, secret(SHOP, PASSWORD), 0)
    other = SHOP._replace(name="gone")
    await store.delete(other, secret(other, PASSWORD), (await store.put(other, secret(other, PASSWORD), 0)).revision)
    watch = store.watch("", "secrets", 0)
    assert [event.deleted for event in await watch.next(1)] == [False, False, True]
    await stores.close()
    assert on_disk(tmp_path / "store", "plain-words-here")
    assert on_disk(tmp_path, PASSWORD) == []
    own = tmp_path / "control" / OWN_FILE
    assert own.stat().st_mode & 0o777 == 0o600

    again = await stores.start()
    assert value(again, SHOP) == PASSWORD
    found = again.get(SHOP)
    assert found is not None
    assert found.raw == entry.raw
    events = await again.watch("", "secrets", entry.revision - 1).next(1)
    assert [event.entry.obj["data"] for event in events] == [secret(SHOP, PASSWORD)["data"]] * 3


async def test_plain_secrets_of_an_earlier_version_are_encrypted(stores: Stores, tmp_path: Path) -> None:
    store = await stores.start(sealed=False)
    gone = SHOP._replace(name="gone")
    first = await store.put(SHOP, secret(SHOP, "first-" + PASSWORD), 0)
    await store.put(SHOP, secret(SHOP, PASSWORD), first.revision)
    await store.delete(gone, secret(gone, PASSWORD), (await store.put(gone, secret(gone, PASSWORD), 0)).revision)
    await stores.close()
    assert on_disk(tmp_path, PASSWORD)

    for _ in range(2):
        store = await stores.start()
        assert value(store, SHOP) == PASSWORD
        assert store.get(gone) is None
        with pytest.raises(Compacted):
            store.watch("", "secrets", first.revision)
        await stores.close()
        assert on_disk(tmp_path, PASSWORD) == []
    store = await stores.start()
    await store.put(gone, secret(gone, "anew"), 0)
    present = store.get(SHOP)
    assert present is not None
    await store.put(SHOP, secret(SHOP, "anew"), present.revision)
    await stores.close()
    store = await stores.start()
    assert (value(store, SHOP), value(store, gone)) == ("anew", "anew")


async def test_secrets_stay_readable_with_a_later_key_file(stores: Stores, tmp_path: Path) -> None:
    await (await stores.start()).put(SHOP, secret(SHOP, PASSWORD), 0)
    await stores.close()
    given = tmp_path / "given.json"
    new_master_keys().save(given)
    assert value(await stores.start(given), SHOP) == PASSWORD
    await stores.close()
    (stores.own / OWN_FILE).unlink()
    assert value(await stores.start(given), SHOP) == PASSWORD


async def test_server_without_the_key_of_its_secrets_does_not_start(stores: Stores, tmp_path: Path) -> None:
    await (await stores.start()).put(SHOP, secret(SHOP, PASSWORD), 0)
    await stores.close()
    other = tmp_path / "other.json"
    new_master_keys().save(other)
    (stores.own / OWN_FILE).rename(tmp_path / "kept.json")
    with pytest.raises(StoreUnavailable, match=r"1 objects .* cannot be decrypted.*shop/db"):
        await stores.start(other)
    await stores.close()
    with pytest.raises(StoreUnavailable, match="no keys"):
        await stores.start(sealed=False)
    await stores.close()
    store = await stores.start(other, drop=True)
    assert store.get(SHOP) is None
    await store.put(SHOP, secret(SHOP, "anew"), 0)
    await stores.close()
    assert value(await stores.start(other), SHOP) == "anew"


async def test_former_secrets_are_forgotten_and_present_ones_stay(stores: Stores, tmp_path: Path) -> None:
    store = await stores.start()
    bank = SHOP._replace(namespace="bank")
    gone = SHOP._replace(name="gone")
    first = await store.put(SHOP, secret(SHOP, "the-past"), 0)
    await store.put(SHOP, secret(SHOP, PASSWORD), first.revision)
    await store.put(bank, secret(bank, "untouched"), 0)
    await store.delete(gone, secret(gone, "gone"), (await store.put(gone, secret(gone, "gone"), 0)).revision)
    # Everything that lies on the disk now, keys included, opens nothing of the past once they are forgotten.
    writers = [asyncio.create_task(store.put(key, secret(key, "busy"), 0)) for key in _many(50)]
    connection = await nats.connect(stores.url)
    try:
        answer = await connection.request(forget_subject("obj"), b"shop", timeout=60)
    finally:
        await connection.close()
    assert msgspec.json.decode(answer.data) == {"erased": 1}
    await asyncio.gather(*writers)
    assert value(store, SHOP) == PASSWORD
    await stores.close()

    store = await stores.start()
    assert (value(store, SHOP), value(store, bank)) == (PASSWORD, "untouched")
    assert all(value(store, key) == "busy" for key in _many(50))
    assert store.get(gone) is None
    with pytest.raises(Compacted):
        store.watch("", "secrets", first.revision)
    await store.put(gone, secret(gone, "anew"), 0)


def _many(count: int) -> list[Key]:
    return [SHOP._replace(name=f"n{number}") for number in range(count)]


async def test_new_namespaces_use_the_key_file_as_it_is_now(stores: Stores, tmp_path: Path) -> None:
    given = tmp_path / "given.json"
    new_master_keys().save(given)
    store = await stores.start(given)
    rotated = load_master_keys(given).rotated()
    rotated.only_current().save(given)
    await store.put(SHOP, secret(SHOP, PASSWORD), 0)
    given.write_text("{}")
    with pytest.raises(StoreUnavailable, match="namespace bank"):
        await store.put(SHOP._replace(namespace="bank"), secret(SHOP, PASSWORD), 0)
    rotated.only_current().save(given)
    await stores.close()
    assert value(await stores.start(given), SHOP) == PASSWORD
