"""Fetches the keys of an OpenID Connect provider: at the start, every hour, and when a token has an unknown one."""

from __future__ import annotations

import ssl
import time
from typing import Any, Final

import aiohttp
import msgspec
import structlog

from services._kit.concurrency.keyed_work import WorkQueue
from services.apiserver.auth.openid_tokens import OpenIdTokens

log = structlog.get_logger(__name__)

_EVERY: Final = 3600.0
_AT_MOST_EVERY: Final = 10.0
"""Tokens with unknown keys cost anybody nothing to make: the provider is not asked for each."""
_MOST_BYTES: Final = 1 << 20
_SECONDS: Final = 10.0
_DOCUMENT: Final = "/.well-known/openid-configuration"


class Unfetched(Exception):
    """The provider's answer cannot be used; the message says why."""


class OpenIdKeys:
    """Keeps the keys of one provider up to date; until they are there, its tokens are refused."""

    def __init__(self, tokens: OpenIdTokens) -> None:
        self._tokens = tokens
        self._queue: WorkQueue[str] = WorkQueue(self._fetch, longest_pause=60.0)
        self._asked = -_AT_MOST_EVERY
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Begin fetching, beside everything else."""
        ca_file = self._tokens.settings.ca_file
        context = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
        timeout = aiohttp.ClientTimeout(total=_SECONDS)
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context), timeout=timeout)
        self._tokens.on_unknown_key = self._ask
        self._queue.add(self._tokens.settings.issuer)

    async def stop(self) -> None:
        """Stop fetching."""
        await self._queue.close()
        if self._session is not None:
            await self._session.close()

    def _ask(self) -> None:
        if time.monotonic() - self._asked >= _AT_MOST_EVERY:
            self._queue.add(self._tokens.settings.issuer)

    async def _fetch(self, issuer: str) -> float | None:
        self._asked = time.monotonic()
        try:
            found = await self._document(issuer.rstrip("/") + _DOCUMENT)
            if found.get("issuer") != issuer:
                raise Unfetched(f"it calls itself {found.get('issuer')!r}")
            place = str(found.get("jwks_uri"))
            if not place.startswith("https://"):
                raise Unfetched(f"its keys are at {place!r}, which is no https URL")
            count = self._tokens.take(await self._document(place))
        except (TimeoutError, Unfetched, aiohttp.ClientError, OSError, ValueError) as error:
            log.warning("openid_keys_not_fetched", issuer=issuer, reason=str(error) or type(error).__name__)
            raise
        log.info("openid_keys_fetched", issuer=issuer, keys=count)
        return _EVERY

    async def _document(self, url: str) -> dict[str, Any]:
        assert self._session is not None
        async with self._session.get(url, allow_redirects=False) as response:
            if response.status != 200:
                raise Unfetched(f"{url} answers {response.status}")
            body = await response.content.read(_MOST_BYTES + 1)
            while len(body) <= _MOST_BYTES and (more := await response.content.read(_MOST_BYTES)):
                body += more
            if len(body) > _MOST_BYTES:
                raise Unfetched(f"{url} answers more than {_MOST_BYTES} bytes")
        try:
            return msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise Unfetched(f"{url}: {error}") from None
