"""WebSocket connections: the streams of a process as channels, and a tunnel of plain bytes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import structlog
from aiohttp import WSCloseCode, WSMsgType, web
from aiohttp.web_request import BaseRequest

from services._kit.concurrency.tasks import first_of
from services.apiserver.core.status_errors import bad_request
from services.member_sim.streams import channel_frames as channels
from services.member_sim.streams.byte_queue import ByteQueue
from services.member_sim.streams.channel_frames import BadFrame, Size
from services.member_sim.streams.peer_pings import until_silent
from services.member_sim.streams.process_streams import Wanted

log = structlog.get_logger(__name__)

LARGEST_MESSAGE: Final = 1 << 20
"""Bytes of one message of a client, at most."""
PIECE: Final = 32 << 10
"""Bytes of one message to a client, at most."""
_LOOK_SECONDS: Final = 1.0
_GONE: Final = frozenset({WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR})


def offered(http: BaseRequest) -> list[str]:
    """The subprotocols that a client names."""
    return [name.strip() for line in http.headers.getall("Sec-WebSocket-Protocol", ()) for name in line.split(",")]


async def accept(http: BaseRequest, protocol: str) -> web.WebSocketResponse:
    """Begin a WebSocket of one subprotocol; raises ApiError for a handshake that is none."""
    protocols = (protocol,) if protocol else ()
    socket = web.WebSocketResponse(
        protocols=protocols,
        # Its own pings would end clients whose answers wait behind bytes for which there is no room.
        autoping=False,
        max_msg_size=LARGEST_MESSAGE,
        # What is compressed may be far larger than it looks.
        compress=False,
    )
    try:
        await socket.prepare(http)
    except web.HTTPException as e:
        raise bad_request(f"the handshake of the WebSocket is none: {(e.text or e.reason)[:200]}") from None
    return socket


class Messages:
    """The messages of one WebSocket."""

    def __init__(self, http: BaseRequest, socket: web.WebSocketResponse) -> None:
        self._http = http
        self._socket = socket
        self._heard = 0
        self._full = False

    @property
    def gone(self) -> bool:
        """Whether the client has gone away."""
        return self._socket.closed or self._http.transport is None or self._http.transport.is_closing()

    async def next(self) -> bytes | None:
        """The next message; None once the client is gone."""
        while True:
            message = await self._socket.receive()
            self._heard += 1
            if message.type in _GONE:
                if message.type is WSMsgType.ERROR:
                    log.info("websocket_ended", reason=str(message.data)[:200])
                return None
            if message.type is WSMsgType.PING:
                with suppress(ConnectionError):
                    await self._socket.pong(message.data)
            elif message.type is not WSMsgType.PONG:
                return message.data.encode() if message.type is WSMsgType.TEXT else bytes(message.data)

    async def until_silent(self) -> None:
        """Return once the client is gone without a word."""
        await until_silent(self._socket.ping, lambda: self._heard, lambda: self._full)

    async def send(self, data: bytes, *, text: bool = False) -> None:
        """Send a message once there is room; raises ConnectionError."""
        if self.gone:
            raise ConnectionResetError("the client has gone away")
        if text:
            await self._socket.send_str(data.decode())
        else:
            await self._socket.send_bytes(data)

    async def handed(self, queue: ByteQueue, data: bytes) -> bool:
        """Put bytes into a queue; false where the client goes away while it is full."""
        self._full = True
        try:
            while not self.gone:
                try:
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await queue.put(data)
                except TimeoutError:
                    continue
                return True
            return False
        finally:
            self._full = False

    async def refuse(self, why: str) -> None:
        """Close the connection of a client that broke the protocol."""
        log.info("websocket_refused", reason=why)
        await self._socket.close(code=WSCloseCode.PROTOCOL_ERROR, message=why.encode()[:120])

    async def close(self) -> None:
        """Close the connection after all was said."""
        await self._socket.close()


class ChannelProcess:
    """The streams of a process over one WebSocket."""

    def __init__(self, messages: Messages, version: str, wanted: Wanted) -> None:
        self._messages = messages
        self._version = version
        self._wanted = wanted
        self._text = channels.is_text(version)
        self._stdin = ByteQueue()
        self.size = Size()
        self.finishing = False

    async def begin(self) -> None:
        """Tell the client that the process runs: clients wait for a first message."""
        first = channels.STDOUT if self._wanted.stdout else channels.STDERR if self._wanted.stderr else channels.ERROR
        await self._send(first, b"")
        if not self._wanted.stdin:
            await self._stdin.end()

    async def follow(self) -> None:
        """Take in messages until the client goes away or breaks the protocol."""
        await first_of(self._follow(), self._messages.until_silent())
        await self._stdin.end()

    async def _follow(self) -> None:
        while (message := await self._messages.next()) is not None:
            try:
                channel, data = channels.unframed(self._version, message)
                if channel == channels.STDIN and self._wanted.stdin:
                    if not await self._messages.handed(self._stdin, data):
                        break
                elif channel == channels.RESIZE and self._wanted.tty:
                    self.size = channels.size_of(data)
                elif channel == channels.CLOSE and self._version == channels.V5:
                    if data[:1] == bytes((channels.STDIN,)):
                        await self._stdin.end()
                elif channel > channels.RESIZE:
                    raise BadFrame(f"channel {channel} is none of a process")
            except BadFrame as e:
                await self._messages.refuse(str(e))
                break

    async def read(self) -> bytes:
        """The next bytes of standard input; empty at its end."""
        return await self._stdin.get()

    async def write(self, data: bytes, *, error: bool = False) -> None:
        """Send bytes of standard output or standard error; raises ConnectionError."""
        if error and not self._wanted.tty:
            channel, asked = channels.STDERR, self._wanted.stderr
        else:
            channel, asked = channels.STDOUT, self._wanted.stdout
        if asked:
            for start in range(0, len(data), PIECE):
                await self._send(channel, data[start : start + PIECE])

    async def finish(self, code: int, problem: str) -> None:
        """Tell how the process ended and close."""
        self.finishing = True
        status = channels.final(self._version, code, problem)
        if status:
            await self._send(channels.ERROR, status)
        await self._messages.close()

    async def _send(self, channel: int, data: bytes) -> None:
        await self._messages.send(channels.framed(self._version, channel, data), text=self._text)


class Tunnel:
    """A WebSocket whose messages are one stream of bytes."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    async def read(self) -> bytes:
        """The next bytes; empty once the client is gone."""
        while (message := await self._messages.next()) is not None:
            if message:
                return message
        return b""

    async def write(self, data: bytes) -> None:
        """Send bytes once there is room; raises ConnectionError."""
        await self._messages.send(data)

    async def close(self) -> None:
        """End it."""
        await self._messages.close()
