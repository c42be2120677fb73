"""Manifest bytes by digest on stream BLOBS: stored once, read through a cache bounded in bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from schemas.subjects import blob
from services._kit.errors import Conflict, Refused
from services._kit.log import MAX_BATCH, MAX_BATCH_BYTES, Log, NewMessage

CACHE_BYTES: Final = 16 << 20
KNOWN_DIGESTS: Final = 65536


class BlobMissing(Refused):
    """No blob has this digest: it was never stored, or its history was erased."""


def digest_of(data: bytes) -> str:
    """SHA-256 in hex; the name of the bytes."""
    return sha256(data).hexdigest()


class Blobs:
    """Content-addressed bytes; `cache_bytes` bounds what is held in memory."""

    def __init__(self, log: Log, cache_bytes: int = CACHE_BYTES) -> None:
        self._log = log
        self._limit = cache_bytes
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._known: OrderedDict[str, None] = OrderedDict()

    @property
    def cached_bytes(self) -> int:
        """Bytes held in the cache."""
        return self._size

    async def put(self, data: bytes) -> str:
        """Store bytes unless they are stored already; returns their digest."""
        return (await self.put_many([data]))[0]

    async def put_many(self, blobs: Iterable[bytes]) -> list[str]:
        """Store many at once; returns their digests in order. Raises LogError, then any of them may be stored."""
        digests: list[str] = []
        missing: dict[str, bytes] = {}
        for data in blobs:
            digest = digest_of(data)
            digests.append(digest)
            if digest in self._known:
                self._known.move_to_end(digest)
            else:
                missing[digest] = data
        batch: list[NewMessage] = []
        size = 0
        for digest, data in missing.items():
            if batch and (len(batch) == MAX_BATCH or size + len(data) > MAX_BATCH_BYTES):
                await self._store(batch)
                batch, size = [], 0
            batch.append(NewMessage(blob(digest), data, {}, expect_last=0))
            size += len(data)
        if batch:
            await self._store(batch)
        for digest, data in missing.items():
            self._remember(digest)
            self._keep(digest, data)
        return digests

    async def get(self, digest: str) -> bytes:
        """The bytes of a digest; raises BlobMissing, or LogError when the log does not answer."""
        data = self._cache.get(digest)
        if data is not None:
            self._cache.move_to_end(digest)
            return data
        message = await self._log.peek(blob(digest))
        if message is None:
            # A replica may be behind; only the leader knows that something is missing.
            message = await self._log.last(blob(digest))
        if message is None:
            raise BlobMissing(0, f"no blob {digest} on stream {self._log.name}")
        if digest_of(message.data) != digest:
            raise Refused(0, f"blob {digest} holds other bytes than its name says")
        self._remember(digest)
        self._keep(digest, message.data)
        return message.data

    async def get_many(self, digests: Iterable[str]) -> dict[str, bytes]:
        """Bytes of many digests in few requests; digests without a blob are left out."""
        wanted = list(dict.fromkeys(digests))
        found = {digest: self._cache[digest] for digest in wanted if digest in self._cache}
        absent = {blob(digest): digest for digest in wanted if digest not in found}
        if absent:
            for message in await self._log.last_many(list(absent)):
                digest = absent[message.subject]
                found[digest] = message.data
                self._remember(digest)
                self._keep(digest, message.data)
        return found

    async def _store(self, batch: list[NewMessage]) -> None:
        try:
            await self._log.append(batch)
        except Conflict:
            if len(batch) == 1:
                return  # Somebody stored the same bytes before us.
            there = {message.subject for message in await self._log.last_many([new.subject for new in batch])}
            rest = [new for new in batch if new.subject not in there]
            if len(rest) == len(batch):
                # Stored and seen by the leader only, or in this very moment: one by one cannot fail together.
                for new in batch:
                    await self._store([new])
            elif rest:
                await self._store(rest)

    def _remember(self, digest: str) -> None:
        self._known[digest] = None
        self._known.move_to_end(digest)
        if len(self._known) > KNOWN_DIGESTS:
            self._known.popitem(last=False)

    def _keep(self, digest: str, data: bytes) -> None:
        if digest in self._cache or len(data) > self._limit:
            return
        self._cache[digest] = data
        self._size += len(data)
        while self._size > self._limit:
            self._size -= len(self._cache.popitem(last=False)[1])
