"""One connection to NATS: requests fail at once when it breaks, and a hook announces that readers must look again.

nats-py lets a request hang until its timeout when the connection is lost, and spends a task and two random tokens on
each; here one subscription carries all answers and a counter names them. A server that is up but cut off from its peers
keeps its connections and can do nothing for them: after a while without answers another one is tried.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from nats.aio.msg import Msg
from nats.errors import ConnectionClosedError, MaxPayloadError, OutboundBufferLimitError

from services._kit.base.log_errors import Ambiguous, TooLarge, Unavailable
from services._kit.concurrency.supervision import owner, spawn
from services._kit.concurrency.tasks import child
from services._kit.log.nats_client import QuickClient

Listener = Callable[[], None]

MOVE_AFTER: Final = 6.0
"""Seconds without an answer after which another server is tried; most elections of a cluster are over by then."""
LONGEST_STAY: Final = 48.0
API: Final = "$JS.API"
_ANY_REPLICA: Final = f"{API}.DIRECT."
_NO_LEADER: Final = b'"err_code":10008'
_HEAD: Final = 512


class Connection:
    """A NATS client and its life: unlimited reconnects, own callbacks, requests that notice a broken connection."""

    def __init__(self, on_error: Callable[[Exception], None] | None = None, move_after: float = MOVE_AFTER) -> None:
        self.nc = QuickClient()
        self.nc.on_bug = self._report
        self.generation = 0
        self.closed = asyncio.Event()
        self.api = API
        """What the subjects of requests about streams begin with."""
        self.observes = False
        """Whether this identity may read and do nothing else: then streams are read without consumers."""
        self._up = asyncio.Event()
        self._waiting: dict[str, asyncio.Future[Msg]] = {}
        self._number = 0
        self._prefix = ""
        self._patience = move_after
        self._move_after = move_after
        self._fruitless_since = 0.0
        self._on_error = on_error
        self._lost: list[Listener] = []
        self._regained: list[Listener] = []

    @classmethod
    async def open(
        cls,
        servers: str | list[str],
        *,
        name: str = "fleetlog",
        on_error: Callable[[Exception], None] | None = None,
        tls: ssl.SSLContext | None = None,
        retry_seconds: float = 0.1,
        move_after: float = MOVE_AFTER,
        **options: Any,
    ) -> Connection:
        """Connect to a server (comma-separated URLs or a list); raises the client's error when none answers.

        `retry_seconds` is the pause between two attempts, at first and after every loss; `move_after` how long a server
        of several may leave every request unanswered.
        """
        self = cls(on_error, move_after)
        if isinstance(servers, str):
            servers = [server.strip() for server in servers.split(",") if server.strip()]
        # The client would shuffle at every loss as well, and might come back to the server that it just left.
        servers = random.sample(servers, len(servers))
        if tls is not None:
            options["tls"] = tls
        connecting = child(
            self.nc.connect(
                servers=servers,
                dont_randomize=True,
                name=name,
                max_reconnect_attempts=-1,
                reconnect_time_wait=retry_seconds,
                connect_timeout=5,
                ping_interval=10,
                max_outstanding_pings=2,
                pending_size=16 << 20,
                error_cb=self._error,
                disconnected_cb=self._disconnected,
                reconnected_cb=self._reconnected,
                closed_cb=self._closed,
                **options,
            )
        )
        try:
            await asyncio.wait({connecting})
            connecting.result()
        except BaseException:
            while not connecting.done():
                # The client swallows a cancellation that meets the end of what it waits for.
                connecting.cancel()
                await asyncio.wait({connecting}, timeout=0.1)
            # It leaves the socket of an attempt that failed open.
            await self.nc.close()
            raise
        self._prefix = self.nc.new_inbox()
        await self.nc.subscribe_direct(f"{self._prefix}.*", self._answer)
        self._up.set()
        return self

    @property
    def is_connected(self) -> bool:
        """Whether a server is connected right now."""
        return self._up.is_set()

    @property
    def max_payload(self) -> int:
        """Largest message that the server takes, in bytes."""
        return int(self.nc.max_payload)

    async def wait_connected(self) -> None:
        """Return once a server is connected."""
        await self._up.wait()

    def on_lost(self, listener: Listener) -> None:
        """Call a function every time the connection is lost."""
        self._lost.append(listener)

    def on_regained(self, listener: Listener) -> None:
        """Call a function every time the connection is back."""
        self._regained.append(listener)

    def forget(self, listener: Listener) -> None:
        """Undo on_lost and on_regained."""
        for listeners in (self._lost, self._regained):
            if listener in listeners:
                listeners.remove(listener)

    async def publish(
        self, subject: str, data: bytes, headers: Mapping[str, str] | None = None, reply: str = ""
    ) -> None:
        """Send one message without waiting; raises Unavailable when it cannot even be buffered, or TooLarge."""
        task = asyncio.current_task()
        cancelled = task.cancelling() if task is not None else 0
        try:
            await self.nc.publish(subject, data, reply=reply, headers=headers)
            if task is not None and task.cancelling() > cancelled:
                # The client swallows a cancellation that meets it while it waits for room.
                raise asyncio.CancelledError
        except MaxPayloadError as error:
            raise TooLarge(0, f"{len(data)} bytes on {subject}, the server takes {self.max_payload}") from error
        except (ConnectionClosedError, OutboundBufferLimitError) as error:
            raise Unavailable(f"not connected to the log's server: {error}") from error

    async def send_request(self, subject: str, data: bytes, headers: Mapping[str, str] | None) -> asyncio.Future[Msg]:
        """Send a request and return the future of its answer; the future fails with Ambiguous on a lost connection."""
        token, future = self._expect()
        try:
            await self.publish(subject, data, headers, f"{self._prefix}.{token}")
        except BaseException:
            future.cancel()
            raise
        return future

    async def _send_to_ourselves(self) -> asyncio.Future[Msg]:
        token, future = self._expect()
        try:
            await self.publish(f"{self._prefix}.{token}", b"")
        except BaseException:
            future.cancel()
            raise
        return future

    def _expect(self) -> tuple[str, asyncio.Future[Msg]]:
        """Reserve a place in the inbox and return the future of its answer; raises Unavailable."""
        if not self._up.is_set():
            raise Unavailable("not connected to the log's server")
        self._number += 1
        token = str(self._number)
        future: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._waiting[token] = future
        future.add_done_callback(lambda _: self._waiting.pop(token, None))
        return token, future

    async def flushed(self, timeout: float = 1.0) -> bool:
        """Whether everything sent until now has reached the server: a message of ours behind it came back."""
        # Not the client's flush: an answer that comes after its timeout ends the client's reading for good.
        try:
            back = await self._send_to_ourselves()
            async with asyncio.timeout(timeout):
                await back
        except (TimeoutError, Unavailable, Ambiguous):
            return False
        return self.is_connected

    async def request(
        self, subject: str, data: bytes = b"", headers: Mapping[str, str] | None = None, timeout: float = 5.0
    ) -> Msg:
        """The answer to a request.

        Raises Unavailable (no responders, not connected) or Ambiguous (no answer, connection lost).
        """
        return await self.answer(await self.send_request(subject, data, headers), subject, timeout)

    async def answer(self, future: asyncio.Future[Msg], subject: str, timeout: float) -> Msg:
        """Wait for an answer; see `request`."""
        try:
            async with asyncio.timeout(timeout):
                message = await future
        except TimeoutError:
            self._fruitless()
            raise Ambiguous(
                f"no answer on {subject} within {timeout:g} s: the log has no leader, or its server cannot write"
                " (the server's own log and /healthz tell)"
            ) from None
        if message.headers and message.headers.get("Status") == "503":
            self._fruitless()
            raise Unavailable(
                f"no answer on {subject}: the log has no leader, does not exist, or its server cannot write"
            )
        if not subject.startswith("$JS."):
            self._fruitful()
        elif _NO_LEADER in message.data[:_HEAD]:
            self._fruitless()
        elif not subject.startswith(_ANY_REPLICA):
            self._fruitful()
        return message

    async def subscribe(
        self, subject: str, callback: Callable[[Msg], Awaitable[None]], *, limit: int = 512 * 1024
    ) -> Any:
        """Subscribe; `limit` is how many messages may wait for the callback.

        What the callback raises is logged and counted; the next message is handed over all the same.
        """
        contained = partial(owner().contain, f"subscription:{subject}")

        async def hear(message: Msg) -> None:
            await contained(callback(message))

        return await self.nc.subscribe(subject, cb=hear, pending_msgs_limit=limit, pending_bytes_limit=-1)

    async def listen(self, subject: str, handler: Callable[[Msg], None]) -> Any:
        """Subscribe with a function that is called while messages are read: it must be quick and never wait."""
        return await self.nc.subscribe_direct(subject, handler)

    def inbox(self) -> str:
        """A unique subject."""
        return str(self.nc.new_inbox())

    async def close(self) -> None:
        """Flush and close; safe to call twice."""
        if not self.nc.is_closed:
            try:
                async with asyncio.timeout(2):
                    if self.is_connected:
                        await self.nc.flush()
            except Exception as error:  # noqa: BLE001 - closing goes on whatever the server does
                self._report(error)
            await self.nc.close()
            await self._end_reconnecting()
        self._fail("the connection was closed")
        self.closed.set()

    async def _end_reconnecting(self) -> None:
        """Stop looking for a server; the client swallows a cancellation that meets the end of what it waits for."""
        reconnecting = self.nc._reconnection_task
        if reconnecting is None or reconnecting is asyncio.current_task():
            return
        while not reconnecting.done():
            reconnecting.cancel()
            await asyncio.wait({reconnecting}, timeout=0.1)

    def _fruitful(self) -> None:
        self._fruitless_since = 0.0
        self._patience = self._move_after

    def _fruitless(self) -> None:
        """A request came to nothing; when all have for a while, go to another server, each time a little later."""
        now = time.monotonic()
        self._fruitless_since = self._fruitless_since or now
        if now - self._fruitless_since < self._patience or len(self.nc.servers) < 2 or not self._up.is_set():
            return
        self._fruitless_since = 0.0
        self._patience = min(self._patience * 2, LONGEST_STAY)
        self._report(Unavailable("the server of the log answers nothing; trying another one"))
        spawn("server-change", self.nc.force_reconnect())

    def _answer(self, message: Msg) -> None:
        future = self._waiting.get(message.subject[len(self._prefix) + 1 :])
        if future is not None and not future.done():
            future.set_result(message)

    def _fail(self, why: str) -> None:
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(Ambiguous(why))

    def _call(self, listeners: list[Listener]) -> None:
        for listener in list(listeners):
            try:
                listener()
            except Exception as error:  # noqa: BLE001 - the client calls from where it reconnects: that must go on
                self._report(error)

    def _report(self, error: Exception) -> None:
        if self._on_error is not None:
            self._on_error(error)

    async def _error(self, error: Exception) -> None:
        self._report(error)

    async def _disconnected(self) -> None:
        self._up.clear()
        self._fail("the connection to the log's server was lost")
        self._call(self._lost)

    async def _reconnected(self) -> None:
        self.generation += 1
        self._up.set()
        self._call(self._regained)

    async def _closed(self) -> None:
        self._up.clear()
        self._fail("the connection was closed")
        self.closed.set()
