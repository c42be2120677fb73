"""Requests that a guard admits immediately before they are sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import aiohttp
from aiohttp.abc import AbstractStreamWriter

if TYPE_CHECKING:
    # Commands have no lease, and loading what one needs takes as long as most of them work.
    from services._kit.leadership.write_guard import Guard


class Guarded(Protocol):
    """A client with a guard, or none."""

    guard: Guard | None


class GuardedRequest(aiohttp.ClientRequest):
    """A request that asks the guard of its client at the last moment: it has its connection, nothing was written."""

    client: Guarded

    async def send(self, conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        """Send it once it may be sent; raises FenceLost when it never will be."""
        guard = self.client.guard
        if guard is not None and self.method != "GET" and not guard.holds:
            await guard.wait()
        return await super().send(conn)

    async def write_bytes(
        self, writer: AbstractStreamWriter, conn: aiohttp.connector.Connection, content_length: int | None = None
    ) -> None:
        """Write what was held back so far, unless the leader stood still since it was asked."""
        guard = self.client.guard
        if guard is not None and self.method != "GET" and not guard.holds and conn.protocol is not None:
            conn.protocol.set_exception(aiohttp.ClientConnectionError("not sent: the lease has to be confirmed first"))
            return
        await super().write_bytes(writer, conn, content_length)
