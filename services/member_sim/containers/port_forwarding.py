"""Forwards ports of a pod to its client: over SPDY/3.1, as kubectl does, or over the channels of a WebSocket."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from services._kit.concurrency.supervision import spawn
from services._kit.concurrency.tasks import all_of, end, first_of
from services.apiserver.core.status_errors import bad_request
from services.member_sim.containers.http_responder import HttpResponder, Read, Write
from services.member_sim.containers.pod_containers import Container
from services.member_sim.streams import channel_frames as channels
from services.member_sim.streams.byte_queue import ByteQueue
from services.member_sim.streams.channel_frames import BadFrame
from services.member_sim.streams.spdy_session import SpdySession, SpdyStream, Transport
from services.member_sim.streams.websocket_channels import PIECE, Messages

MOST_PORTS: Final = 16
_MOST_WAITING: Final = 64


class Ports:
    """The ports of one pod."""

    def __init__(self, pod: str, listening: dict[int, Container]) -> None:
        self._pod = pod
        self._listening = listening

    async def serve(self, port: int, read: Read, write: Write) -> str:
        """Serve one connection to a port until it ends; what is to be told to the client, empty where all went well."""
        container = self._listening.get(port)
        if container is None:
            return f"error forwarding port {port} to pod {self._pod}: nothing listens there: connection refused"
        with suppress(ConnectionError):
            await HttpResponder(container, port, read, write).serve()
        return ""


class SpdyForwarding:
    """Connections to ports as pairs of streams: one for data, one for what went wrong."""

    def __init__(self, transport: Transport, ports: Ports) -> None:
        self._session = SpdySession(transport, self._opened)
        self._ports = ports
        self._waiting: dict[str, SpdyStream] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve until the client goes away."""
        try:
            await self._session.run()
        finally:
            await end(*self._tasks)

    def _opened(self, stream: SpdyStream) -> bool:
        kind, port = stream.headers.get("streamtype"), stream.headers.get("port", "")
        if kind not in ("error", "data") or not port.isdigit() or not 0 < int(port[:6]) < 1 << 16:
            return False
        if kind == "error":
            if len(self._waiting) >= _MOST_WAITING:
                return False
            self._waiting[stream.headers.get("requestid") or str(stream.number)] = stream
            return True
        # Clients that name no request open the one stream right after the other.
        error = self._waiting.pop(stream.headers.get("requestid") or str(stream.number - 2), None)
        if error is None:
            return False
        task = spawn("port-forward", self._serve(int(port), stream, error))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _serve(self, port: int, data: SpdyStream, error: SpdyStream) -> None:
        try:
            problem = await self._ports.serve(port, data.read, data.write)
            if problem:
                await error.write(problem.encode())
            await data.finish()
            await error.finish()
        except ConnectionError:
            return


class ChannelForwarding:
    """Connections to ports as channels of one WebSocket, two for each port: data, and what went wrong."""

    def __init__(self, messages: Messages, version: str, ports: Ports, numbers: list[int]) -> None:
        self._messages = messages
        self._version = version
        self._ports = ports
        self._numbers = numbers
        self._incoming = [ByteQueue() for _ in numbers]

    async def run(self) -> None:
        """Serve until all connections have ended or the client goes away."""
        for place, port in enumerate(self._numbers):
            for channel in (2 * place, 2 * place + 1):
                await self._send(channel, port.to_bytes(2, "little"))
        served = all_of(self._serve(place) for place in range(len(self._numbers)))
        await first_of(self._follow(), served, self._messages.until_silent())
        await self._messages.close()

    async def _follow(self) -> None:
        while (message := await self._messages.next()) is not None:
            try:
                channel, data = channels.unframed(self._version, message)
                if channel >= 2 * len(self._numbers):
                    raise BadFrame(f"channel {channel} belongs to no port")
            except BadFrame as e:
                await self._messages.refuse(str(e))
                return
            if channel % 2 == 0 and not await self._messages.handed(self._incoming[channel // 2], data):
                return

    async def _serve(self, place: int) -> None:
        async def write(data: bytes) -> None:
            for start in range(0, len(data), PIECE):
                await self._send(2 * place, data[start : start + PIECE])

        problem = await self._ports.serve(self._numbers[place], self._incoming[place].get, write)
        await self._incoming[place].end()
        if problem:
            await self._send(2 * place + 1, problem.encode())

    async def _send(self, channel: int, data: bytes) -> None:
        framed = channels.framed(self._version, channel, data)
        await self._messages.send(framed, text=channels.is_text(self._version))


def ports_of(query: dict[str, list[str]]) -> list[int]:
    """The ports that a query names; raises ApiError 400."""
    names = [name for text in query.get("ports", ()) for name in text.split(",")]
    if not names:
        raise bad_request("query parameter 'ports' is needed for port-forward over a WebSocket with channels")
    if len(names) > MOST_PORTS:
        raise bad_request(f"{len(names)} ports; {MOST_PORTS} are forwarded over one connection at most")
    found = []
    for name in names:
        if not name.isdigit() or not 0 < int(name[:6]) < 1 << 16:
            raise bad_request(f"unable to parse {name[:20]!r} as a port: use a number from 1 to 65535")
        found.append(int(name))
    return found
