"""A TCP proxy between a client and a server that can cut, hold back and swallow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from types import TracebackType
from typing import Self


class Proxy:
    """Listens on `url`; every fault holds until it is taken back.

    `swallow_answers`: what the server says is dropped (cut before taking it back: the client's stream is broken).
    `hold`: nothing passes in either direction, and nothing is lost.
    `hold_after`: it begins to hold when clients have sent so many bytes; `sent` counts them.
    """

    def __init__(self, port: int | Callable[[], int]) -> None:
        """`port` of the server on this machine, or who knows it once somebody connects."""
        self._target = port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._arriving: set[asyncio.Task[None]] = set()
        """Connections whose far end is being opened."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.swallow_answers = False
        self.swallowed = 0
        self.accept = True
        self.hold_after = inf
        self.sent = 0
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"nats://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*self._arriving, return_exceptions=True)
        self.release()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Break every connection; clients may connect again at once."""
        for writer in list(self._writers):
            writer.transport.abort()

    def hold(self) -> None:
        """Let nothing pass."""
        self._flowing.clear()

    def release(self) -> None:
        """Let everything pass again, what was held back first."""
        self._flowing.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.accept:
            writer.transport.abort()
            return
        self._writers.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)
        port = self._target if isinstance(self._target, int) else self._target()
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            self._writers.discard(writer)
            writer.transport.abort()
            return
        if not self.accept:
            # Shut meanwhile.
            self._writers.discard(writer)
            for one in (writer, far_writer):
                one.transport.abort()
            return
        self._writers.add(far_writer)
        for task in (
            asyncio.create_task(self._copy(reader, far_writer, answers=False)),
            asyncio.create_task(self._copy(far_reader, writer, answers=True)),
        ):
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: bool) -> None:
        try:
            while data := await reader.read(65536):
                if not answers:
                    self.sent += len(data)
                    if self.sent >= self.hold_after:
                        self.hold()
                await self._flowing.wait()
                if answers and self.swallow_answers:
                    self.swallowed += len(data)
                    continue
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()
