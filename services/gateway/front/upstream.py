"""Proxies requests to the control plane, with the credentials of the client and never with others.

There are two ways there. Over one of them the gateway shows a client certificate: it is for the bearer of the
installation's own token only, whose kubeconfig held that certificate. Over the other one it shows nothing of its own: a
control plane that checks certificates before tokens must never get those of different users in one request.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

import aiohttp
from aiohttp import web
from aiohttp.web_request import BaseRequest
from multidict import CIMultiDict
from yarl import URL

from services._kit.base.settings import SettingsError
from services._kit.kube.answers.relay import forwarded, relay
from services._kit.proxying.front_identity import Identity
from services.apiserver.core.status_errors import ApiError
from services.gateway.settings import GatewaySettings

CONNECT_SECONDS: Final = 5.0
LARGEST: Final = 16 << 20
"""Bytes of a document that is added to."""


class Upstream:
    """The control plane; raises SettingsError for certificates that cannot be read."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.url = settings.upstream_url.rstrip("/")
        self._plain_tls = _tls(settings, certificate=False)
        self._certificate_tls = _tls(settings, certificate=True) if settings.upstream_cert else None
        self._plain: aiohttp.ClientSession | None = None
        self._certified: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Open the sessions; connections are made with the first request."""
        self._plain = passing_session(self._plain_tls)
        if self._certificate_tls is not None:
            self._certified = passing_session(self._certificate_tls)

    async def stop(self) -> None:
        """Close every connection."""
        for session in (self._plain, self._certified):
            if session is not None:
                await session.close()

    def _way(self, identity: Identity) -> tuple[aiohttp.ClientSession, dict[str, str]]:
        """The session and the credentials of the client; raises ApiError 403 where there are none."""
        assert self._plain is not None
        if identity.authorization:
            return self._plain, {"Authorization": identity.authorization}
        if self._certified is not None and identity.installation:
            return self._certified, {}
        raise ApiError(
            403,
            "Forbidden",
            "these credentials open bindings, works and the history only; "
            f"for everything else use credentials of the control plane at {self.url}",
        )

    def lends(self, identity: Identity) -> bool:
        """Whether the control plane can be asked in the name of this identity."""
        return bool(identity.authorization) or (self._certified is not None and identity.installation)

    async def ask(
        self,
        identity: Identity,
        request: BaseRequest,
        method: str,
        path: str,
        *,
        accept: str,
        body: bytes | None = None,
    ) -> tuple[int, str, bytes]:
        """A small request with the client's credentials: status, media type and body. Raises ApiError."""
        session, credentials = self._way(identity)
        # What is read here must not be compressed.
        headers: CIMultiDict[str] = CIMultiDict({"Accept": accept, "Accept-Encoding": "identity", **credentials})
        headers.extend(impersonation(request))
        if body is not None:
            headers["Content-Type"] = "application/json"
        url = URL(f"{self.url}{path}", encoded=True)
        try:
            async with (
                asyncio.timeout(2 * CONNECT_SECONDS),
                session.request(method, url, headers=headers, data=body, allow_redirects=False) as answer,
            ):
                return answer.status, answer.headers.get("Content-Type", "application/json"), await _bounded(answer)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._silent(error) from error

    async def pass_on(
        self, request: BaseRequest, identity: Identity, *, path: str = "", body: bytes | None = None
    ) -> web.StreamResponse:
        """Send a request on and stream the answer back as it comes; raises ApiError before it began.

        `path` with its query takes the place of the request's own, `body` that of one that was read already.
        """
        if "Upgrade" in request.headers:
            raise ApiError(
                501,
                "NotImplemented",
                f"exec, attach and port-forward are not passed on; use the kubeconfig of {self.url} for them",
            )
        session, credentials = self._way(identity)
        headers = forwarded(request)
        headers.update(credentials)
        url = URL(f"{self.url}{path or request.rel_url.raw_path_qs}", encoded=True)
        data = body if body is not None else request.content if request.can_read_body else None
        try:
            answer = await session.request(request.method, url, headers=headers, data=data, allow_redirects=False)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._silent(error) from error
        async with answer:
            return await relay(request, answer)

    def _silent(self, error: Exception) -> ApiError:
        why = str(error) or type(error).__name__
        details = {"retryAfterSeconds": 1}
        return ApiError(503, "ServiceUnavailable", f"the control plane at {self.url} does not answer: {why}", details)


def impersonation(request: BaseRequest) -> CIMultiDict[str]:
    """The impersonation headers of a request; the control plane authorizes them."""
    found: CIMultiDict[str] = CIMultiDict()
    for name, value in request.headers.items():
        if name.lower().startswith("impersonate-"):
            found.add(name, value)
    return found


async def _bounded(answer: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for part in answer.content.iter_any():
        body += part
        if len(body) > LARGEST:
            raise aiohttp.ClientPayloadError(f"its answer is larger than {LARGEST >> 20} MiB")
    return bytes(body)


def passing_session(tls: ssl.SSLContext | None) -> aiohttp.ClientSession:
    """A session for requests of many clients that are passed on as they are, over any number of connections."""
    connector = aiohttp.TCPConnector(limit=0, limit_per_host=0, ssl=tls if tls is not None else True)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
    # A cookie jar would send what one answer set with requests of other clients.
    return aiohttp.ClientSession(
        connector=connector,
        timeout=timeout,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        # Who sent no such header must not get an answer as if.
        skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
    )


def _tls(settings: GatewaySettings, *, certificate: bool) -> ssl.SSLContext | None:
    if not settings.upstream_url.startswith("https:"):
        return None
    try:
        context = ssl.create_default_context(cafile=settings.upstream_ca or None)
        if settings.upstream_insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate:
            context.load_cert_chain(settings.upstream_cert, settings.upstream_key or None)
    except OSError as error:
        raise SettingsError(f"FLEETLOG_UPSTREAM_CA, FLEETLOG_UPSTREAM_CERT, FLEETLOG_UPSTREAM_KEY: {error}") from error
    return context
