"""Encrypts secret manifests with a key per namespace, which is stored on stream KEYS, wrapped by a master key.

A namespace's key can be dropped: what it encrypted is then unreadable for ever, whatever copies of the log exist. Every
service with a vault follows the stream, so a dropped or rewrapped key is known within moments.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from schemas.subjects import key as key_subject
from services._kit.base.late_logger import LateLogger
from services._kit.base.log_errors import Conflict, LogError, Refused
from services._kit.base.settings import SettingsError
from services._kit.concurrency.supervision import Supervised, supervise
from services._kit.concurrency.tasks import first_of
from services._kit.content.master_keys import KEY_BYTES, MasterKeys, load_master_keys
from services._kit.log.stream_port import Log, Message, NewMessage
from services._rules.secrets.secret_objects import DigestKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

log = LateLogger("vault")

KEYS: Final = "KEYS"
ALL: Final = "key.*"
_MAGIC: Final = b"FLS1"
_ID_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_HEAD: Final = len(_MAGIC) + _ID_BYTES + _NONCE_BYTES
_TRIES: Final = 5


class KeyUnavailable(Refused):
    """A Secret cannot be read here: its key was dropped, or this service has no master key that opens it."""


class ForgedCiphertext(Exception):
    """The bytes were not encrypted with this key, or not for this purpose."""


def _cipher(key: bytes) -> AESGCM:
    # Most processes have no key and need not load the library.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _decrypt(cipher: AESGCM, nonce: bytes, data: bytes, bound: bytes) -> bytes:

    from cryptography.exceptions import InvalidTag

    try:
        return cipher.decrypt(nonce, data, bound)
    except InvalidTag:
        raise ForgedCiphertext from None


class WrappedKey(Struct, frozen=True, kw_only=True):
    """A namespace's key as it lies on the log: encrypted with the master key of id `master`."""

    namespace: str
    id: bytes
    master: str
    nonce: bytes
    wrapped: bytes


class DataKey:
    """A namespace's key, taken apart into one for content and one for names."""

    __slots__ = ("_aead", "digests", "id", "namespace")

    def __init__(self, namespace: str, ident: bytes, key: bytes) -> None:
        self.namespace = namespace
        self.id = ident
        self._aead = _cipher(hmac.digest(key, b"content", hashlib.sha256))
        self.digests = DigestKey(hmac.digest(key, b"names", hashlib.sha256))

    def seal(self, data: bytes, digest: str) -> bytes:
        """Encrypt bytes under a name; they open under that name only."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        head = _MAGIC + self.id + nonce
        return head + self._aead.encrypt(nonce, data, self._bound(head, digest))

    def open(self, envelope: bytes, digest: str) -> bytes:
        """What was encrypted under a name; raises ForgedCiphertext."""
        head = envelope[:_HEAD]
        return _decrypt(self._aead, head[-_NONCE_BYTES:], envelope[_HEAD:], self._bound(head, digest))

    def _bound(self, head: bytes, digest: str) -> bytes:
        """What the content cannot be moved away from: its header, its namespace and its name."""
        return b"\0".join((head, self.namespace.encode(), digest.encode()))


def key_id(envelope: bytes) -> bytes | None:
    """Id of the key that encrypted bytes, None when they are not encrypted."""
    if len(envelope) < _HEAD or not envelope.startswith(_MAGIC):
        return None
    return envelope[len(_MAGIC) : len(_MAGIC) + _ID_BYTES]


def wrap(masters: MasterKeys, namespace: str, ident: bytes, key: bytes) -> WrappedKey:
    """Encrypt a namespace's key with the current master key."""
    master = masters.get(masters.current)
    assert master is not None
    nonce = secrets.token_bytes(_NONCE_BYTES)
    wrapped = _cipher(master).encrypt(nonce, key, _owner(namespace, ident))
    return WrappedKey(namespace=namespace, id=ident, master=masters.current, nonce=nonce, wrapped=wrapped)


def fresh(masters: MasterKeys, namespace: str) -> WrappedKey:
    """A new key for a namespace."""
    return wrap(masters, namespace, secrets.token_bytes(_ID_BYTES), secrets.token_bytes(KEY_BYTES))


def unwrap(masters: MasterKeys, stored: WrappedKey) -> bytes:
    """A namespace's key; raises KeyUnavailable when no master key opens it."""
    master = masters.get(stored.master)
    if master is None:
        raise KeyUnavailable(
            0, f"the key of namespace {stored.namespace} needs master key {stored.master}, which is not here"
        )
    try:
        return _decrypt(_cipher(master), stored.nonce, stored.wrapped, _owner(stored.namespace, stored.id))
    except ForgedCiphertext:
        raise KeyUnavailable(
            0, f"master key {stored.master} does not open the key of namespace {stored.namespace}"
        ) from None


def _owner(namespace: str, ident: bytes) -> bytes:
    return namespace.encode() + b"\0" + ident


class Vault:
    """The keys of all namespaces; `start` reads them, `stop` ends following them."""

    def __init__(self, log: Log, key_file: Path) -> None:
        self._log = log
        self._file = key_file
        self._masters = load_master_keys(key_file)
        self._of: dict[str, DataKey] = {}
        self._by_id: dict[bytes, DataKey] = {}
        self._seen: dict[str, int] = {}
        self._locked: dict[str, str] = {}
        self._complete = asyncio.Event()
        self._task: Supervised | None = None
        self.on_changed: Callable[[str], None] | None = None
        """Called with a namespace whose key is another one from now on."""

    def __repr__(self) -> str:
        return f"Vault({len(self._of)} namespaces)"

    @property
    def trouble(self) -> str:
        """Why a namespace's Secrets cannot be read, empty when all can."""
        return next(iter(self._locked.values()), "")

    async def start(self) -> None:
        """Read all keys and follow them; raises LogError when the log cannot be read."""
        self._task = supervise("keys", self._follow)
        await first_of(self._complete.wait(), asyncio.wait({self._task.task}))
        if self._task.done:
            self._task.task.result()

    async def stop(self) -> None:
        """End following the keys."""
        if self._task is not None:
            await self._task.close()

    async def digests(self, namespace: str) -> DigestKey:
        """Digests of a namespace's Secrets; makes a missing key. Raises KeyUnavailable or LogError."""
        return (await self._key(namespace)).digests

    async def seal(self, namespace: str, data: bytes) -> tuple[str, bytes]:
        """Name and encrypted form of a secret manifest; raises KeyUnavailable or LogError."""
        key = await self._key(namespace)
        digest = key.digests.digest(data)
        return digest, key.seal(data, digest)

    def open(self, digest: str, envelope: bytes) -> bytes:
        """The bytes of a secret manifest; raises KeyUnavailable."""
        ident = key_id(envelope)
        if ident is None:
            raise KeyUnavailable(0, f"blob {digest} is not encrypted as this version does it")
        key = self._by_id.get(ident)
        if key is None:
            raise KeyUnavailable(
                0, f"the key of blob {digest} was dropped or cannot be opened here: its content is gone"
            )
        try:
            data = key.open(envelope, digest)
        except ForgedCiphertext:
            raise KeyUnavailable(0, f"blob {digest} was changed, or belongs elsewhere") from None
        if key.digests.digest(data) != digest:
            raise KeyUnavailable(0, f"blob {digest} holds other bytes than its name says")
        return data

    async def _key(self, namespace: str) -> DataKey:
        for _ in range(_TRIES):
            found = self._of.get(namespace)
            if found is not None:
                return found
            subject = key_subject(namespace)
            message = await self._log.last(subject)
            if message is None:
                # Nothing new under a master key that is about to go.
                self._masters = load_master_keys(self._file)
                data = msgspec.json.encode(fresh(self._masters, namespace))
                # Where another service was first, its key counts.
                with suppress(Conflict):
                    await self._log.append([NewMessage(subject, data, {}, expect_last=0)])
                message = await self._log.last(subject)
            if message is not None:
                self._take(message)
                if namespace in self._locked:
                    raise KeyUnavailable(0, self._locked[namespace])
        raise KeyUnavailable(0, f"the key of namespace {namespace} changes all the time; try again")

    async def _follow(self) -> None:
        pump = self._log.pump([ALL])
        try:
            async for delivery in pump:
                for message in delivery.messages:
                    self._take(message)
                if delivery.caught_up:
                    self._complete.set()
        except LogError as error:
            log.error("keys_not_followed", reason=str(error))
            raise
        finally:
            await pump.close()

    def _take(self, message: Message) -> None:
        """One key as it stands now; an outdated message changes nothing."""
        try:
            stored = msgspec.json.decode(message.data, type=WrappedKey)
        except msgspec.MsgspecError:
            log.error("key_not_readable", subject=message.subject, position=message.seq)
            return
        namespace = stored.namespace
        if message.seq <= self._seen.get(namespace, 0):
            return
        self._seen[namespace] = message.seq
        before = self._of.get(namespace)
        if before is not None and before.id == stored.id:
            return  # Wrapped again, the same key.
        if before is not None:
            del self._of[namespace], self._by_id[before.id]
        try:
            self._absorb(stored)
        except (KeyUnavailable, SettingsError) as error:
            self._locked[namespace] = str(error)
            log.error("key_locked", namespace=namespace, reason=str(error))
        else:
            self._locked.pop(namespace, None)
        if self.on_changed is not None:
            self.on_changed(namespace)

    def _absorb(self, stored: WrappedKey) -> None:
        if self._masters.get(stored.master) is None:
            # The file was rotated since this service started.
            self._masters = load_master_keys(self._file)
        key = DataKey(stored.namespace, stored.id, unwrap(self._masters, stored))
        self._of[stored.namespace] = self._by_id[stored.id] = key


def keys_of(settings: Any) -> Path | None:
    """The key file that a service's settings name, None for a service without one."""
    name = getattr(settings, "secrets_key_file", "")
    return Path(name) if name else None
