"""The streams of a process over SPDY/3.1: one stream for each of input, output, error, size and status."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from services._kit.concurrency.supervision import spawn
from services.member_sim.streams import channel_frames as channels
from services.member_sim.streams.channel_frames import BadFrame, Size
from services.member_sim.streams.process_streams import Wanted
from services.member_sim.streams.spdy_session import SpdySession, SpdyStream, Transport

VERSIONS: Final = (channels.V4, "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
_PATIENCE_SECONDS: Final = 30.0
_LONGEST_SIZE: Final = 4096


class SpdyProcess:
    """A process whose client opens its streams."""

    def __init__(self, transport: Transport, version: str, wanted: Wanted) -> None:
        self._version = version
        self._wanted = wanted
        self._session = SpdySession(transport, self._opened)
        self._streams: dict[str, SpdyStream] = {}
        self._complete = asyncio.Event()
        self._names = {"error"} | {name for name in ("stdin", "stdout", "stderr") if getattr(wanted, name)}
        self.size = Size()
        self.finishing = False

    def _opened(self, stream: SpdyStream) -> bool:
        name = stream.headers.get("streamtype", "")
        allowed = self._names | ({"resize"} if self._wanted.tty else set())
        if name not in allowed or name in self._streams:
            return False
        self._streams[name] = stream
        if name == "resize":
            # Its reading ends with the connection.
            spawn("terminal-size", self._sizes(stream))
        if self._streams.keys() >= self._names:
            self._complete.set()
        return True

    async def begin(self) -> None:
        """Wait until the client has opened the streams that it asked for; raises ConnectionError when it does not."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._complete.wait()
        except TimeoutError:
            missing = ", ".join(sorted(self._names - self._streams.keys()))
            raise ConnectionAbortedError(f"the client did not open its streams {missing}") from None

    async def follow(self) -> None:
        """Take in what the client sends until it goes away."""
        await self._session.run()

    async def _sizes(self, stream: SpdyStream) -> None:
        """Follow the size of the terminal until the client tells no more."""
        held = b""
        while len(held) < _LONGEST_SIZE and (piece := await stream.read()):
            *whole, held = (held + piece).replace(b"}", b"}\0").split(b"\0")
            for text in whole:
                with suppress(BadFrame):
                    self.size = channels.size_of(text)

    async def read(self) -> bytes:
        """The next bytes of standard input; empty at its end."""
        stream = self._streams.get("stdin")
        return await stream.read() if stream is not None else b""

    async def write(self, data: bytes, *, error: bool = False) -> None:
        """Send bytes of standard output or standard error; raises ConnectionError."""
        stream = self._streams.get("stderr" if error and not self._wanted.tty else "stdout")
        if stream is not None:
            await stream.write(data)

    async def finish(self, code: int, problem: str) -> None:
        """Tell how the process ended."""
        self.finishing = True
        await self._streams["error"].write(channels.final(self._version, code, problem))
        for stream in self._streams.values():
            await stream.finish()


def version_of(offered: list[str]) -> str | None:
    """The version to speak with a client that offers these; None where there is none in common."""
    names = [name.strip() for line in offered for name in line.split(",")] or [VERSIONS[-1]]
    return next((name for name in VERSIONS if name in names), None)
