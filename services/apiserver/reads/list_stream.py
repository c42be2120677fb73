"""Sends long lists in slices: others are served in between, and only what the client takes is written.

A list is made from the stored bytes of its objects as it goes, so that it costs no memory beyond a slice. Long lists
take turns: however many there are, one slice is made before other requests get theirs.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import msgspec
from aiohttp import web

from services.apiserver.reads.list_requests import SLICE_BYTES, Page, slices
from services.apiserver.reads.responses import View

SHORT_BYTES: Final = 1 << 20
SHORT: Final = 500
"""Objects of a list that is sent at once, if they have no more than SHORT_BYTES."""
_FASTEST: Final = 1
_GZIP: Final = 31

_encode: Final = msgspec.json.Encoder().encode


def is_short(page: Page) -> bool:
    """Whether a list is sent at once."""
    entries = page.entries
    return len(entries) <= SHORT and sum(len(entry.raw) for entry in entries) <= SHORT_BYTES


async def parts_of(view: View, page: Page, turns: asyncio.Lock) -> AsyncIterator[list[bytes]]:
    """The parts of a list by slices, one slice of all lists in each turn."""
    for entries in slices(page.entries):
        if view.fetches:
            await view.load(entries)
        async with turns:
            parts = view.parts(entries)
            await asyncio.sleep(0)
        yield parts


async def as_json(view: View, page: Page, slices_of: AsyncIterator[list[bytes]]) -> AsyncIterator[bytes]:
    """A list as JSON without blanks."""
    before, tail = view.list_ends(page.meta, empty=not page.entries)
    async for parts in slices_of:
        yield before + b",".join(parts)
        before = b","
    yield tail if page.entries else before + tail


async def as_pretty_json(view: View, page: Page, slices_of: AsyncIterator[list[bytes]]) -> AsyncIterator[bytes]:
    """A list as indented JSON."""
    text = msgspec.json.format(b"".join(view.list_ends(page.meta, empty=not page.entries)), indent=2) + b"\n"
    head, found, tail = text.rpartition(b"[]")
    if not found or not page.entries:
        yield text
        return
    before = head + b"[\n    "
    async for parts in slices_of:
        yield before + b",\n    ".join(msgspec.json.format(part, indent=2).replace(b"\n", b"\n    ") for part in parts)
        before = b",\n    "
    yield b"\n  ]" + tail


async def as_yaml(
    view: View, page: Page, slices_of: AsyncIterator[list[bytes]], convert: Callable[[bytes], Awaitable[bytes]]
) -> AsyncIterator[bytes]:
    """A list as YAML; `convert` makes YAML of a JSON document, where that holds up no others."""
    whole = msgspec.json.decode(b"".join(view.list_ends(page.meta, empty=not page.entries)))
    name = "rows" if "rows" in whole else "items"
    if not page.entries:
        yield await convert(_encode(whole))
        return
    before, after = ({key: value for key, value in whole.items() if (key < name) == first} for first in (True, False))
    yield await convert(_encode(before)) + name.encode() + b":\n"
    async for parts in slices_of:
        yield await convert(b"[" + b",".join(parts) + b"]")
    del after[name]
    yield await convert(_encode(after))


def takes_gzip(accept_encoding: str) -> bool:
    """Whether a client asks for compressed answers."""
    return any(item.strip() == "gzip" for item in accept_encoding.split(","))


class ListResponse(web.StreamResponse):
    """A long list, made and sent after the request was handled; a client that reads slowly slows only this down."""

    def __init__(
        self, media: str, chunks: AsyncIterator[bytes], *, zipped: bool, tasks: set[asyncio.Task[Any]]
    ) -> None:
        super().__init__(status=200)
        self.headers["Content-Type"] = media
        self.headers["Vary"] = "Accept-Encoding"
        if zipped:
            self.headers["Content-Encoding"] = "gzip"
        self._chunks = chunks
        self._zip = zlib.compressobj(_FASTEST, zlib.DEFLATED, _GZIP) if zipped else None
        self._tasks = tasks

    async def write_eof(self, data: bytes = b"") -> None:
        """Make and send the list; among `tasks` meanwhile."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if self._req is not None and self._req.method != "HEAD":
                await self._send(self._req.transport)
        finally:
            self._tasks.discard(task)
        await super().write_eof(data)

    async def _send(self, transport: asyncio.Transport | None) -> None:
        if transport is not None:
            transport.set_write_buffer_limits(high=SLICE_BYTES)
        async for chunk in self._chunks:
            # Compressing takes far longer than making the chunk; the lock of the interpreter is free meanwhile.
            data = chunk if self._zip is None else await asyncio.to_thread(self._zip.compress, chunk)
            if data:
                await self.write(data)
        if self._zip is not None:
            await self.write(self._zip.flush())
