"""The connection of a store to its stream: makes it, reads it from the beginning, asks for single messages, purges."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
import structlog

from services._kit.base.log_errors import Ambiguous, LogError, Unavailable
from services._kit.log.connection import Connection
from services._kit.log.jetstream import HANDOVER, JetStreamLog
from services._kit.log.nats_client import QuickClient
from services.apiserver.store.store_port import StoreUnavailable

log = structlog.get_logger(__name__)

NO_MESSAGE: Final = 10037
NO_STREAM: Final = 10059
_GONE = {NO_MESSAGE, 10043}

Message = Callable[[str, int, Mapping[str, str], bytes], None]
"""Takes subject, sequence, headers and data of one message."""


class ObjectStream:
    """One stream and the connection to the servers that keep it; `keep` messages per object stay in it."""

    def __init__(
        self,
        servers: str | list[str],
        *,
        name: str,
        prefix: str,
        keep: int,
        replicas: int,
        answer_seconds: float,
        options: dict[str, Any],
    ) -> None:
        self.servers = [url.strip() for url in servers.split(",")] if isinstance(servers, str) else servers
        self.name = name
        self.prefix = prefix
        self.keep = keep
        self.replicas = replicas
        self._answer_seconds = answer_seconds
        self.options = options
        self.nc: Any = None
        self.created = ""

    @property
    def connected(self) -> bool:
        """Whether a server can be reached now."""
        return self.nc is not None and bool(self.nc.is_connected)

    async def open(self, regained: Callable[[], Awaitable[None]]) -> None:
        """Connect, and make the stream if need be; raises StoreUnavailable. `regained` is called after a reconnect."""
        options = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.25, "error_cb": _quiet} | self.options
        options["reconnected_cb"] = regained
        servers = random.sample(self.servers, len(self.servers))
        # In turn: shuffled at every loss, the one that was left might come first again.
        # It closes also where its transport has just broken.
        self.nc = QuickClient()
        await self.nc.connect(servers, **({"dont_randomize": True} | options))
        await self._ensure()
        if self.replicas > 1:
            self._answer_seconds = min(self._answer_seconds, HANDOVER)

    async def close(self) -> None:
        """Let go of the connection."""
        if self.nc is not None:
            await self.nc.close()

    async def api(self, verb: str, body: dict[str, Any] | None = None, suffix: str = "") -> dict[str, Any]:
        """The answer of JetStream to a request about this stream, errors included."""
        return await self.request(f"$JS.API.{verb}.{self.name}{suffix}", msgspec.json.encode(body) if body else b"")

    async def request(self, subject: str, data: bytes, headers: dict[str, str] | None = None) -> dict[str, Any]:
        """The answer to a message, decoded; raises what the client raises when none comes in time."""
        reply = await self.nc.request(subject, data, timeout=self._answer_seconds, headers=headers)
        return msgspec.json.decode(reply.data, type=dict[str, Any])

    async def info(self) -> dict[str, Any]:
        """The state of the stream, as its server reports it."""
        return await self.api("STREAM.INFO")

    async def _ensure(self) -> None:
        config = {
            "name": self.name,
            "subjects": [f"{self.prefix}.>"],
            "retention": "limits",
            "storage": "file",
            "discard": "new",
            "max_msgs_per_subject": self.keep,
            "allow_atomic": True,
            "allow_direct": True,
            "max_consumers": 1000,
            "num_replicas": self.replicas,
        }
        info = await self.info()
        if info.get("error", {}).get("err_code") == NO_STREAM:
            info = await self.api("STREAM.CREATE", config)
        elif "error" not in info and not info["config"].get("allow_atomic"):
            raise StoreUnavailable(f"stream {self.name} exists without allow_atomic; delete it or name another one")
        if "error" in info:
            raise StoreUnavailable(f"stream {self.name}: {info['error'].get('description')}")
        self.created = info["created"]

    async def read(self, take: Message) -> int:
        """Hand over every message in order; the last sequence of the stream.

        Goes on behind the last message after a reconnect. Raises StoreUnavailable, also for a message that cannot be
        read: clients of this server would take an object that is left out for deleted.
        """
        connection = await Connection.open(self.servers, name=f"fleetlog/reader of {self.name}", **self.options)
        try:
            return await self._read(JetStreamLog(connection, self.name), take)
        except LogError as e:
            raise StoreUnavailable(str(e)) from e
        finally:
            await connection.close()

    async def _read(self, stream: JetStreamLog, take: Message) -> int:
        pump = stream.pump([f"{self.prefix}.>"], start=1)
        deliveries = pump.__aiter__()
        try:
            async for delivery in deliveries:
                for message in delivery.messages:
                    try:
                        take(message.subject, message.seq, message.headers, message.data)
                    except Exception as e:
                        raise StoreUnavailable(f"message {message.seq} of stream {self.name}: {e}") from e
                if delivery.caught_up:
                    break
        finally:
            await pump.close()
            close = getattr(deliveries, "aclose", None)
            if close is not None:
                await close()
        while True:
            await stream.connection.wait_connected()
            try:
                return (await stream.identity()).last_seq
            except (Ambiguous, Unavailable):
                await asyncio.sleep(0.2)

    async def erase(self, sequence: int) -> None:
        """Remove a message and overwrite its bytes on the server's disk; raises StoreUnavailable."""
        answer = await self.api("STREAM.MSG.DELETE", {"seq": sequence, "no_erase": False})
        error = answer.get("error", {})
        if error and error.get("err_code") not in _GONE:
            raise StoreUnavailable(f"message {sequence} of stream {self.name} was not erased: {error}")


async def _quiet(error: Exception) -> None:
    """Connection errors are seen as writes without an answer; the client itself reconnects."""
    with contextlib.suppress(Exception):
        log.debug("nats", error=str(error))
