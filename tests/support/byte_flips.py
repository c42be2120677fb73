"""Damages messages in the files of a stopped nats-server, one byte at a time, as a failing disk would."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

Part = Literal["length", "sequence", "subject", "headers", "data", "checksum"]

_HEAD: Final = struct.Struct("<IQqH")
"""Length with a bit for headers, sequence with two flag bits, time in ns, length of the subject."""
_HEADERS: Final = 1 << 31
_TOMBSTONE: Final = 1 << 62
_ERASED: Final = 1 << 63
_CHECKSUM: Final = 8
_COMPRESSED: Final = b"cmp"


class Spot(Struct, frozen=True):
    """One message in a block file: where its record begins and how long it is, in bytes."""

    file: Path
    offset: int
    length: int
    seq: int
    subject: str
    headers: int
    """Bytes of its headers, 0 for a message without."""

    def place(self, part: Part) -> int:
        """Position in the file of a byte in the middle of a part."""
        subject = self.offset + _HEAD.size
        headers = subject + len(self.subject.encode())
        data = headers + (4 + self.headers if self.headers else 0)
        end = self.offset + self.length - _CHECKSUM
        match part:
            case "length":
                return self.offset + 1
            case "sequence":
                return self.offset + 4
            case "subject":
                return (subject + headers) // 2
            case "headers":
                if not self.headers:
                    raise ValueError(f"message {self.seq} has no headers")
                return (headers + 4 + data) // 2
            case "data":
                return (data + end) // 2 if end > data else end
            case "checksum":
                return end


def message_directory(store: Path, stream: str) -> Path:
    """Where a server keeps the blocks of a stream below its store directory; raises FileNotFoundError."""
    for found in sorted(store.glob(f"**/streams/{stream}/msgs")):
        return found
    raise FileNotFoundError(f"{store} holds no stream {stream}")


def blocks(store: Path, stream: str) -> list[Path]:
    """Block files of a stream, oldest first."""
    return sorted(message_directory(store, stream).glob("*.blk"), key=lambda path: int(path.stem))


def spots(store: Path, stream: str) -> Iterator[Spot]:
    """Every message of a stream that lies uncompressed in a block, in order; removed ones are left out."""
    for path in blocks(store, stream):
        content = path.read_bytes()
        if content.startswith(_COMPRESSED):
            continue
        at = 0
        while at + _HEAD.size <= len(content):
            size, seq, _, subject = _HEAD.unpack_from(content, at)
            length = size & ~_HEADERS
            if length < _HEAD.size + _CHECKSUM or at + length > len(content):
                break
            name = content[at + _HEAD.size : at + _HEAD.size + subject].decode()
            if seq and not seq & (_TOMBSTONE | _ERASED):
                headers = 0
                if size & _HEADERS:
                    headers = int.from_bytes(content[at + _HEAD.size + subject :][:4], "little")
                yield Spot(path, at, length, seq, name, headers)
            at += length


def spot(store: Path, stream: str, seq: int) -> Spot:
    """The message at a sequence; raises LookupError."""
    for found in spots(store, stream):
        if found.seq == seq:
            return found
    raise LookupError(f"no message {seq} in the blocks of {stream}")


def flip(path: Path, at: int, mask: int = 0x10) -> None:
    """Flip bits of one byte of a file."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ mask]))


def damage(store: Path, stream: str, seq: int, part: Part = "data") -> Spot:
    """Flip one byte of a message of a stopped server's stream; where it was. Raises LookupError."""
    found = spot(store, stream, seq)
    flip(found.file, found.place(part))
    return found
