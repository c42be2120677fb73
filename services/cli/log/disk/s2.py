"""Reads the compressed blocks of nats-server: S2 frames behind a short head, the last checksum behind them."""

from __future__ import annotations

from typing import Final

MAGIC: Final = b"cmp"
_S2: Final = 1
_CHECKSUM: Final = 8
_COMPRESSED, _PLAIN = 0x00, 0x01


class Broken(Exception):
    """The bytes are no S2 block."""


def decompressed(content: bytes) -> tuple[bytes, bool]:
    """The bytes of a compressed block, and whether nothing was missing; what is broken is filled with zeros.

    Raises Broken where not even the head can be read.
    """
    if not content.startswith(MAGIC) or len(content) < len(MAGIC) + 2 + _CHECKSUM or content[3] != _S2:
        raise Broken("no head of a compressed block")
    size, at = _uvarint(content, 4)
    end = len(content) - _CHECKSUM
    out, whole = bytearray(), True
    while at + 4 <= end:
        kind, length = content[at], int.from_bytes(content[at + 1 : at + 4], "little")
        body = content[at + 4 : at + 4 + length]
        at += 4 + length
        if at > end:
            whole = False
            break
        if kind == _PLAIN:
            out += body[4:]
        elif kind == _COMPRESSED:
            try:
                out += block(body[4:])
            except Broken:
                whole = False
                out += bytes(_declared(body[4:], size - len(out)))
    out += bytes(max(0, size - _CHECKSUM - len(out)))
    return bytes(out[: size - _CHECKSUM]) + content[end:], whole


def _declared(body: bytes, space: int) -> int:
    """How many bytes a broken chunk stands for."""
    try:
        size, _ = _uvarint(body, 0)
    except Broken:
        return 0
    return max(0, min(size, space - _CHECKSUM))


def _uvarint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 63:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    raise Broken("a number does not end")


def block(data: bytes) -> bytes:
    """One chunk, decompressed; raises Broken."""
    size, at = _uvarint(data, 0)
    out = bytearray()
    offset = 0
    try:
        while at < len(data):
            tag = data[at]
            kind, at = tag & 3, at + 1
            if kind == 0:
                length = tag >> 2
                if length >= 60:
                    more = length - 59
                    length, at = int.from_bytes(data[at : at + more], "little"), at + more
                length += 1
                if at + length > len(data):
                    raise Broken("text is cut off")
                out += data[at : at + length]
                at += length
                continue
            if kind == 1:
                length, near = tag >> 2 & 7, (tag & 0xE0) << 3 | data[at]
                at += 1
                if near:
                    offset = near
                elif length >= 5:
                    # The offset before, and a length of one to three bytes.
                    more = length - 4
                    length = int.from_bytes(data[at : at + more], "little") + (4, 1 << 8, 1 << 16)[more - 1]
                    at += more
                length += 4
            else:
                more = 2 if kind == 2 else 4
                length, offset = (tag >> 2) + 1, int.from_bytes(data[at : at + more], "little")
                at += more
            if not 0 < offset <= len(out) or len(out) + length > size:
                raise Broken("a copy from outside")
            if offset >= length:
                out += out[len(out) - offset : len(out) - offset + length]
            else:
                piece = bytes(out[-offset:])
                out += (piece * (length // offset + 1))[:length]
    except IndexError:
        raise Broken("cut off") from None
    if len(out) != size:
        raise Broken(f"{len(out)} bytes instead of {size}")
    return bytes(out)
