"""Sends requests to one HTTP endpoint over connections that are kept, and gathers each answer whole.

A connection carries one request at a time. What may be sent is asked in the same turn of the loop in which it is
written: nothing that was held back can follow later.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Mapping
from typing import Final, cast
from urllib.parse import quote, urlencode, urlsplit

from services._kit.guard import Guard
from services._kit.http_answers import Answer, Gathering

KEPT_SECONDS: Final = 75.0
_REPEATABLE: Final = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_SAFE: Final = "/%:@!$&'()*+,;=~-._"


class NotConnected(TimeoutError):
    """The endpoint took no connection in time."""


class Disconnected(OSError):
    """The endpoint closed the connection instead of answering."""


class _Connection(asyncio.Protocol):
    """One connection and the request that it carries."""

    def __init__(self) -> None:
        self.used = False
        """Whether it has carried a request before."""
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._gathering: Gathering | None = None
        self._waiting: asyncio.Future[Answer] | None = None

    @property
    def alive(self) -> bool:
        """Whether it can carry a request."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, method: str, data: bytes) -> asyncio.Future[Answer]:
        """Write a request now; its answer."""
        if self._transport is None:
            raise Disconnected("the server closed the connection")
        self.used = True
        self._gathering = Gathering(method)
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        return self._waiting

    @property
    def silent(self) -> bool:
        """Whether not a byte of the answer has come."""
        return self._gathering is None or not self._gathering.begun

    def close(self) -> None:
        """Close at once, whatever is under way."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        waiting, gathering = self._waiting, self._gathering
        if waiting is None or gathering is None or waiting.done():
            self.close()  # Nobody asked for it.
            return
        try:
            answer = gathering.feed(bytes(data))
        except OSError as error:
            self._fail(error)
            self.close()
            return
        if answer is not None:
            # It may be long until the next request, and megabytes may be in this answer.
            self._gathering = self._waiting = None
            waiting.set_result(answer)

    def eof_received(self) -> None:
        if self._waiting is not None and not self._waiting.done() and self._gathering is not None:
            try:
                answer = self._gathering.end()
            except OSError as error:
                self._fail(error)
                return
            if answer is not None:
                self._waiting.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        self.eof_received()
        self._transport = None
        self._fail(error if isinstance(error, OSError) else Disconnected("the server closed the connection"))

    def _fail(self, error: Exception) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)


class HttpPool:
    """Requests to `server` (a URL, perhaps with a path that goes before all others), so many at once."""

    def __init__(
        self,
        server: str,
        *,
        tls: ssl.SSLContext | None,
        headers: Mapping[str, str],
        connections: int,
        connect_seconds: float = 10.0,
    ) -> None:
        parts = urlsplit(server)
        secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if secure else 80)
        self._tls: ssl.SSLContext | bool | None = (tls or True) if secure else None
        self._prefix = quote(parts.path.rstrip("/"), safe=_SAFE)
        lines = {"Host": parts.netloc.rpartition("@")[2], **headers}
        self._lines = "".join(f"{name}: {_line(value)}\r\n" for name, value in lines.items())
        self._free = connections
        self._connect_seconds = connect_seconds
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str],
        body: bytes | None = None,
        guard: Guard | None = None,
    ) -> Answer:
        """Send one request; raises OSError when no answer came, and FenceLost when the guard let nothing through.

        What a connection that was kept too long did not carry is sent anew where that changes nothing.
        """
        data = self._written(method, path, params, headers, body)
        while True:
            connection = await self._take()
            kept = connection.used
            try:
                while guard is not None and not guard.holds:
                    await guard.wait()
                if kept and not connection.alive:
                    continue  # Nothing was written.
                answer = await connection.send(method, data)
            except OSError:
                if not (kept and connection.silent and method in _REPEATABLE):
                    raise
            else:
                if answer.lasting:
                    self._keep(connection)
                return answer
            finally:
                self._release(connection)

    def _written(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> bytes:
        path, _, query = path.partition("?")
        target = self._prefix + quote(path, safe=_SAFE)
        if params:
            query = f"{query}&{urlencode(params)}" if query else urlencode(params)
        if query:
            target = f"{target}?{query}"
        own = "".join([f"{name}: {_line(value)}\r\n" for name, value in headers.items()])
        length = f"Content-Length: {len(body)}\r\n" if body is not None else ""
        head = f"{method} {target} HTTP/1.1\r\n{self._lines}{own}{length}\r\n".encode("latin-1")
        return head if body is None else head + body

    async def _take(self) -> _Connection:
        """A connection that nobody uses; opens one where there is room, else waits for one."""
        while self._free <= 0:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._wake()  # Another one's turn: this one has no use for it.
                raise
        self._free -= 1
        try:
            while self._idle:
                connection = self._idle.pop()
                if connection.alive:
                    self._busy.add(connection)
                    return connection
            return await self._open()
        except BaseException:
            self._free += 1
            self._wake()
            raise

    async def _open(self) -> _Connection:
        if self._closed:
            raise Disconnected("the client was closed")
        loop = asyncio.get_running_loop()
        name = self._host if self._tls else None
        try:
            async with asyncio.timeout(self._connect_seconds):
                _, connection = await loop.create_connection(
                    _Connection, self._host, self._port, ssl=self._tls, server_hostname=name
                )
        except TimeoutError:
            raise NotConnected(f"no connection within {self._connect_seconds:g} s") from None
        self._busy.add(connection)
        return connection

    def _keep(self, connection: _Connection) -> None:
        """Have somebody else use it."""
        if self._closed or not connection.alive:
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        self._busy.discard(connection)
        if self._sweeper is None:
            self._sweeper = loop.call_later(KEPT_SECONDS, self._sweep)

    def _release(self, connection: _Connection) -> None:
        if connection in self._busy:
            self._busy.discard(connection)
            connection.close()
        self._free += 1
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _sweep(self) -> None:
        """Close what nobody used for long."""
        loop = asyncio.get_running_loop()
        oldest = loop.time() - KEPT_SECONDS
        kept = [connection for connection in self._idle if connection.alive and connection.idle_since > oldest]
        for connection in self._idle:
            if connection not in kept:
                connection.close()
        self._idle = kept
        self._sweeper = loop.call_later(KEPT_SECONDS / 2, self._sweep) if kept else None

    async def close(self) -> None:
        """Close every connection; what is under way fails."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in (*self._idle, *self._busy):
            connection.close()
        self._idle.clear()
        # Aborted transports let go of their sockets in the next turn.
        await asyncio.sleep(0)


def _line(value: str) -> str:
    if "\r" in value or "\n" in value:
        raise ValueError("a header must not have two lines")
    return value
