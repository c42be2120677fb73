"""How connections to an endpoint are made: through a proxy, and under which name its certificate is checked."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import aiohttp
from msgspec import Struct
from multidict import CIMultiDict

if TYPE_CHECKING:
    from aiohttp_socks import ProxyConnector

SCHEMES: Final = ("http", "https", "socks5")
"""Protocols of the proxies that connections can go through."""


class Route(Struct, frozen=True):
    """The way to an endpoint.

    `proxy` is the URL of a proxy, `headers` are sent to it with every connection; `name` is the host name that the
    endpoint's certificate must be for, empty where it is the one of the URL.
    """

    proxy: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    name: str = ""

    def __repr__(self) -> str:
        # The URL may hold a password, and so may the headers.
        return f"Route(through a proxy: {bool(self.proxy)}, {self.name!r})"


DIRECT: Final = Route()


def proxy_problem(url: str) -> str:
    """Why a URL is that of no proxy, without the URL, which may hold a password; empty when nothing is wrong."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return f"is no URL: {error}"
    if parts.scheme not in SCHEMES or not parts.hostname or port == 0:
        return "is no proxy: write http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT"
    return ""


class _NamedContext(ssl.SSLContext):
    """Checks every certificate for one name, and asks the server for the certificate of that name."""

    name: str

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """One connection; the name of the URL does not count."""
        return super().wrap_bio(incoming, outgoing, server_side, self.name, session)


def trust(route: Route, *, ca_file: str | None = None, ca_pem: str | None = None) -> ssl.SSLContext:
    """What connections to an endpoint trust: these authorities, those of the system where none is given.

    Raises SSLError and OSError for authorities that cannot be read.
    """
    if not route.name:
        return ssl.create_default_context(cafile=ca_file, cadata=ca_pem)
    context = _NamedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.name = route.name
    if ca_file or ca_pem:
        context.load_verify_locations(cafile=ca_file, cadata=ca_pem)
    else:
        context.load_default_certs()
    return context


def proxied(route: Route) -> dict[str, Any]:
    """What a request says of a proxy of HTTP; one of SOCKS is the matter of the connections."""
    if not route.proxy or route.proxy.startswith("socks5:"):
        return {}
    return {"proxy": route.proxy, "proxy_headers": CIMultiDict(route.headers)}


def connector(route: Route, **options: Any) -> aiohttp.TCPConnector:
    """Makes the connections of a session; proxies of HTTP are left to the session."""
    if not route.proxy.startswith("socks5:"):
        return aiohttp.TCPConnector(**options)
    return _through_socks().from_url(route.proxy, **options)


def _through_socks() -> type[ProxyConnector]:
    # Commands start faster without it, and few members are reached in this way.
    from aiohttp_socks import ProxyConnectionError, ProxyConnector, ProxyError, ProxyTimeoutError

    class Socks(ProxyConnector):
        """Fails as other connections do."""

        async def _wrap_create_connection(self, *args: Any, **named: Any) -> Any:
            try:
                return await super()._wrap_create_connection(*args, **named)
            except ProxyError as error:
                raise aiohttp.ClientConnectionError(f"the proxy refuses: {error}") from error
            except (ProxyConnectionError, ProxyTimeoutError) as error:
                raise aiohttp.ClientConnectionError(f"the proxy does not answer: {error}") from error

    return Socks
