"""A terminal between client and process: lines are edited and echoed, Ctrl-C interrupts, Ctrl-D ends the input."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import Struct

from services.member_sim.streams.byte_queue import ByteQueue
from services.member_sim.streams.channel_frames import Size
from services.member_sim.streams.process_streams import ProcessStreams

LONGEST_LINE: Final = 4096
_INTERRUPT, _END, _KILL, _ESCAPE = 0x03, 0x04, 0x15, 0x1B
_ERASE: Final = frozenset((0x08, 0x7F))
_NEWLINES: Final = frozenset((0x0A, 0x0D))


class Typed(Struct):
    """What keys led to: what is shown, what the process reads, whether it is interrupted or its input ended."""

    shown: bytearray
    read: bytearray
    interrupted: bool = False
    ended: bool = False


class LineDiscipline:
    """Turns keys into lines, as a terminal does that edits them."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._sequence = 0

    def feed(self, keys: bytes) -> Typed:
        """Take keys in, in order; those after an end of input are dropped."""
        typed = Typed(bytearray(), bytearray())
        for key in keys:
            if self._in_sequence(key):
                continue
            if key == _INTERRUPT:
                typed.shown += b"^C\n"
                typed.read.clear()
                self._line.clear()
                typed.interrupted = True
            elif key == _END:
                if not self._line:
                    typed.ended = True
                    return typed
                typed.read += self._line
                self._line.clear()
            elif key == _KILL:
                typed.shown += b"\b \b" * len(self._line)
                self._line.clear()
            elif key in _ERASE:
                if self._line:
                    self._line.pop()
                    typed.shown += b"\b \b"
            elif key in _NEWLINES:
                typed.shown += b"\n"
                typed.read += bytes(self._line) + b"\n"
                self._line.clear()
            elif len(self._line) < LONGEST_LINE:
                self._line.append(key)
                typed.shown.append(key)
            else:
                typed.shown += b"\a"
        return typed

    def _in_sequence(self, key: int) -> bool:
        """Whether the key belongs to the sequence of an arrow or function key, which is left out."""
        if key == _ESCAPE:
            self._sequence = 1
            return True
        if self._sequence == 1 and key in b"[O":
            self._sequence = 2
            return True
        if self._sequence == 2:
            if 0x40 <= key <= 0x7E:
                self._sequence = 0
            return True
        self._sequence = 0
        return False


class Terminal:
    """The streams of a process that runs in a terminal."""

    def __init__(self, streams: ProcessStreams) -> None:
        self._streams = streams
        self._discipline = LineDiscipline()
        self._lines = ByteQueue()
        self.interrupted = asyncio.Event()

    @property
    def size(self) -> Size:
        """The present size."""
        return self._streams.size

    async def pump(self) -> None:
        """Take keys in until there are no more."""
        while keys := await self._streams.read():
            typed = self._discipline.feed(keys)
            if typed.shown:
                await self.write(bytes(typed.shown))
            if typed.interrupted:
                self.interrupted.set()
            if typed.read:
                # Keys have to be read all the time, for the one that interrupts: what nothing reads is lost.
                await self._lines.offer(bytes(typed.read))
            if typed.ended:
                await self._lines.end()
        await self._lines.end()

    async def read(self) -> bytes:
        """The next lines; empty at the end."""
        return await self._lines.get()

    async def write(self, data: bytes, *, error: bool = False) -> None:
        """Show bytes."""
        await self._streams.write(data.replace(b"\n", b"\r\n"))
