"""Records in a block of nats-server: what is whole, what is damaged, and what a damaged one can be mended to.

A record is a length (with a bit for headers), a sequence (with bits for removed ones), a time, the length of the
subject, the subject, the headers behind their length, the data, and a checksum. The checksum covers neither lengths.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from services.cli.log.disk import highway

HEAD: Final = struct.Struct("<IQqH")
CHECKSUM: Final = 8
SHORTEST: Final = HEAD.size + CHECKSUM
LONGEST: Final = 32 << 20
WITH_HEADERS: Final = 1 << 31
TOMBSTONE: Final = 1 << 62
ERASED: Final = 1 << 63
_NUMBER: Final = TOMBSTONE - 1
_NEVER_IN_SUBJECTS: Final = frozenset(b' \t\r\n\0{}"')
_FAR: Final = 1 << 32
"""Sequences further than that from the one before are no sequences."""
_NEAR: Final = 1 << 20
"""Two sequences further apart than that do not prove that one record follows the other."""


class Record(Struct, frozen=True):
    """One whole record; `seq` without its bits. `kept` is false for what was removed, `tombstone` true where a record
    only says that another one was: its sequence is out of order."""

    offset: int
    length: int
    seq: int
    time: int
    subject: str
    kept: bool
    tombstone: bool

    @property
    def end(self) -> int:
        """Where the next one begins."""
        return self.offset + self.length


class Gap(Struct, frozen=True):
    """Bytes of a block that are no whole record, between two that are.

    `first` to `last` are the sequences that it may hold; `subject` is what can be read of one, empty for nothing.
    `torn`: it is the end of the last block, as a crash in the middle of a write leaves it, and holds no message.
    """

    offset: int
    end: int
    first: int
    last: int
    time: int
    subject: str = ""
    torn: bool = False


def parts(content: bytes, at: int) -> tuple[int, int, int, int, bool] | None:
    """Length, sequence with its bits, time, length of the subject, and whether there are headers; None for nonsense."""
    if at + SHORTEST > len(content):
        return None
    size, seq, stored, subject = HEAD.unpack_from(content, at)
    length, headers = size & ~WITH_HEADERS, bool(size & WITH_HEADERS)
    if not SHORTEST <= length <= LONGEST or at + length > len(content):
        return None
    if subject + (4 if headers else 0) > length - SHORTEST:
        return None
    return length, seq, stored, subject, headers


def hashed(record: bytes) -> bytes:
    """The bytes of a record that its checksum covers."""
    size, _, _, subject = HEAD.unpack_from(record)
    skipped = HEAD.size + subject + (4 if size & WITH_HEADERS else 0)
    return record[4:20] + record[HEAD.size : HEAD.size + subject] + record[skipped:-CHECKSUM]


def is_whole(record: bytes, key: bytes) -> bool:
    """Whether the checksum of a record is right."""
    return highway.digest(key, hashed(record)) == record[-CHECKSUM:]


def walk(content: bytes, key: bytes | None, *, last: bool = False) -> Iterator[Record | Gap]:
    """Records and gaps of a block in order; `last`: nothing was written behind it.

    Without a key only lengths are checked, which is quick.
    """
    at = before = stored = 0
    while at < len(content):
        found = _record(content, at, key)
        if found is not None:
            if not found.tombstone:
                before, stored = max(before, found.seq), found.time or stored
            yield found
            at = found.end
            continue
        alone = _alone(content, at, before)
        hidden = _first(content, at + 1, alone.end, before, key) if alone is not None and key is not None else None
        if alone is not None and hidden is None:
            # Its neighbour may be damaged as well: each is a gap of its own.
            yield alone
            at, before = alone.end, alone.last
            continue
        following = hidden or _next(content, at, before, key)
        end = following.offset if following is not None else len(content)
        yield _gap(content, at, end, before, following, stored, last=last)
        at = end


def lead_to_the_end(content: bytes) -> bool:
    """Whether each length leads to another record, and the last one to the end: a quick look at a whole block."""
    at, end, unpack = 0, len(content), HEAD.unpack_from
    while at + SHORTEST <= end:
        size, _, _, subject = unpack(content, at)
        length = size & ~WITH_HEADERS
        if not SHORTEST <= length <= LONGEST or subject > length - SHORTEST:
            return False
        at += length
    return at == end


def _alone(content: bytes, at: int, before: int) -> Gap | None:
    """A damaged record whose length is right: another one, of a later sequence, begins where it ends."""
    found = parts(content, at)
    following = parts(content, at + found[0]) if found is not None else None
    if found is None or following is None or following[1] & TOMBSTONE:
        return None
    length, seq, stored, subject, _ = found
    if not before < seq < following[1] & _NUMBER < seq + _NEAR:
        return None
    name = content[at + HEAD.size : at + HEAD.size + subject]
    readable = name.isascii() and _NEVER_IN_SUBJECTS.isdisjoint(name)
    return Gap(at, at + length, seq, seq, stored, name.decode() if readable else "")


def _record(content: bytes, at: int, key: bytes | None) -> Record | None:
    found = parts(content, at)
    if found is None:
        return None
    length, seq, stored, subject, _ = found
    name = content[at + HEAD.size : at + HEAD.size + subject]
    if not _NEVER_IN_SUBJECTS.isdisjoint(name):
        return None
    if key is not None and not is_whole(content[at : at + length], key):
        return None
    kept = bool(seq) and not seq & (TOMBSTONE | ERASED)
    return Record(at, length, seq & _NUMBER, stored, name.decode(errors="replace"), kept, bool(seq & TOMBSTONE))


def _next(content: bytes, at: int, before: int, key: bytes | None) -> Record | None:
    """The first whole record behind a place that is none.

    A damaged length may lead past records that are whole, so it is followed only where no checksum can tell.
    """
    guess = parts(content, at) if key is None else None
    if guess is not None and at + guess[0] < len(content):
        found = _record(content, at + guess[0], key)
        if found is not None:
            return found
    return _first(content, at + 1, len(content), before, key)


def _first(content: bytes, start: int, end: int, before: int, key: bytes | None) -> Record | None:
    """The first whole record that begins in a part of a block."""
    for place in range(start, min(end, len(content) - SHORTEST + 1)):
        if content[place + 3] & 0x7E:
            continue  # Longer than any record.
        seq = int.from_bytes(content[place + 4 : place + 12], "little")
        if not (0 if seq & TOMBSTONE else before) < seq & _NUMBER < before + _FAR:
            continue
        found = _record(content, place, key)
        # Lengths alone are no proof: the one behind it has to fit as well.
        if found is not None and (key is not None or found.end == len(content) or parts(content, found.end)):
            return found
    return None


def _gap(content: bytes, at: int, end: int, before: int, following: Record | None, stored: int, *, last: bool) -> Gap:
    latest = following.seq - 1 if following is not None and not following.tombstone else 0
    guess = parts(content, at)
    subject = ""
    if guess is not None:
        name = content[at + HEAD.size : at + HEAD.size + guess[3]]
        if name.isascii() and _NEVER_IN_SUBJECTS.isdisjoint(name):
            subject = name.decode()
        seq = guess[1] & _NUMBER
        if guess[1] == seq and before < seq <= (latest or seq) and seq < before + _FAR:
            return Gap(at, end, seq, seq, stored, subject)
    # A record that is cut off, or space that was never written to.
    torn = last and following is None and (guess is None or not any(content[at:end]))
    return Gap(at, end, before + 1, latest, stored, subject, torn)


def mended(raw: bytes, key: bytes, seconds: float) -> bytes | None:
    """The record as it was before one byte of it changed; None when it was more, or is not found within the time."""
    for candidate in _with_length(raw):
        if is_whole(candidate, key):
            return candidate
    found = parts(raw, 0)
    if found is None or found[0] != len(raw):
        return None
    right = highway.digest(key, hashed(raw))
    if sum(mine != theirs for mine, theirs in zip(right, raw[-CHECKSUM:], strict=True)) == 1:
        return raw[:-CHECKSUM] + right
    return _with_one_byte(raw, key, time.monotonic() + seconds)


def _with_length(raw: bytes) -> Iterator[bytes]:
    """The record with the length that it takes up, without and with headers."""
    if len(raw) < SHORTEST:
        return
    subject = HEAD.unpack_from(raw)[3]
    for size in (len(raw), len(raw) | WITH_HEADERS):
        if size != HEAD.unpack_from(raw)[0] and subject + 4 <= len(raw) - SHORTEST:
            yield size.to_bytes(4, "little") + raw[4:]


def _with_one_byte(raw: bytes, key: bytes, until: float) -> bytes | None:
    """Try every other value of every byte, those that differ in one bit first."""
    covered, checksum = hashed(raw), raw[-CHECKSUM:]
    states = [highway.begin(key)]
    for start in range(0, len(covered) - len(covered) % 32, 32):
        states.append(highway.absorb(states[-1], covered[start : start + 32]))
    single = [1 << bit for bit in range(8)]
    for masks in (single, [mask for mask in range(1, 256) if mask not in single]):
        for at, byte in enumerate(covered):
            if time.monotonic() > until:
                return None
            packet = at // 32
            rest = bytearray(covered[packet * 32 :])
            for mask in masks:
                rest[at - packet * 32] = byte ^ mask
                if highway.end(highway.absorb(states[packet], bytes(rest)), bytes(rest)) == checksum:
                    return _placed(raw, at, byte ^ mask)
    return None


def _placed(raw: bytes, at: int, byte: int) -> bytes:
    """A record with another byte at a position of what its checksum covers."""
    size, _, _, subject = HEAD.unpack_from(raw)
    place = at + 4
    if at >= 16:
        place = at + HEAD.size - 16
    if at >= 16 + subject and size & WITH_HEADERS:
        place += 4
    return raw[:place] + bytes([byte]) + raw[place + 1 :]


def erased(seq: int, stored: int, length: int, key: bytes) -> bytes:
    """A record that says that a message was removed; its sequence is not given to another one."""
    length = max(length, SHORTEST)
    record = HEAD.pack(length, seq | ERASED, stored, 0) + bytes(length - HEAD.size)
    return record[:-CHECKSUM] + highway.digest(key, hashed(record))
