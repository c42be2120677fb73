"""Reads the bodies of answers within limits: whole ones, and streams of lines."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import aiohttp

from services._kit.base.answer_limits import Limits
from services._kit.kube.api import BadAnswer

_SMALL = 64 << 10
"""Answers up to this size are read side by side; of larger ones a neighbour sends one at a time."""
_PART = 256 << 10
_BLOCK = 64 << 10


class TooLarge(BadAnswer):
    """An answer exceeds a limit; asked for less, the endpoint may stay below it."""


def check_head(response: aiohttp.ClientResponse, limits: Limits) -> None:
    """Refuse an answer by its head; raises BadAnswer."""
    size = sum(len(name) + len(value) for name, value in response.raw_headers)
    if size > limits.header_bytes:
        raise BadAnswer(f"its headers have {size} bytes, more than {limits.header_bytes}")
    declared = response.content_length
    if declared is not None and declared > limits.answer_bytes:
        raise TooLarge(f"it announces {declared} bytes, more than {limits.answer_bytes}")


async def whole(response: aiohttp.ClientResponse, limits: Limits, large: asyncio.Lock) -> bytes:
    """The body of an answer, unpacked; `large` is held while one that is large is read.

    Raises TooLarge, BadAnswer for what cannot be unpacked, TimeoutError for silence between its bytes.
    """
    check_head(response, limits)
    unpack = _unpacker(response)
    found = Buffer()
    async with AsyncExitStack() as held:
        while True:
            async with asyncio.timeout(limits.silence_seconds):
                piece = await response.content.readany()
            if not piece:
                break
            if found.size <= _SMALL < found.size + len(piece):
                await held.enter_async_context(large)
            for part in unpack.parts(piece):
                found.add(part)
                if found.size > limits.answer_bytes:
                    found.clear()
                    raise TooLarge(f"it has more than {limits.answer_bytes} bytes")
                if len(part) == _PART:
                    await asyncio.sleep(0)
        unpack.check_end()
        return found.whole()


class Buffer:
    """Bytes that arrive piece by piece, kept in blocks: growing one large block leaves holes in the memory."""

    def __init__(self) -> None:
        self.size = 0
        self._blocks: list[bytes] = []
        self._last = bytearray()

    def add(self, piece: bytes) -> None:
        """More bytes."""
        self.size += len(piece)
        self._last += piece
        if len(self._last) >= _BLOCK:
            self._blocks.append(bytes(self._last))
            self._last = bytearray()

    def whole(self) -> bytes:
        """All bytes so far."""
        return b"".join((*self._blocks, self._last))

    def clear(self) -> None:
        """Forget all bytes."""
        self.size = 0
        self._blocks.clear()
        self._last = bytearray()


class _Plain:
    """A body that is not packed."""

    def parts(self, piece: bytes) -> Iterator[bytes]:
        """The piece itself."""
        yield piece

    def check_end(self) -> None:
        """Nothing is left over."""


class _Packed:
    """A body that is packed with gzip; never unpacked further than it is asked for."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(16 + zlib.MAX_WBITS)

    def parts(self, piece: bytes) -> Iterator[bytes]:
        """What a piece unpacks to, in parts of bounded size; raises BadAnswer."""
        while piece:
            try:
                part = self._inflate.decompress(piece, _PART)
            except zlib.error as error:
                raise BadAnswer(f"it is announced as gzip and cannot be unpacked: {error}") from error
            if part:
                yield part
            if self._inflate.unused_data:
                raise BadAnswer("something follows the end of its gzip stream")
            piece = self._inflate.unconsumed_tail

    def check_end(self) -> None:
        """Raise BadAnswer where the stream is not complete."""
        if not self._inflate.eof:
            raise BadAnswer("its gzip stream ends early")


def _unpacker(response: aiohttp.ClientResponse) -> _Plain | _Packed:
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    if encoding == "identity":
        return _Plain()
    if encoding == "gzip":
        return _Packed()
    raise BadAnswer(f"it is packed with {encoding[:40]}, which was not asked for")


class Lines:
    """Cuts a stream into lines; `size` is that of the line that has begun."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rest = Buffer()

    @property
    def size(self) -> int:
        """Bytes of the line that has begun."""
        return self._rest.size

    @property
    def rest(self) -> bytes:
        """The line that has begun."""
        return self._rest.whole()

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that a piece ends, without empty ones; raises TooLarge."""
        first, *others = piece.split(b"\n")
        self._add(first)
        if not others:
            return []
        *lines, last = (self._rest.whole(), *others)
        self._rest = Buffer()
        self._add(last)
        return [line for line in lines if line]

    def _add(self, piece: bytes) -> None:
        self._rest.add(piece)
        if self._rest.size > self._most:
            self._rest.clear()
            raise TooLarge(f"a line has more than {self._most} bytes")


async def lines(response: aiohttp.ClientResponse, limits: Limits, large: asyncio.Lock) -> AsyncIterator[list[bytes]]:
    """The lines of a stream, as many at once as have arrived; the last one also where it is not ended.

    Returns at its end, and when no line came for too long. Raises TooLarge, BadAnswer, and TimeoutError for a large
    line that takes too long.
    """
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise BadAnswer("the stream is packed, which was not asked for")
    cut = Lines(limits.object_bytes)
    ended = False
    while not ended:
        found: list[bytes] = []
        if cut.size <= _SMALL:
            try:
                async with asyncio.timeout(limits.silence_seconds):
                    ended, found = await _next_lines(response, cut, most=_SMALL)
            except TimeoutError:
                return
        else:
            async with large, asyncio.timeout(limits.line_seconds):
                ended, found = await _next_lines(response, cut, most=limits.object_bytes)
        if found:
            yield found
    if cut.size:
        yield [cut.rest]


async def _next_lines(response: aiohttp.ClientResponse, cut: Lines, *, most: int) -> tuple[bool, list[bytes]]:
    """Whether the stream has ended, and the next lines; none once more than `most` bytes of one have arrived."""
    while True:
        piece = await response.content.readany()
        found = cut.feed(piece) if piece else []
        if found or not piece or cut.size > most:
            return not piece, found
