"""Encrypts Secrets on their way into the store's stream, each namespace with a key of its own.

The keys lie wrapped by a master key on a stream beside the objects. They are not those of the log: a key of the log can
be dropped at once because the control plane still holds its Secrets, but here nothing else does. So a key is replaced
first, then everything present is written with the new one, and only then the old one is erased.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from schemas.subjects import escape
from schemas.topology import Stream
from services._kit.base.log_errors import LogError
from services._kit.base.settings import SettingsError
from services._kit.content.envelope_encryption import (
    DataKey,
    ForgedCiphertext,
    KeyUnavailable,
    WrappedKey,
    fresh,
    key_id,
    unwrap,
    wrap,
)
from services._kit.content.master_keys import MasterKeys, load_master_keys, new_master_keys
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services._kit.log.stream_port import Message, NewMessage
from services._kit.log.streams import apply_stream
from services._rules.secrets.secret_objects import is_secret_resource
from services.apiserver.store.store_port import Conflict, Key, StoreUnavailable

if TYPE_CHECKING:
    from services.apiserver.store.jetstream_store import JetStreamStore

log = structlog.get_logger(__name__)

OWN_FILE: Final = "secrets-keys.json"


def keys_stream(stream: str) -> str:
    """Name of the stream with the keys of a store's stream."""
    return f"{stream}_KEYS"


def sealing_of(key_file: str, data_dir: Path) -> Sealing:
    """What a server encrypts with: the key file it is given, else one of its own in its data directory."""
    own = data_dir / OWN_FILE
    if key_file:
        return Sealing(Path(key_file), earlier=own if own.exists() else None)
    if not own.exists():
        new_master_keys().save(own)
    return Sealing(own)


class Sealing:
    """The keys of one store; `earlier` is a key file that what is there may still be wrapped with."""

    def __init__(self, key_file: Path, *, earlier: Path | None = None) -> None:
        self._file = key_file
        self._earlier = earlier
        self._current: dict[str, DataKey] = {}
        self._known: dict[bytes, tuple[DataKey, str]] = {}
        """Keys by id, each with its subject on the stream."""
        self._troubles: dict[bytes, str] = {}
        self._making = asyncio.Lock()
        self._prefix = ""
        self._connection: Connection | None = None
        self._log: JetStreamLog | None = None

    def __repr__(self) -> str:
        return f"Sealing({len(self._current)} namespaces)"

    @staticmethod
    def covers(key: Key) -> bool:
        """Whether an object is written encrypted."""
        return is_secret_resource(key.group, key.resource)

    async def start(
        self, servers: str | list[str], stream: str, prefix: str, replicas: int, options: dict[str, Any]
    ) -> None:
        """Make the stream of the keys if need be and read it; raises LogError, or SettingsError about the key file."""
        masters = load_master_keys(self._file)
        earlier = load_master_keys(self._earlier) if self._earlier is not None else None
        self._prefix = f"keys-{prefix}"
        self._connection = await Connection.open(servers, name=f"fleetlog/keys of {stream}", **options)
        purpose = f"the keys of the Secrets on {stream}, each wrapped by a master key"
        described = Stream(
            name=keys_stream(stream), subjects=(f"{self._prefix}.>",), purpose=purpose, max_per_subject=1
        )
        await apply_stream(self._connection, described, replicas)
        self._log = JetStreamLog(self._connection, described.name)
        async for message in self._log.read([f"{self._prefix}.>"]):
            await self._take(message, masters, earlier)

    async def stop(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            await self._connection.close()

    async def _take(self, message: Message, masters: MasterKeys, earlier: MasterKeys | None) -> None:
        try:
            stored = msgspec.json.decode(message.data, type=WrappedKey)
        except msgspec.MsgspecError:
            log.error("key_not_readable", subject=message.subject, position=message.seq)
            return
        try:
            data = unwrap(masters, stored)
        except KeyUnavailable as error:
            if earlier is not None:
                # The ids of two files may be alike: they are times.
                with suppress(KeyUnavailable):
                    await self._adopt(stored, unwrap(earlier, stored), message, masters)
                    return
            self._troubles[stored.id] = error.description
            log.error("key_locked", namespace=stored.namespace, reason=error.description)
            return
        self._absorb(stored, data, message.subject)

    async def _adopt(self, stored: WrappedKey, data: bytes, message: Message, masters: MasterKeys) -> None:
        """Use a key that the earlier file opens, and wrap it with the present one."""
        assert self._log is not None
        self._absorb(stored, data, message.subject)
        again = msgspec.json.encode(wrap(masters, stored.namespace, stored.id, data))
        await self._log.append([NewMessage(message.subject, again, {}, expect_last=message.seq)])

    def _absorb(self, stored: WrappedKey, data: bytes, subject: str) -> None:
        key = DataKey(stored.namespace, stored.id, data)
        self._known[stored.id] = key, subject
        self._current[stored.namespace] = key

    async def prepare(self, namespace: str) -> None:
        """Make the key of a namespace when there is none yet; raises LogError or SettingsError."""
        if namespace in self._current:
            return
        async with self._making:
            if namespace not in self._current:
                await self._make(namespace)

    async def _make(self, namespace: str) -> None:
        assert self._log is not None
        # Nothing new under a master key that is about to go.
        masters = load_master_keys(self._file)
        stored = fresh(masters, namespace)
        subject = f"{self._prefix}.{escape(namespace)}.{stored.id.hex()}"
        await self._log.append([NewMessage(subject, msgspec.json.encode(stored), {}, expect_last=0)])
        self._absorb(stored, unwrap(masters, stored), subject)

    def seal(self, key: Key, value: bytes) -> bytes:
        """The encrypted form of an object whose namespace is prepared."""
        return self._current[key.namespace].seal(value, "/".join(key))

    def open(self, key: Key, data: bytes) -> bytes:
        """The object that was encrypted; raises Locked."""
        ident = key_id(data)
        known = self._known.get(ident) if ident is not None else None
        if known is None:
            why = self._troubles.get(ident or b"") or "its key was dropped"
            raise KeyUnavailable(0, f"{key.resource} {key.namespace}/{key.name} cannot be read: {why}")
        try:
            return known[0].open(data, "/".join(key))
        except ForgedCiphertext:
            raise KeyUnavailable(
                0, f"{key.resource} {key.namespace}/{key.name} was changed, or belongs elsewhere"
            ) from None

    async def renew(self, namespace: str) -> None:
        """A new key for what is written from now on; the earlier ones still open. Raises LogError or SettingsError."""
        async with self._making:
            await self._make(namespace)

    async def drop(self, namespace: str) -> int:
        """Erase all keys of a namespace but the current one, on the server's disk as well; how many there were."""
        assert self._connection is not None
        assert self._log is not None
        current = self._current.get(namespace)
        dropped = 0
        for ident, (key, subject) in list(self._known.items()):
            if key.namespace == namespace and key is not current:
                # It may lie elsewhere than before: it is wrapped again when the master key is rotated.
                while (message := await self._log.last(subject)) is not None:
                    await erase(self._connection, self._log.name, message.seq)
                del self._known[ident]
                dropped += 1
        return dropped


class ClearSecrets:
    """Positions of Secrets that lie on a stream as they were given, by what has to become of them."""

    def __init__(self) -> None:
        self.present: set[Key] = set()
        """Objects whose latest state is not encrypted."""
        self.states: list[int] = []
        self.deletions: list[int] = []

    def __bool__(self) -> bool:
        return bool(self.states or self.deletions)

    def found(self, key: Key, sequence: int, *, deleted: bool) -> None:
        """One state of an object, in the order of the stream."""
        if deleted:
            self.present.discard(key)
            self.deletions.append(sequence)
        else:
            self.present.add(key)
            self.states.append(sequence)


async def erase(connection: Connection, stream: str, seq: int) -> None:
    """Remove a message and overwrite its bytes on the server's disk; one that is gone already is fine."""
    query = msgspec.json.encode({"seq": seq, "no_erase": False})
    answer = await connection.request(f"$JS.API.STREAM.MSG.DELETE.{stream}", query)
    said = msgspec.json.decode(answer.data, type=dict[str, Any])
    if not said.get("success") and said.get("error", {}).get("err_code") not in (10037, 10043):
        raise LogError(f"the log's server did not erase message {seq} of {stream}: {said.get('error')}")


class Secrets:
    """Keeps the Secrets of one store encrypted."""

    def __init__(self, store: JetStreamStore, sealing: Sealing) -> None:
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
