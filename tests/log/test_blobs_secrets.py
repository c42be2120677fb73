"""Secret manifests lie encrypted on the log under names nobody can guess, and are gone with their namespace's key."""

from __future__ import annotations

import asyncio
from hashlib import sha256

import msgspec
import pytest

from schemas.subjects import blob, key
from services._kit.base.settings import SettingsError
from services._kit.content.blobs import Blobs
from services._kit.content.envelope_encryption import KeyUnavailable, Vault, WrappedKey, fresh, unwrap, wrap
from services._kit.content.master_keys import MasterKeys, load_master_keys, new_master_keys
from services._kit.log.stream_port import NewMessage

SECRET = b'{"kind":"Secret","data":{"password":"aHVudGVyMg=="}}'


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "keys.json"
    new_master_keys().save(path)
    return path


@pytest.fixture
async def opened(backend, key_file):
    vaults = []

    async def make(path=key_file):
        vault = Vault(backend.logs["KEYS"], path)
        await vault.start()
        vaults.append(vault)
        return Blobs(backend.logs["BLOBS"], vault=vault)

    yield make
    for vault in vaults:
        await vault.stop()


async def stored(backend):
    messages = []
    for stream in ("BLOBS", "KEYS"):
        messages += [message async for message in backend.logs[stream].read([">"])]
    return messages


async def test_secret_blob_is_encrypted_and_readable_elsewhere(backend, opened):
    digest = await (await opened()).put_secret("shop", SECRET)
    assert await (await opened()).get(digest) == SECRET
    messages = await stored(backend)
    assert len(messages) == 2
    assert not any(b"hunter" in message.data or b"aHVudGVyMg" in message.data for message in messages)
    assert sha256(SECRET).hexdigest() not in digest


async def test_equal_secrets_share_a_blob_within_a_namespace(backend, opened):
    one, two = await opened(), await opened()
    first = await one.put_secret("shop", SECRET)
    assert await two.put_secret("shop", SECRET) == first
    assert await one.put_secret("bank", SECRET) != first
    assert len(await backend.logs["BLOBS"].counts("blob.*")) == 2
    assert (await backend.logs["BLOBS"].identity()).last_seq == 2


async def test_without_a_key_nothing_secret_is_stored_or_read(backend, opened):
    digest = await (await opened()).put_secret("shop", SECRET)
    without = Blobs(backend.logs["BLOBS"])
    with pytest.raises(KeyUnavailable, match="no key"):
        await without.put_secret("shop", b"other")
    with pytest.raises(KeyUnavailable, match="no key"):
        await without.get(digest)
    assert await without.get_many([digest]) == {}
    assert (await backend.logs["BLOBS"].identity()).last_seq == 1


async def test_dropped_key_makes_a_namespace_unreadable(backend, opened, key_file):
    blobs = await opened()
    digest = await blobs.put_secret("shop", SECRET)
    other = await blobs.put_secret("bank", SECRET)
    changed = asyncio.Event()
    blobs.vault.on_changed = lambda namespace: changed.set() if namespace == "shop" else None
    new = fresh(load_master_keys(key_file), "shop")
    await backend.logs["KEYS"].append([NewMessage(key("shop"), msgspec.json.encode(new))])
    await asyncio.wait_for(changed.wait(), 60)
    for reader in (blobs, await opened()):
        with pytest.raises(KeyUnavailable, match="dropped"):
            await reader.get(digest)
        assert await reader.get(other) == SECRET
    assert await blobs.put_secret("shop", SECRET) != digest


async def test_a_rotated_master_key_opens_what_was_there_before(backend, opened, key_file):
    running = await opened()
    digest = await running.put_secret("shop", SECRET)
    masters = load_master_keys(key_file).rotated()
    masters.save(key_file)
    (message,) = await backend.logs["KEYS"].last_many(["key.*"])
    old = msgspec.json.decode(message.data, type=WrappedKey)
    new = wrap(masters, old.namespace, old.id, unwrap(masters, old))
    await backend.logs["KEYS"].append([NewMessage(message.subject, msgspec.json.encode(new), {}, message.seq)])
    masters.only_current().save(key_file)
    assert await (await opened()).get(digest) == SECRET
    assert await running.get(digest) == SECRET
    # A service that started before the rotation makes keys with the new master key.
    await running.put_secret("bank", SECRET)
    assert [
        msgspec.json.decode(one.data, type=WrappedKey).master for one in await backend.logs["KEYS"].last_many(["key.*"])
    ] == [masters.current] * 2


async def test_another_master_key_opens_nothing(opened, tmp_path):
    digest = await (await opened()).put_secret("shop", SECRET)
    strange = tmp_path / "strange.json"
    new_master_keys().save(strange)
    blobs = await opened(strange)
    with pytest.raises(KeyUnavailable):
        await blobs.get(digest)
    assert "shop" in blobs.vault.trouble


async def test_encrypted_blob_renamed_or_changed_is_refused(backend, opened):
    blobs = await opened()
    digest = await blobs.put_secret("shop", SECRET)
    (message,) = await backend.logs["BLOBS"].last_many(["blob.*"])
    moved = digest[:-4] + "0000" if not digest.endswith("0000") else digest[:-4] + "1111"
    changed = bytes([*message.data[:-1], message.data[-1] ^ 1])
    await backend.logs["BLOBS"].append([NewMessage(blob(moved), message.data)])
    await backend.logs["BLOBS"].append([NewMessage(message.subject, changed)])
    reader = await opened()
    for name in (moved, digest):
        with pytest.raises(KeyUnavailable, match="changed"):
            await reader.get(name)


async def test_services_that_make_a_key_at_the_same_time_agree_on_one(backend, opened):
    several = [await opened() for _ in range(4)]
    digests = await asyncio.gather(*(blobs.put_secret("shop", SECRET) for blobs in several))
    assert len(set(digests)) == 1
    assert (await backend.logs["KEYS"].identity()).last_seq == 1


def test_damaged_key_file_is_refused_without_quoting_it(key_file, tmp_path):
    assert key_file.stat().st_mode & 0o777 == 0o600
    damaged = tmp_path / "damaged.json"
    damaged.write_text('{"current": "a", "keys": {"a": "not base64, but precious"}}')
    with pytest.raises(SettingsError) as caught:
        load_master_keys(damaged)
    assert "precious" not in str(caught.value)
    with pytest.raises(SettingsError, match="3 bytes"):
        MasterKeys("a", {"a": b"abc"})
    assert "abc" not in repr(MasterKeys("a", {"a": b"abc" + bytes(29)}))
