"""Carries requests to the agent's own API server, with the agent's credentials and in the caller's name."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from typing import Final

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from services._kit.kube.answers.exchange import CONNECT_SECONDS, READ_BUFFER
from services._kit.kube.client import KubeClient
from services._kit.proxying.member_exchange import (
    CHUNK,
    Exchange,
    MemberBadAnswer,
    MemberRefused,
    MemberRequest,
    MemberUnreachable,
)
from services._kit.proxying.switched_connection import SwitchedConnection, of_answer
from services._kit.proxying.tunnel_frames import SWITCHING
from services._rules.proxying.header_rules import BadIdentity, identity_headers, to_caller, to_member
from services._rules.proxying.inner_requests import BadPath, check_path
from services._rules.proxying.request_records import plain

_KEPT_SECONDS: Final = 50.0
_LONGEST_LINE: Final = 16 << 10
_BROKEN: Final = (aiohttp.ClientError, OSError, ValueError, TimeoutError)


class OwnApiServer:
    """A MemberTransport with one member: the one whose client this is; `client` stays the caller's to close."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._session: aiohttp.ClientSession | None = None
        self._trust: ssl.SSLContext | None = None

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def open(self, request: MemberRequest, body: AsyncIterator[bytes] | None = None) -> Exchange:
        """Send a request; raises MemberUnreachable, MemberBadAnswer, and MemberRefused for its form."""
        try:
            check_path(request.path.partition("?")[0])
            identity = identity_headers(request.user, request.groups)
        except (BadPath, BadIdentity) as error:
            raise MemberRefused(str(error)) from error
        headers: CIMultiDict[str] = CIMultiDict(to_member(request.headers))
        headers.extend(identity)
        headers.update(await self._client.identity())
        if request.upgrade:
            headers["Connection"], headers["Upgrade"] = "Upgrade", request.upgrade
        try:
            answer = await (await self._opened()).request(
                request.method,
                URL(f"{self._client.server}{request.path}", encoded=True),
                headers=headers,
                data=body,
                allow_redirects=False,
            )
        except _BROKEN as error:
            raise _failure(error) from error
        try:
            return _OwnExchange(request, answer)
        except BaseException:
            answer.close()
            raise

    async def _opened(self) -> aiohttp.ClientSession:
        if self._session is None or self._trust is not self._client.ssl_context:
            # With a certificate the context is the identity: what uses the old one ends with it.
            await self.close()
            self._trust = self._client.ssl_context
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0, ssl=self._trust if self._trust is not None else True, keepalive_timeout=_KEPT_SECONDS
                ),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
                read_bufsize=READ_BUFFER,
                max_line_size=_LONGEST_LINE,
                max_field_size=_LONGEST_LINE,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            )
        return self._session


class _OwnExchange:
    """One answer of the API server."""

    def __init__(self, request: MemberRequest, answer: aiohttp.ClientResponse) -> None:
        self.status = answer.status
        self.headers = to_caller(answer.headers.items())
        self._answer = answer
        self._switched: SwitchedConnection | None = None
        if self.status == 401:
            raise MemberBadAnswer("the API server does not accept the credentials of the agent's kubeconfig")
        if 300 <= self.status < 400 and "Location" in answer.headers:
            raise MemberBadAnswer("the API server redirects the request, which is not followed")
        if self.status == SWITCHING:
            became = answer.headers.get("Upgrade", "")
            if not request.upgrade or became.lower() != request.upgrade.lower():
                raise MemberBadAnswer("the API server switched the connection to a protocol that was not asked for")
            try:
                self._switched = of_answer(answer)
            except ConnectionError as error:
                raise MemberUnreachable(f"the API server: {error}") from error

    async def read(self) -> bytes:
        """The next bytes of the body, or of the other protocol."""
        if self._switched is not None:
            return await self._switched.read()
        try:
            return await self._answer.content.read(CHUNK)
        except _BROKEN as error:
            raise _failure(error) from error

    async def write(self, data: bytes) -> None:
        """Send bytes of the other protocol."""
        if self._switched is None:
            raise MemberUnreachable("the API server did not switch the connection")
        try:
            await self._switched.write(data)
        except OSError as error:
            raise _failure(error) from error

    async def close(self) -> None:
        """End it: a connection on which something is left to come is closed."""
        if self._switched is not None:
            self._switched.close()
        if self._switched is None and self._answer.content.at_eof():
            self._answer.release()
        else:
            self._answer.close()


def _failure(error: BaseException) -> MemberUnreachable:
    text = plain(str(error) or type(error).__name__, 300)
    if isinstance(error, aiohttp.ClientPayloadError):
        return MemberBadAnswer(f"the answer of the API server broke off: {text}")
    if isinstance(error, aiohttp.ClientResponseError):
        return MemberBadAnswer(f"the answer of the API server is no HTTP: {text}")
    return MemberUnreachable(f"the API server cannot be reached from the agent: {text}")
