"""Manifest bytes by digest: read from the agent's disk, and otherwise fetched from the hub, many in one request."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec
import structlog
from nats.aio.msg import Msg

from schemas.agent import BLOB_DIGEST, BLOB_END, BLOB_OFFSET, BLOB_PROBLEM, BLOB_SIZE, MAX_BLOBS, BlobsWanted
from services._kit.base.log_errors import Ambiguous, LogError, Unavailable
from services._kit.concurrency.tasks import set_within
from services._kit.content.blobs import BlobMissing, digest_of
from services._rules.identity.accounts import blobs_subject
from services._rules.secrets.secret_objects import is_sealed
from services.agent.hub_connection import HubConnection, unlisten

log = structlog.get_logger("agent.manifests")

SILENCE: Final = 10.0
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class ManifestCache:
    """The bytes behind digests; `position` returns the position up to which works were read."""

    def __init__(self, hub: HubConnection, cluster: str, directory: Path, position: Callable[[], int]) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.fetched = 0
        self.kept = {entry.name for entry in os.scandir(directory)}
        """Digests whose bytes are on disk."""
        self._hub = hub
        self._subject = blobs_subject(cluster)
        self._directory = directory
        self._position = position
        self._wanted: dict[str, asyncio.Future[bytes]] = {}
        self._some = asyncio.Event()

    async def get(self, digest: str) -> bytes:
        """The bytes; raises Unavailable while the hub is away, BlobMissing when it does not give them."""
        data = self._read(digest)
        if data is not None:
            return data
        if not self._hub.is_connected:
            raise Unavailable("the hub is away, and this manifest was never fetched")
        future = self._wanted.get(digest)
        if future is None:
            future = self._wanted[digest] = asyncio.get_running_loop().create_future()
            self._some.set()
        return await asyncio.shield(future)

    def keep_only(self, digests: set[str]) -> None:
        """Forget the bytes of every other digest."""
        for digest in [digest for digest in self.kept if digest not in digests and digest not in self._wanted]:
            (self._directory / digest).unlink(missing_ok=True)
            self.kept.discard(digest)

    async def run(self) -> None:
        """Fetch what is wanted until cancelled."""
        try:
            while True:
                await self._some.wait()
                self._some.clear()
                while self._wanted:
                    await self._fetch(list(self._wanted)[:MAX_BLOBS])
        finally:
            self._fail(list(self._wanted), Unavailable("the agent stops"))

    async def _fetch(self, digests: list[str]) -> None:
        """One request; what it left out without a reason is asked for again."""
        transfer = _Transfer()
        try:
            inbox, subscription = await self._hub.listen(transfer.take)
            try:
                body = BlobsWanted(digests=tuple(digests), as_of=self._position())
                await self._hub.publish(self._subject, msgspec.json.encode(body), inbox)
                await transfer.complete()
            finally:
                await unlisten(subscription)
        except LogError as error:
            self._fail(digests, error)
            return
        for digest, reason in transfer.problems.items():
            self._fail([digest], BlobMissing(0, reason))
        done = self._store(digests, transfer.finished())
        if not done and not transfer.problems:
            self._fail(digests, Ambiguous("the hub answered without any of the manifests"))

    def _store(self, digests: Iterable[str], found: dict[str, bytes]) -> int:
        done = 0
        for digest in digests:
            data = found.get(digest)
            if data is None:
                continue
            done += 1
            if is_sealed(digest):
                # Only the hub can check it, and it lies on no disk: a restart asks again.
                self._hand_over(digest, data)
                continue
            if digest_of(data) != digest:
                self._fail([digest], BlobMissing(0, "the hub sent other bytes"))
                continue
            self._write(digest, data)
            self._hand_over(digest, data)
        return done

    def _hand_over(self, digest: str, data: bytes) -> None:
        self.fetched += 1
        future = self._wanted.pop(digest, None)
        if future is not None and not future.done():
            future.set_result(data)

    def _fail(self, digests: Iterable[str], error: Exception) -> None:
        for digest in digests:
            future = self._wanted.pop(digest, None)
            if future is not None and not future.done():
                future.set_exception(error)
                future.exception()  # the caller may have been cancelled

    def _read(self, digest: str) -> bytes | None:
        if is_sealed(digest):
            return None
        if not _DIGEST.fullmatch(digest):
            raise BlobMissing(0, f"{digest!r} is no digest")
        try:
            data = (self._directory / digest).read_bytes()
        except FileNotFoundError:
            return None
        # A crash may have left half a file: then the hub is asked again.
        return data if digest_of(data) == digest else None

    def _write(self, digest: str, data: bytes) -> None:
        self.kept.add(digest)
        try:
            descriptor = os.open(self._directory / digest, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
        except OSError as error:
            # It is delivered all the same; only a restart without the hub would miss it.
            log.warning("manifest_not_kept", digest=digest, reason=str(error))


class _Transfer:
    """The answers to one request: pieces in order, then the end."""

    def __init__(self) -> None:
        self.problems: dict[str, str] = {}
        self._pieces: dict[str, bytearray] = {}
        self._sizes: dict[str, int] = {}
        self._signs = asyncio.Event()
        self._ended = False
        self._refused = ""

    async def take(self, message: Msg) -> None:
        """One answer."""
        headers = message.headers or {}
        if headers.get("Status") == "503":
            self._refused = "no hub answers for manifests"
        elif BLOB_END in headers:
            self._ended = True
        elif BLOB_PROBLEM in headers:
            self.problems[headers.get(BLOB_DIGEST, "")] = headers[BLOB_PROBLEM]
        elif BLOB_DIGEST in headers:
            digest = headers[BLOB_DIGEST]
            piece = self._pieces.setdefault(digest, bytearray())
            if headers.get(BLOB_OFFSET) == str(len(piece)):
                piece += message.data
            self._sizes[digest] = int(headers.get(BLOB_SIZE, "0"))
        self._signs.set()

    async def complete(self) -> None:
        """Return at the end; raises Ambiguous after a long silence, Unavailable without a responder."""
        while not self._ended:
            if self._refused:
                raise Unavailable(self._refused)
            self._signs.clear()
            if not await set_within(self._signs, SILENCE):
                raise Ambiguous(f"no manifest came for {SILENCE:g} s")

    def finished(self) -> dict[str, bytes]:
        """Bytes by digest of what came completely."""
        return {digest: bytes(data) for digest, data in self._pieces.items() if len(data) == self._sizes[digest]}
