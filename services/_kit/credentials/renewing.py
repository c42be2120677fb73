"""A client that replaces its credentials while in use: when the endpoint refuses them, or when their source changes."""

from __future__ import annotations

import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp

from services._kit.base.late_logger import LateLogger
from services._kit.concurrency.tasks import Shared
from services._kit.kube.client import ApiError, KubeClient, Unreachable, WatchEvent

log = LateLogger("members")

Renew = Callable[[], Awaitable[KubeClient | None]]

SHORTEST_SECONDS: Final = 1.0
"""Between two readings of credentials that were refused."""


class RenewingClient(KubeClient):
    """Sends a request that was refused with 401 once more when `renew` has other credentials by then.

    `renew` gives an unused client with them, or None when they are still the same; what it raises counts as the same.
    """

    def __init__(self, first: KubeClient, renew: Renew) -> None:
        connections, limits, share = first._connections, first.limits, first.share
        super().__init__(
            first.server, ssl_context=None, headers={}, connections=connections, limits=limits, share=share
        )
        self.adopt(first)
        self.renewals = 0
        self._under_way: Counter[int] = Counter()
        """Requests and watches by how often the credentials were renewed before them."""
        self._old: dict[int, list[aiohttp.ClientSession]] = {}
        self.trouble = ""
        """Why there were no other credentials to be had when they were last asked for."""
        self._give = renew
        self._shared = Shared(self._renew)
        self._asked_at = -SHORTEST_SECONDS

    async def renew(self) -> bool:
        """Ask for other credentials now and use them; whether there were any."""
        return await self._shared()

    async def _renew(self) -> bool:
        self._asked_at = time.monotonic()
        try:
            other = await self._give()
        except (ApiError, Unreachable, ValueError, OSError) as error:
            self.trouble = str(error)[:500]
            log.warning("credentials_not_read", server=self.server, reason=self.trouble)
            return False
        self.trouble = ""
        if other is None:
            return False
        self._old[self.renewals] = self.adopt(other)
        self.renewals += 1
        await self._leave(self.renewals - 1)
        log.info("credentials_renewed", server=self.server)
        return True

    async def _helps(self, error: Exception, renewals: int) -> bool:
        """Whether a request that failed is worth another attempt, with other credentials."""
        if not concerns_credentials(error):
            return False
        if self.renewals != renewals:
            return True
        if self._shared.running or time.monotonic() - self._asked_at >= SHORTEST_SECONDS:
            return await self.renew()
        return False

    @asynccontextmanager
    async def _using(self) -> AsyncIterator[int]:
        """Something is under way: its connections stay open."""
        renewals = self.renewals
        self._under_way[renewals] += 1
        try:
            yield renewals
        finally:
            self._under_way[renewals] -= 1
            await self._leave(renewals)

    async def _leave(self, renewals: int) -> None:
        """Close connections of former credentials that nothing uses any more: closed earlier they would hang."""
        if renewals == self.renewals or self._under_way[renewals] > 0:
            return
        del self._under_way[renewals]
        for session in self._old.pop(renewals, ()):
            await session.close()

    async def close(self) -> None:
        """Close every connection."""
        old, self._old = self._old, {}
        for sessions in old.values():
            for session in sessions:
                await session.close()
        await super().close()

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        """Send one request, a second time with renewed credentials; see KubeClient."""
        async with self._using() as renewals:
            try:
                return await super().request(method, path, **options)
            except (ApiError, Unreachable) as error:
                if not await self._helps(error, renewals):
                    raise
            return await super().request(method, path, **options)

    async def watch(self, path: str, resource_version: str, **options: Any) -> AsyncIterator[list[WatchEvent]]:
        """Stream changes, with renewed credentials where the first are refused; see KubeClient."""
        async with self._using() as renewals:
            try:
                async for events in super().watch(path, resource_version, **options):
                    yield events
                return
            except ApiError as error:
                if not await self._helps(error, renewals):
                    raise
            async for events in super().watch(path, resource_version, **options):
                yield events


def concerns_credentials(error: BaseException) -> bool:
    """Whether a request failed because of its credentials or of the trust between the two sides."""
    if isinstance(error, ApiError):
        return error.status == 401
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError | aiohttp.ClientSSLError):
            return True
        cause = cause.__cause__
    return False
