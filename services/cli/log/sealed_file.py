"""A file that opens with a passphrase only: scrypt makes the key, AES-256-GCM encrypts one piece after the other.

Each piece is bound to its place and to whether it is the last, so that none can be left out, moved or cut off.
"""

from __future__ import annotations

import io
import os
import secrets
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from services.cli.common.running import Failed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from typing_extensions import Buffer

MAGIC: Final = b"fleetlog-sealed/1\n"
_PIECE: Final = 256 << 10
_LAST: Final = 1 << 31
_SALT_BYTES: Final = 16
_COST: Final = 1 << 16
_HIGHEST_COST: Final = 1 << 20
_BLOCK_SIZE: Final = 8
_LONGEST_LOCK: Final = 4096
_TAG_BYTES: Final = 16


class _Lock(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the key is made of the passphrase; `check` is an empty text encrypted with it."""

    cost: int
    block_size: int
    salt: bytes
    check: bytes = b""


class _Cipher:
    """The pieces of one file."""

    def __init__(self, passphrase: bytes, lock: _Lock) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

        key = Scrypt(salt=lock.salt, length=32, n=lock.cost, r=lock.block_size, p=1).derive(passphrase)
        self._aead: AESGCM = AESGCM(key)
        self._number = 0

    def _place(self, *, last: bool) -> tuple[bytes, bytes]:
        self._number += 1
        return self._number.to_bytes(12, "big"), MAGIC + bytes([last])

    def check(self) -> bytes:
        """What only the right key makes of nothing."""
        return self._aead.encrypt(bytes(12), b"", MAGIC)

    def seal(self, data: bytes, *, last: bool) -> bytes:
        """The next piece."""
        nonce, bound = self._place(last=last)
        return self._aead.encrypt(nonce, data, bound)

    def open(self, data: bytes, *, last: bool) -> bytes:
        """The next piece; raises InvalidTag."""
        nonce, bound = self._place(last=last)
        return self._aead.decrypt(nonce, data, bound)


class SealedWriter(io.RawIOBase):
    """Encrypts what is written to a file that only its owner reads; whole once it is closed."""

    def __init__(self, path: Path, passphrase: bytes) -> None:
        super().__init__()
        self._file: IO[bytes] = private_file(path)
        lock = _Lock(cost=_COST, block_size=_BLOCK_SIZE, salt=secrets.token_bytes(_SALT_BYTES))
        self._cipher = _Cipher(passphrase, lock)
        lock = msgspec.structs.replace(lock, check=self._cipher.check())
        self._file.write(MAGIC + msgspec.json.encode(lock) + b"\n")
        self._waiting = bytearray()

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, data: Buffer) -> int:
        """Take in bytes."""
        view = memoryview(data).cast("B")
        self._waiting += view
        while len(self._waiting) > _PIECE:
            piece, self._waiting = bytes(self._waiting[:_PIECE]), self._waiting[_PIECE:]
            self._put(piece, last=False)
        return len(view)

    def close(self) -> None:
        """Write the last piece."""
        if not self.closed:
            self._put(bytes(self._waiting), last=True)
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        super().close()

    def _put(self, piece: bytes, *, last: bool) -> None:
        sealed = self._cipher.seal(piece, last=last)
        self._file.write((len(sealed) | (_LAST if last else 0)).to_bytes(4, "big") + sealed)


class SealedReader(io.RawIOBase):
    """Decrypts a file piece by piece; raises Failed for another passphrase, and for a file that was changed."""

    def __init__(self, path: Path, passphrase: bytes) -> None:
        super().__init__()
        self._path = path
        self._file = path.open("rb")
        try:
            self._cipher = self._unlock(passphrase)
        except BaseException:
            self._file.close()
            raise
        self._piece = b""
        self._ended = False

    def _unlock(self, passphrase: bytes) -> _Cipher:
        if self._file.read(len(MAGIC)) != MAGIC:
            raise Failed(f"{self._path} is no backup; `fleetlog backup FILE` writes one")
        try:
            lock = msgspec.json.decode(self._file.readline(_LONGEST_LOCK), type=_Lock)
        except msgspec.MsgspecError as error:
            raise Failed(f"{self._path} is damaged at its beginning: {error}") from None
        if not 1 < lock.cost <= _HIGHEST_COST or lock.cost & (lock.cost - 1) or not 0 < lock.block_size <= _BLOCK_SIZE:
            raise Failed(f"{self._path} is damaged at its beginning: no backup asks for so much work")
        cipher = _Cipher(passphrase, lock)
        if not secrets.compare_digest(cipher.check(), lock.check):
            raise Failed(f"{self._path} does not open with this passphrase; nothing was changed")
        return cipher

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """The next bytes; 0 at the end."""
        while not self._piece and not self._ended:
            self._next()
        view = memoryview(buffer).cast("B")
        size = min(len(view), len(self._piece))
        view[:size] = self._piece[:size]
        self._piece = self._piece[size:]
        return size

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
        super().close()

    def _next(self) -> None:
        from cryptography.exceptions import InvalidTag

        head = int.from_bytes(self._file.read(4), "big")
        size, last = head & ~_LAST, bool(head & _LAST)
        data = self._file.read(size) if size <= _PIECE + _TAG_BYTES else b""
        try:
            self._piece = self._cipher.open(data, last=last)
        except InvalidTag:
            raise Failed(f"{self._path} is cut off or damaged; nothing was changed") from None
        if last and self._file.read(1):
            raise Failed(f"{self._path} goes on behind its end; nothing was changed")
        self._ended = last


def private_file(path: Path) -> IO[bytes]:
    """A new file for writing that only its owner reads; raises OSError."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def is_sealed(path: Path) -> bool:
    """Whether a file begins as one that opens with a passphrase; raises Failed when it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except FileNotFoundError:
        raise Failed(f"{path} does not exist") from None
    except OSError as error:
        raise Failed(f"{path} cannot be read: {error.strerror or error}") from None
