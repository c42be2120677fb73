"""SPDY/3.1 frames as bytes: what clients of exec and of port-forward send, and what they are answered."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

import msgspec

SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = (1, 2, 3, 4, 6, 7, 8, 9)
DATA: Final = 0
"""Kind of a frame that is no control frame."""
FIN: Final = 1
INVALID_STREAM, REFUSED_STREAM = (2, 3)
LARGEST: Final = 1 << 20
"""Bytes of one frame, at most."""
_MOST_HEADERS: Final = 64
_MOST_HEADER_BYTES: Final = 32 << 10
_VERSION: Final = 0x8003
_HEAD: Final = struct.Struct(">II")
_NUMBER: Final = struct.Struct(">I")
_NAMES: Final = """
options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age
allow authorization cache-control connection content-base content-encoding content-language content-length
content-location content-md5 content-range content-type date etag expect expires from host if-match
if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma
proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade
user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie
keep-alive origin
"""
_REST: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _dictionary() -> bytes:
    """The dictionary that the SPDY draft names for the compression of headers (its Adler-32 is 0xE3C6A7C2)."""
    names = (name.replace("_", " ").encode() for name in _NAMES.split())
    return b"".join(_NUMBER.pack(len(name)) + name for name in names) + _REST.encode()


DICTIONARY: Final = _dictionary()


class BadSpdy(ValueError):
    """Bytes that are no SPDY/3.1, or more than is taken; the text says why."""


class Frame(msgspec.Struct, frozen=True):
    """One frame: a control frame of a kind, or DATA; `headers` of SYN_STREAM and SYN_REPLY, else `body`."""

    kind: int
    stream: int = 0
    flags: int = 0
    body: bytes = b""
    headers: dict[str, str] = {}

    @property
    def last(self) -> bool:
        """Whether its sender sends nothing more on this stream."""
        return bool(self.flags & FIN)


class FrameReader:
    """Takes bytes in as they come and yields whole frames; holds one frame at most."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._inflater = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete with these bytes; raises BadSpdy."""
        held = self._held
        held += data
        place = 0
        while len(held) - place >= _HEAD.size:
            first, second = _HEAD.unpack_from(held, place)
            flags, length = second >> 24, second & 0xFFFFFF
            if length > LARGEST:
                raise BadSpdy(f"a frame of {length} bytes; {LARGEST} are taken at most")
            end = place + _HEAD.size + length
            if len(held) < end:
                break
            body = bytes(held[place + _HEAD.size : end])
            place = end
            frame = self._frame(first, flags, body)
            if frame is not None:
                yield frame
        del held[:place]

    def _frame(self, first: int, flags: int, body: bytes) -> Frame | None:
        if not first >> 31:
            return Frame(DATA, first, flags, body)
        if first >> 16 != _VERSION:
            raise BadSpdy(f"a control frame of version {first >> 16 & 0x7FFF}; version 3 is spoken")
        kind = first & 0xFFFF
        if kind in (SYN_STREAM, SYN_REPLY, HEADERS):
            offset = 10 if kind == SYN_STREAM else 4
            if len(body) < offset:
                raise BadSpdy("a frame of headers that ends before its stream is named")
            (stream,) = _NUMBER.unpack_from(body)
            return Frame(kind, stream & 0x7FFFFFFF, flags, headers=self._headers(body[offset:]))
        if kind in (RST_STREAM, PING, GOAWAY):
            if len(body) < _NUMBER.size:
                raise BadSpdy("a control frame that is too short")
            (number,) = _NUMBER.unpack_from(body)
            return Frame(kind, number & 0x7FFFFFFF, flags, body)
        return None

    def _headers(self, packed: bytes) -> dict[str, str]:
        try:
            raw = self._inflater.decompress(packed, _MOST_HEADER_BYTES)
        except zlib.error as e:
            raise BadSpdy(f"headers that cannot be decompressed: {e}") from None
        if self._inflater.unconsumed_tail:
            raise BadSpdy(f"headers of more than {_MOST_HEADER_BYTES} bytes")
        place = 0

        def text() -> str:
            nonlocal place
            length = number()
            if length > len(raw) - place:
                raise BadSpdy("headers that end too early")
            place += length
            return raw[place - length : place].decode("utf-8", "replace")

        def number() -> int:
            nonlocal place
            if len(raw) - place < _NUMBER.size:
                raise BadSpdy("headers that end too early")
            place += _NUMBER.size
            return int(_NUMBER.unpack_from(raw, place - _NUMBER.size)[0])

        count = number()
        if count > _MOST_HEADERS:
            raise BadSpdy(f"{count} headers; {_MOST_HEADERS} are taken at most")
        return {text().lower(): text() for _ in range(count)}


class FrameWriter:
    """Makes the bytes of frames, in the order in which they are sent."""

    def __init__(self) -> None:
        self._deflater = zlib.compressobj(zdict=DICTIONARY)

    def reply(self, stream: int) -> bytes:
        """The acceptance of a stream."""
        return control(SYN_REPLY, 0, _NUMBER.pack(stream) + self.packed({}))

    @staticmethod
    def data(stream: int, data: bytes, *, last: bool = False) -> bytes:
        """Bytes of a stream."""
        return _HEAD.pack(stream, (FIN * last) << 24 | len(data)) + data

    @staticmethod
    def reset(stream: int, reason: int) -> bytes:
        """The end of a stream that cannot go on."""
        return control(RST_STREAM, 0, struct.pack(">II", stream, reason))

    @staticmethod
    def ping(number: int) -> bytes:
        """A ping, or the answer to one."""
        return control(PING, 0, _NUMBER.pack(number))

    @staticmethod
    def goaway(last_stream: int) -> bytes:
        """The end of the connection."""
        return control(GOAWAY, 0, struct.pack(">II", last_stream, 0))

    def packed(self, headers: dict[str, str]) -> bytes:
        """Headers as they stand in a frame; each block continues the compression of those before it."""
        parts = [_NUMBER.pack(len(headers))]
        for pair in headers.items():
            parts += [_NUMBER.pack(len(text.encode())) + text.encode() for text in pair]
        return self._deflater.compress(b"".join(parts)) + self._deflater.flush(zlib.Z_SYNC_FLUSH)


def control(kind: int, flags: int, body: bytes) -> bytes:
    """The bytes of a control frame."""
    return _HEAD.pack(_VERSION << 16 | kind, flags << 24 | len(body)) + body
