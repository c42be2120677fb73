"""Manifest bytes by digest on stream BLOBS: stored once, read through a cache bounded in bytes.

Secret manifests are stored encrypted, under names that only the holder of their namespace's key can compute. Only what
is stored is cached, never what was decrypted. Large bytes that mostly equal others are stored as what they differ in.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from typing import Final

from schemas.subjects import blob
from services._kit.base.clock import Clock, SystemClock
from services._kit.base.log_errors import Conflict, Refused, Unavailable
from services._kit.content.envelope_encryption import KeyUnavailable, Vault
from services._kit.log.stream_port import MAX_BATCH, MAX_BATCH_BYTES, Log, NewMessage
from services._rules.history.blob_grace import REFRESH_AFTER, TRUST
from services._rules.history.delta_encoding import base_of, decode_delta, marker, splice
from services._rules.secrets.secret_objects import is_sealed

CACHE_BYTES: Final = 16 << 20
KNOWN_DIGESTS: Final = 65536
_TRIES: Final = 8


class BlobMissing(Refused):
    """No blob has this digest: it was never stored, or its history was erased."""


def digest_of(data: bytes) -> str:
    """SHA-256 in hex; the name of the bytes."""
    return sha256(data).hexdigest()


class Blobs:
    """Content-addressed bytes; `cache_bytes` bounds what is held in memory, `vault` opens Secrets (None: cannot)."""

    def __init__(
        self, log: Log, cache_bytes: int = CACHE_BYTES, *, vault: Vault | None = None, clock: Clock | None = None
    ) -> None:
        self.vault = vault
        self._log = log
        self._limit = cache_bytes
        self._clock = clock or SystemClock()
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._known: OrderedDict[str, float] = OrderedDict()
        """When each digest was last stored, or found young enough."""

    @property
    def cached_bytes(self) -> int:
        """Bytes held in the cache."""
        return self._size

    def may_name(self, digest: str) -> bool:
        """Whether an event may name a digest now: it was stored a short while ago, and is not collected meanwhile."""
        return self._clock.monotonic() - self._known.get(digest, float("-inf")) < TRUST

    async def put(self, data: bytes) -> str:
        """Store bytes unless they are stored already; returns their digest."""
        return (await self.put_many([data]))[0]

    async def put_many(self, blobs: Iterable[bytes]) -> list[str]:
        """Store many at once; returns their digests in order. Raises LogError, then any of them may be stored."""
        named = [(digest_of(data), data) for data in blobs]
        await self._put({digest: data for digest, data in named if not self.may_name(digest)})
        return [digest for digest, _ in named]

    async def put_alike(self, base: bytes, blobs: Iterable[bytes]) -> list[str]:
        """Store bytes that may mostly equal `base`, in short then, and `base` with them; returns their digests."""
        name = digest_of(base)
        named = [(digest_of(data), data) for data in blobs]
        missing: dict[str, bytes] = {}
        for digest, data in named:
            if self.may_name(digest):
                continue
            short = splice(name, base, data) if digest != name else None
            if short is None:
                missing[digest] = data
                continue
            # What short forms build on is there before them, and stays for as long as they do.
            missing = {name: base, marker(digest, name): b"", **missing, digest: short}
            self._keep(digest, data)
        await self._put(missing)
        return [digest for digest, _ in named]

    async def put_secret(self, namespace: str, data: bytes) -> str:
        """Store a secret manifest, encrypted; returns its digest. Raises KeyUnavailable or LogError."""
        if self.vault is None:
            raise KeyUnavailable(0, f"no key is configured: Secrets of namespace {namespace} are not stored")
        digest, envelope = await self.vault.seal(namespace, data)
        if not self.may_name(digest):
            await self._put({digest: envelope})
        return digest

    async def _put(self, missing: dict[str, bytes]) -> None:
        began = self._clock.monotonic()
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
            self._remember(digest, began)
            if data and not base_of(data):
                self._keep(digest, data)

    async def get(self, digest: str) -> bytes:
        """The bytes of a digest, decrypted if need be; raises BlobMissing, KeyUnavailable, or LogError."""
        data = self._cache.get(digest)
        if data is not None:
            self._cache.move_to_end(digest)
            return self._opened(digest, data)
        message = await self._log.peek(blob(digest))
        if message is None:
            # A replica may be behind; only the leader knows that something is missing.
            message = await self._log.last(blob(digest))
        if message is None:
            raise BlobMissing(0, f"no blob {digest} on stream {self._log.name}")
        data = await self._whole(digest, message.data)
        opened = self._opened(digest, data)
        self._keep(digest, data)
        return opened

    async def get_many(self, digests: Iterable[str]) -> dict[str, bytes]:
        """Bytes of many digests in few requests; digests without a blob that opens are left out."""
        wanted = list(dict.fromkeys(digests))
        found = {digest: self._cache[digest] for digest in wanted if digest in self._cache}
        absent = {blob(digest): digest for digest in wanted if digest not in found}
        if absent:
            for message in await self._log.last_many(list(absent)):
                digest = absent[message.subject]
                # An incomplete blob counts as missing; `get` raises the reason.
                with suppress(Refused):
                    found[digest] = await self._whole(digest, message.data)
        opened: dict[str, bytes] = {}
        for digest, data in found.items():
            try:
                opened[digest] = self._opened(digest, data)
            except Refused:
                continue  # Counts as missing; `get` raises the reason.
            self._keep(digest, data)
        return opened

    async def _whole(self, digest: str, stored: bytes) -> bytes:
        """Bytes that may be stored in short; raises BlobMissing without what they build on."""
        base = base_of(stored)
        if not base or base == digest or is_sealed(digest) or digest_of(stored) == digest:
            return stored
        return decode_delta(stored, await self.get(base))

    def _opened(self, digest: str, data: bytes) -> bytes:
        if is_sealed(digest):
            if self.vault is None:
                raise KeyUnavailable(0, f"blob {digest} is a Secret, and this service has no key")
            return self.vault.open(digest, data)
        if digest not in self._cache and digest_of(data) != digest:
            raise Refused(0, f"blob {digest} holds other bytes than its name says")
        return data

    async def _store(self, batch: list[NewMessage]) -> None:
        try:
            await self._log.append(batch)
        except Conflict:
            there = {message.subject: message for message in await self._log.last_many([new.subject for new in batch])}
            rest = [new for new in batch if new.subject not in there]
            aged = self._clock.now() - REFRESH_AFTER
            # One by one cannot fail together: what is seen by the leader only, and what is too old to be named.
            alone = [new for new in batch if new.subject in there and there[new.subject].time < aged]
            if len(rest) == len(batch):
                alone, rest = rest, []
            for new in alone:
                await self._store_one(new)
            if rest:
                await self._store(rest)

    async def _store_one(self, new: NewMessage) -> None:
        """Store bytes that may be there already; old ones are stored again, before they are collected."""
        for _ in range(_TRIES):
            there = await self._log.last(new.subject)
            if there is not None and there.time >= self._clock.now() - REFRESH_AFTER:
                return
            try:
                await self._log.append(
                    [NewMessage(new.subject, new.data, {}, expect_last=there.seq if there is not None else 0)]
                )
            except Conflict:
                continue  # Stored by another, or collected, in this very moment.
            return
        raise Unavailable(f"{new.subject} is written and removed by others all the time")

    def _remember(self, digest: str, at: float) -> None:
        self._known[digest] = at
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
