"""HTTP as load programs speak it: as little work per request as possible, so that the server is what is measured."""

from __future__ import annotations

import asyncio
import http.client
import ssl
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final, cast
from urllib.parse import urlsplit

_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length:"
_LAST_CHUNK: Final = b"0\r\n\r\n"


def insecure() -> ssl.SSLContext:
    """A context that takes any certificate: the server's is made anew for each run."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def request(method: str, path: str, token: str, body: bytes = b"", **headers: str) -> bytes:
    """The bytes of one request on a connection that stays open."""
    lines = [f"{method} {path} HTTP/1.1", "Host: bench", f"Authorization: Bearer {token}", "Accept: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + _END + body


class Worker(asyncio.Protocol):
    """One client: sends the next request of an iterator as soon as it has the whole answer to the one before."""

    def __init__(self, requests: Iterator[bytes], statuses: Counter[int], done: asyncio.Future[None]) -> None:
        self._requests = requests
        self._statuses = statuses
        self._done = done
        self._buffer = b""
        self._missing = 0
        self._chunked = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._next()

    def _next(self) -> None:
        assert self._transport is not None
        following = next(self._requests, None)
        if following is None:
            self._transport.close()
            self._finish()
            return
        self._transport.write(following)

    def _finish(self, error: Exception | None = None) -> None:
        if self._done.done():
            return
        if error is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(error)

    def data_received(self, data: bytes) -> None:
        """Take a part of an answer."""
        if self._missing:
            self._missing -= len(data)
            if self._missing <= 0:
                self._missing = 0
                self._next()
            return
        self._buffer += data
        if self._chunked:
            self._end_of_chunks()
            return
        end = self._buffer.find(_END)
        if end < 0:
            return
        head = self._buffer[:end].lower()
        self._statuses[int(head[9:12])] += 1
        rest = self._buffer[end + len(_END) :]
        self._buffer = b""
        at = head.find(_LENGTH)
        if at < 0:
            self._chunked, self._buffer = True, rest
            self._end_of_chunks()
            return
        length = int(head[at + len(_LENGTH) :].partition(b"\r")[0])
        self._missing = max(0, length - len(rest))
        if not self._missing:
            self._next()

    def _end_of_chunks(self) -> None:
        if self._buffer.endswith(_LAST_CHUNK):
            self._chunked, self._buffer = False, b""
            self._next()
            return
        self._buffer = self._buffer[-len(_LAST_CHUNK) :]

    def connection_lost(self, exc: Exception | None) -> None:
        """End; with an error where answers are missing."""
        self._finish(exc or ConnectionError("the server closed the connection"))


class Tally:
    """How many events all watches of a measure have received, and when it is as many as wanted."""

    def __init__(self, wanted: int) -> None:
        self._missing = wanted
        self.complete = asyncio.Event()

    def add(self, events: int) -> None:
        """Count."""
        self._missing -= events
        if self._missing <= 0:
            self.complete.set()


class Watcher(asyncio.Protocol):
    """One watch: counts the frames that arrive."""

    def __init__(self, asked: bytes, seen: Tally) -> None:
        self._asked = asked
        self._seen = seen
        self._carriage = False
        self._head = b""
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        cast("asyncio.Transport", transport).write(self._asked)

    def data_received(self, data: bytes) -> None:
        """Count line ends that belong to frames rather than to chunks."""
        if not self.begun.done():
            self._head += data
            end = self._head.find(_END)
            if end < 0:
                return
            if self._head[9:12] != b"200":
                self.begun.set_exception(ConnectionError(self._head.decode(errors="replace")))
                return
            self.begun.set_result(None)
            data = self._head[end + len(_END) :]
            if not data:
                return
        self._seen.add(data.count(b"\n") - data.count(b"\r\n") - (self._carriage and data[:1] == b"\n"))
        self._carriage = data.endswith(b"\r")

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail those who wait for the beginning."""
        if not self.begun.done():
            self.begun.set_exception(exc or ConnectionError("the server closed the connection"))


class Place:
    """Where the server listens and who asks."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 443
        self.token = token
        self._context = insecure() if parts.scheme == "https" else None

    async def play(self, requests: Iterator[bytes], clients: int) -> tuple[float, Counter[int]]:
        """Send requests from a number of clients; seconds, and how often which code was answered."""
        loop = asyncio.get_running_loop()
        statuses: Counter[int] = Counter()
        ends: list[asyncio.Future[None]] = []
        gate: asyncio.Future[None] = loop.create_future()

        async def one() -> None:
            done: asyncio.Future[None] = loop.create_future()
            ends.append(done)
            await gate
            await loop.create_connection(
                lambda: Worker(requests, statuses, done), self.host, self.port, ssl=self._context
            )

        opening = [asyncio.ensure_future(one()) for _ in range(clients)]
        began = time.perf_counter()
        gate.set_result(None)
        await asyncio.gather(*opening)
        await asyncio.gather(*ends)
        return time.perf_counter() - began, statuses

    async def watch(self, path: str, watchers: int, seen: Tally) -> list[asyncio.Transport]:
        """Open watches that count into `seen`; they have begun when this returns."""
        asked = request("GET", path, self.token)
        loop = asyncio.get_running_loop()
        made = [
            await loop.create_connection(lambda: Watcher(asked, seen), self.host, self.port, ssl=self._context)
            for _ in range(watchers)
        ]
        await asyncio.gather(*(watcher.begun for _, watcher in made))
        return [cast("asyncio.Transport", transport) for transport, _ in made]

    def connection(self) -> http.client.HTTPConnection:
        """A blocking connection."""
        if self._context is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=600)
        return http.client.HTTPSConnection(self.host, self.port, timeout=600, context=self._context)

    def get(self, path: str, connection: http.client.HTTPConnection, **headers: str) -> tuple[int, bytes]:
        """One answer; raises ConnectionError for a code that is not 200."""
        asked = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}", **asked})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise ConnectionError(f"{path}: {answer.status} {body[:200]!r}")
        return answer.status, body


def drain(url: str, token: str, path: str, gzip: bool) -> tuple[int, float]:
    """Read one long answer without keeping it; bytes and seconds. Runs in a process of its own."""
    place = Place(url, token)
    began = time.perf_counter()
    connection = place.connection()
    headers = {"Authorization": f"Bearer {token}"} | ({"Accept-Encoding": "gzip"} if gzip else {})
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    if answer.status != 200:
        raise ConnectionError(f"{path}: {answer.status}")
    received = 0
    while chunk := answer.read(1 << 18):
        received += len(chunk)
    connection.close()
    return received, time.perf_counter() - began
