"""The Secrets of a store: a key before they are written, what lies in clear encrypted, earlier contents forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from schemas.manifest import Manifest
from services._kit.base.log_errors import LogError
from services._kit.base.settings import SettingsError
from services.apiserver.store.secret_encryption import Sealing
from services.apiserver.store.store_port import Conflict, Entry, Key, StoreUnavailable


class SealedStore(Protocol):
    """What is needed of the store whose Secrets these are."""

    def get(self, key: Key) -> Entry | None:
        """Present state of one object."""

    def list(self, group: str, resource: str, namespace: str = "") -> Iterable[Entry]:
        """Present states of a resource."""

    async def put(self, key: Key, obj: Manifest, expected: int) -> Entry:
        """Write an object; raises Conflict or StoreUnavailable."""

    async def settled(self) -> None:
        """Wait until the writes that are under way have their answer."""

    def in_clear(self) -> Iterable[Key]:
        """Secrets whose latest state is not encrypted."""

    async def erase_clear(self) -> None:
        """Erase from the stream what was written before Secrets were encrypted."""


class Secrets:
    """Keeps the Secrets of one store encrypted."""

    def __init__(self, store: SealedStore, sealing: Sealing) -> None:
        self._store = store
        self._sealing = sealing

    async def prepare(self, key: Key) -> None:
        """Have a key for an object that is about to be written, if it is a Secret; raises StoreUnavailable."""
        if not self._sealing.covers(key):
            return
        try:
            await self._sealing.prepare(key.namespace)
        except (LogError, SettingsError) as e:
            raise StoreUnavailable(f"no key for the Secrets of namespace {key.namespace}: {e}") from e

    async def seal_what_is_clear(self) -> None:
        """Encrypt the Secrets that an earlier version wrote as they were, and erase what it wrote from the disk."""
        for key in self._store.in_clear():
            await self._write_again(key)
        await self._store.erase_clear()

    async def _write_again(self, key: Key) -> None:
        """Write an object as it is, encrypted with the key of now."""
        while (entry := self._store.get(key)) is not None:
            try:
                await self._store.put(key, entry.obj, entry.revision)
            except Conflict:
                continue  # Perhaps written a moment before there was the new key.
            return

    async def forget(self, namespace: str) -> int:
        """Make unreadable what the Secrets of a namespace held before; present ones stay. How many keys were erased.

        Raises StoreUnavailable, then the keys are still there.
        """
        try:
            await self._sealing.renew(namespace)
            # What was under way with the earlier key is here then.
            await self._store.settled()
            for entry in list(self._store.list("", "secrets", namespace)):
                await self._write_again(entry.key)
            return await self._sealing.drop(namespace)
        except (LogError, SettingsError) as e:
            raise StoreUnavailable(str(e)) from e

    async def asked_to_forget(self, message: Any) -> None:
        """Answer a request of the command line, whose payload is a namespace."""
        try:
            answer: dict[str, Any] = {"erased": await self.forget(message.data.decode())}
        except (StoreUnavailable, UnicodeDecodeError) as e:
            answer = {"error": str(e)}
        await message.respond(msgspec.json.encode(answer))
