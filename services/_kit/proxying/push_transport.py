"""Carries requests to push members: to the address of the Cluster, by its impersonator and in the caller's name."""

from __future__ import annotations

import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from services._kit.concurrency.supervision import spawn
from services._kit.kube.answers.exchange import CONNECT_SECONDS, READ_BUFFER
from services._kit.kube.route import connector, proxied, trust
from services._kit.proxying.member_directory import MemberAddress, MemberDirectory
from services._kit.proxying.member_exchange import (
    CHUNK,
    Exchange,
    MemberBadAnswer,
    MemberRefused,
    MemberRequest,
    MemberUnreachable,
)
from services._kit.proxying.switched_connection import SwitchedConnection, of_answer
from services._rules.proxying.header_rules import BadIdentity, identity_headers
from services._rules.proxying.inner_requests import BadPath, check_path, inner_resource

_MOST_POOLS: Final = 512
"""Members whose connections are kept for further requests."""
_KEPT_SECONDS: Final = 50.0
"""How long a connection is kept that nothing uses: shorter than members and what stands before them keep it."""
_LONGEST_LINE: Final = 16 << 10
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_BROKEN: Final = (aiohttp.ClientError, OSError, ValueError, TimeoutError)
"""What a client raises for a connection that failed, and for what is no HTTP."""


class _Pool:
    """The connections to one member."""

    def __init__(self, address: MemberAddress) -> None:
        self.connections = address.connections
        self.users = 0
        self.left = False
        self.session = aiohttp.ClientSession(
            connector=connector(address.route, limit=0, ssl=_tls(address), keepalive_timeout=_KEPT_SECONDS),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            read_bufsize=READ_BUFFER,
            max_line_size=_LONGEST_LINE,
            max_field_size=_LONGEST_LINE,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        )

    def leave(self) -> None:
        """Close its connections once nothing uses them; closed earlier they would break off what is under way."""
        self.left = True
        if self.users == 0:
            spawn("member-connections", self.session.close())

    def take(self) -> None:
        """An exchange uses it."""
        self.users += 1

    def give(self) -> None:
        """An exchange has ended."""
        self.users -= 1
        if self.left and self.users == 0:
            spawn("member-connections", self.session.close())


class PushTransport:
    """The transport to members that have an address."""

    def __init__(self, directory: MemberDirectory) -> None:
        self._directory = directory
        self._pools: OrderedDict[str, _Pool] = OrderedDict()

    async def close(self) -> None:
        """Close all connections."""
        pools, self._pools = list(self._pools.values()), OrderedDict()
        for pool in pools:
            await pool.session.close()

    async def open(self, request: MemberRequest, body: AsyncIterator[bytes] | None = None) -> Exchange:
        """Send a request; raises MemberUnreachable, MemberBadAnswer, MemberUnknown, and MemberRefused for its form."""
        address = await self._directory.address(request.cluster)
        found = await self._send(address, request, body)
        if found.status != 401 or _is_of_service(request.path):
            return found
        await found.close()
        # The caller was let in already: what the member does not know is the impersonator's token.
        self._directory.forget(request.cluster)
        other = await self._directory.address(request.cluster)
        if body is None and other.token != address.token:
            found = await self._send(other, request, None)
            if found.status != 401:
                return found
            await found.close()
        raise MemberBadAnswer(
            f"cluster {request.cluster} does not accept the token in {other.place}; join the cluster again"
        )

    async def _send(
        self, address: MemberAddress, request: MemberRequest, body: AsyncIterator[bytes] | None
    ) -> _PushExchange:
        try:
            check_path(request.path.partition("?")[0])
            identity = identity_headers(request.user, request.groups)
        except (BadPath, BadIdentity) as error:
            raise MemberRefused(str(error)) from error
        headers: CIMultiDict[str] = CIMultiDict(request.headers)
        headers.extend(identity)
        headers["Authorization"] = f"Bearer {address.token}"
        if request.upgrade:
            headers["Connection"], headers["Upgrade"] = "Upgrade", request.upgrade
        pool = self._pool(address)
        pool.take()
        try:
            answer = await pool.session.request(
                request.method,
                URL(f"{address.server}{request.path}", encoded=True),
                headers=headers,
                data=body,
                allow_redirects=False,
                **proxied(address.route),
            )
        except BaseException as error:
            pool.give()
            if isinstance(error, _BROKEN):
                raise _failure(address, error) from error
            raise
        exchange = _PushExchange(address, pool, answer)
        try:
            exchange.begin(request)
        except BaseException:
            await exchange.close()
            raise
        return exchange

    def _pool(self, address: MemberAddress) -> _Pool:
        pool = self._pools.get(address.cluster)
        if pool is None or pool.connections != address.connections:
            try:
                made = _Pool(address)
            except (ssl.SSLError, ValueError) as error:
                raise MemberUnreachable(
                    f"the caBundle of cluster {address.cluster} cannot be used for TLS: {error}"
                ) from error
            if pool is not None:
                pool.leave()
            pool = self._pools[address.cluster] = made
        self._pools.move_to_end(address.cluster)
        while len(self._pools) > _MOST_POOLS:
            self._pools.popitem(last=False)[1].leave()
        return pool


class _PushExchange:
    """One answer of a push member."""

    def __init__(self, address: MemberAddress, pool: _Pool, answer: aiohttp.ClientResponse) -> None:
        self.status = answer.status
        self.headers = tuple(answer.headers.items())
        self._address = address
        self._pool: _Pool | None = pool
        self._answer = answer
        self._switched: SwitchedConnection | None = None

    def begin(self, request: MemberRequest) -> None:
        """Look at the head; raises MemberBadAnswer for one that is not handed on."""
        cluster = self._address.cluster
        if self.status == 101:
            became = self._answer.headers.get("Upgrade", "")
            if not request.upgrade or became.lower() != request.upgrade.lower():
                raise MemberBadAnswer(f"cluster {cluster} switched the connection to a protocol that was not asked for")
            try:
                self._switched = of_answer(self._answer)
            except ConnectionError as error:
                raise MemberUnreachable(f"cluster {cluster}: {error}") from error
        if self.status in _REDIRECTS and "Location" in self._answer.headers:
            place = _own_place(self._address.server, self._answer.headers["Location"])
            if not place:
                raise MemberBadAnswer(f"cluster {cluster} redirects the request to another host, which is not followed")
            others = [(name, value) for name, value in self.headers if name.lower() != "location"]
            self.headers = (*others, ("Location", place))

    async def read(self) -> bytes:
        """The next bytes of the body, or of the other protocol."""
        if self._switched is not None:
            return await self._switched.read()
        try:
            return await self._answer.content.read(CHUNK)
        except _BROKEN as error:
            raise _failure(self._address, error) from error

    async def write(self, data: bytes) -> None:
        """Send bytes of the other protocol."""
        if self._switched is None:
            raise MemberUnreachable(f"cluster {self._address.cluster} did not switch the connection")
        try:
            await self._switched.write(data)
        except OSError as error:
            raise _failure(self._address, error) from error

    async def close(self) -> None:
        """End it: a connection on which something is left to come is closed."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        if self._switched is not None:
            self._switched.close()
        if self._answer.content.at_eof() and self._switched is None:
            self._answer.release()
        else:
            self._answer.close()
        pool.give()


def _tls(address: MemberAddress) -> ssl.SSLContext | bool:
    if not address.server.startswith("https:"):
        return True
    context = trust(address.route, ca_pem=address.ca_pem or None)
    if address.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _is_of_service(path: str) -> bool:
    """Whether a path leads through the member's API server to something behind it, which answers for itself."""
    found = inner_resource(path.partition("?")[0])
    return found is not None and found.subresource == "proxy"


def _own_place(server: str, location: str) -> str:
    """The path, below a server's URL, of a Location that leads to the same server; empty for all others."""
    own = urlsplit(server)
    try:
        place = urlsplit(location)
        other = (place.scheme and place.scheme != own.scheme) or (place.netloc and place.netloc != own.netloc)
        path = place.path.removeprefix(own.path.rstrip("/")) if own.path else place.path
        check_path(path)
    except (ValueError, BadPath):
        return ""
    if other or location.startswith(("//", "/\\")) or not path.startswith("/") or path.startswith("//"):
        return ""
    return f"{path}?{place.query}" if place.query else path


def _failure(address: MemberAddress, error: BaseException) -> MemberUnreachable:
    text = " ".join((str(error) or type(error).__name__).split())[:300]
    if isinstance(error, aiohttp.ClientPayloadError):
        return MemberBadAnswer(f"the answer of cluster {address.cluster} broke off: {text}")
    if isinstance(error, aiohttp.ClientResponseError):
        return MemberBadAnswer(f"the answer of cluster {address.cluster} is no HTTP: {text}")
    return MemberUnreachable(f"cluster {address.cluster} cannot be reached: {text}")
