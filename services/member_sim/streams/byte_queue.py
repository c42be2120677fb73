"""Bytes on their way from a connection to a process: bounded, so that who sends waits for who reads."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

HELD: Final = 256 << 10
"""Bytes that wait from a client at most, but for the last piece that was put."""


class ByteQueue:
    """Pieces of bytes in order, and their end; `room` is how many wait at most, but for the last piece."""

    def __init__(self, room: int = HELD) -> None:
        self._room = room
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._changed = asyncio.Condition()

    @property
    def ended(self) -> bool:
        """Whether nothing more is taken."""
        return self._ended

    async def put(self, data: bytes) -> None:
        """Add bytes once there is room; those after the end are dropped."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._size < self._room or self._ended)
            if data and not self._ended:
                self._pieces.append(data)
                self._size += len(data)
                self._changed.notify_all()

    async def offer(self, data: bytes) -> None:
        """Add bytes where there is room; they are dropped otherwise."""
        if self._size < self._room:
            await self.put(data)

    async def get(self) -> bytes:
        """The next piece; empty at the end."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._pieces or self._ended)
            if not self._pieces:
                return b""
            piece = self._pieces.popleft()
            self._size -= len(piece)
            self._changed.notify_all()
            return piece

    async def end(self) -> None:
        """Nothing more comes; what was put is still read."""
        async with self._changed:
            self._ended = True
            self._changed.notify_all()
