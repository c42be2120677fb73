"""Takes HTTP/1.1 answers apart as their bytes arrive: one at a time, gathered whole.

API servers answer thousands of small requests; a parser that knows no more than what they say costs a fraction of one
that knows the whole protocol (docs/adr/0016).
"""

from __future__ import annotations

import zlib
from typing import Final

from msgspec import Struct

_END: Final = b"\r\n"
_GZIP: Final = 31
_LONGEST_HEAD: Final = 1 << 16
_EMPTY: Final = frozenset({204, 304})


class Malformed(OSError):
    """What arrived is no HTTP/1.1 answer."""


class Answer(Struct):
    """One answer; names of `headers` are lower case. `lasting` is whether the connection can be used again."""

    status: int
    reason: str
    headers: dict[str, str]
    lasting: bool
    body: bytes = b""


class Gathering:
    """The answer to one request of a method; `feed` until it says that it is whole."""

    def __init__(self, method: str) -> None:
        self.begun = False
        """Whether a byte of it has arrived."""
        self._bodiless = method == "HEAD"
        self._rest = b""
        self._answer: Answer | None = None
        self._parts: list[bytes] = []
        self._left = 0
        """Bytes of the body, or of the present chunk, that are to come; -1: whatever comes until the end."""
        self._chunked = False
        self._trailing = False

    def feed(self, data: bytes) -> Answer | None:
        """The answer once it is whole; raises Malformed."""
        self.begun = True
        answer = self._answer
        if answer is None:
            data = self._rest + data if self._rest else data
            self._rest = b""
            answer, data = self._head(data)
            if answer is None:
                return None
        if self._chunked:
            return self._feed_chunks(answer, data)
        if self._left < 0:
            self._parts.append(data)
            return None
        if len(data) > self._left:
            raise Malformed("more was answered than the length that was announced")
        self._left -= len(data)
        if data:
            self._parts.append(data)
        return self._whole(answer) if not self._left else None

    def end(self) -> Answer | None:
        """The connection ended: the answer, if that was how it ends."""
        if self._answer is not None and self._left < 0:
            return self._whole(self._answer)
        return None

    def _head(self, data: bytes) -> tuple[Answer | None, bytes]:
        """Status and headers once they are there, and what follows them."""
        while True:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > _LONGEST_HEAD:
                    raise Malformed("its headers have no end")
                self._rest = data
                return None, b""
            first, *lines = data[:end].decode("latin-1").split("\r\n")
            data = data[end + 4 :]
            words = first.split(" ", 2)
            if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
                raise Malformed(f"it begins with {first[:80]!r}")
            if words[1][0] != "1":
                break  # What is not the answer yet says that one is on its way.
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                raise Malformed(f"its headers have the line {line[:80]!r}")
            headers[name.lower()] = value.strip()
        lasting = words[0] != "HTTP/1.0" and headers.get("connection", "").lower() != "close"
        self._answer = Answer(int(words[1]), words[2] if len(words) > 2 else "", headers, lasting)
        self._measure(self._answer)
        return self._answer, data

    def _measure(self, answer: Answer) -> None:
        """Find out where the body ends."""
        length = answer.headers.get("content-length")
        if self._bodiless or answer.status in _EMPTY:
            self._left = 0
        elif "chunked" in answer.headers.get("transfer-encoding", "").lower():
            self._chunked = True
        elif length is not None:
            if not length.isdigit():
                raise Malformed(f"its length is {length[:40]!r}")
            self._left = int(length)
        else:
            self._left, answer.lasting = -1, False

    def _feed_chunks(self, answer: Answer, data: bytes) -> Answer | None:
        data = self._rest + data if self._rest else data
        at, self._rest = 0, b""
        while True:
            if self._left > 0:
                part = data[at : at + self._left]
                self._parts.append(part)
                self._left -= len(part)
                at += len(part)
                if self._left:
                    return None
                self._left = -1  # The line's end behind a chunk is to come.
            end = data.find(_END, at)
            if end < 0:
                self._rest = data[at:]
                return None
            line, at = data[at:end], end + 2
            if self._left < 0:
                if line:
                    raise Malformed("a chunk is longer than announced")
                self._left = 0
            elif self._trailing:
                if not line:
                    return self._whole(answer)
            else:
                self._left = _size(line)
                self._trailing = not self._left

    def _whole(self, answer: Answer) -> Answer:
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        if body and answer.headers.get("content-encoding", "").lower() == "gzip":
            try:
                body = zlib.decompress(body, _GZIP)
            except zlib.error as error:
                raise Malformed(f"it cannot be decompressed: {error}") from None
        answer.body = body
        return answer


def _size(line: bytes) -> int:
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError:
        raise Malformed(f"a chunk begins with {line[:40]!r}") from None
