"""A client of one Kubernetes endpoint: raw requests with a kubeconfig's identity, answered in bytes."""

from __future__ import annotations

import asyncio
import io
import random
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import aiohttp
from multidict import CIMultiDict

from schemas.manifest import Manifest
from services._kit.base import answer_limits, fault_points
from services._kit.base.answer_limits import Limits
from services._kit.base.log_errors import FenceLost
from services._kit.kube import api as kube_api
from services._kit.kube.answers.bodies import lines, whole
from services._kit.kube.answers.discovery_answers import discover
from services._kit.kube.answers.exchange import CONNECT_SECONDS, GZIP, IDENTITY, check_json, failures, session
from services._kit.kube.answers.shapes import manifest_of, readable
from services._kit.kube.answers.share import Share
from services._kit.kube.api import (
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    ApiError,
    ApiResource,
    BadAnswer,
    NotLeading,
    Unreachable,
    WatchEvent,
    decode,
    encode,
    refusal,
    resource_path,
    watch_event_decoder,
)
from services._kit.kube.client_core import endpoint_of
from services._kit.kube.route import DIRECT, Route, proxied, trust

if TYPE_CHECKING:
    # Commands have no lease, and loading what one needs takes as long as most of them work.
    from services._kit.leadership.write_guard import Guard

__all__ = [
    "JSON",
    "JSON_PATCH",
    "MERGE_PATCH",
    "ApiError",
    "ApiResource",
    "BadAnswer",
    "KubeClient",
    "Manifest",
    "NotLeading",
    "Unreachable",
    "WatchEvent",
    "decode",
    "encode",
    "resource_path",
]

_LARGE = 1 << 20
_EVENTS = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"})


class KubeClient:
    """A session with one endpoint. Close it when done.

    Its answers are read within `limits` (default: those of the process); `share` is what its readers take turns by.
    """

    def __init__(
        self,
        server: str,
        *,
        ssl_context: ssl.SSLContext | None,
        headers: Mapping[str, str],
        connections: int = 64,
        limits: Limits | None = None,
        share: Share | None = None,
        route: Route = DIRECT,
    ) -> None:
        self.server = server.rstrip("/")
        self.ssl_context = ssl_context
        self._route = route
        self._headers: Mapping[str, str] = {"User-Agent": kube_api.MANAGER, **headers}
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None
        self._configuration: Any = None
        self._large = asyncio.Lock()
        self.limits = limits or answer_limits.in_force()
        self.share = share or Share()
        self.used = 0.0
        """When the last request ended, as `time.monotonic` counts; 0: there was none."""
        self.guard: Guard | None = None
        """Asked before every request that changes something; None: everything may be sent."""

    @classmethod
    async def from_kubeconfig(
        cls, kubeconfig: str | Path | Manifest, *, context: str | None = None, connections: int = 64
    ) -> Self:
        """Open the endpoint of a kubeconfig, given as a path or as its decoded content."""
        configuration, ssl_context, route = await endpoint_of(kubeconfig, context)
        limits = answer_limits.of_control_plane()
        client = cls(
            configuration.host,
            ssl_context=ssl_context,
            headers={},
            connections=connections,
            limits=limits,
            route=route,
        )
        client._configuration = configuration
        return client

    @classmethod
    def from_token(
        cls,
        server: str,
        token: str,
        *,
        ca_pem: str = "",
        insecure: bool = False,
        client_pem: tuple[str, str] | None = None,
        connections: int = 64,
        route: Route = DIRECT,
    ) -> Self:
        """Open an endpoint with what a member's Secret holds: a bearer token or a client certificate, and a CA."""
        context: ssl.SSLContext | None = None
        if server.startswith("https"):
            context = trust(route, ca_pem=ca_pem or None)
            if insecure:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if client_pem is not None:
                # The ssl module reads certificates from files only; this one lives for the length of the call, in a
                # directory with access for this user only.
                with tempfile.TemporaryDirectory() as directory:
                    pair = Path(directory) / "pair.pem"
                    pair.write_text("\n".join(client_pem), encoding="utf-8")
                    context.load_cert_chain(pair)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # A neighbour, unlike the control plane: what it sends gets its share and no more.
        share = Share(answer_limits.in_force().cpu_share)
        return cls(server, ssl_context=context, headers=headers, connections=connections, share=share, route=route)

    def act_as(self, user: str, groups: Sequence[str] = (), uid: str = "") -> None:
        """Send everything in another one's name from now on, if the endpoint allows it; before the first request."""
        name = [("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups)]
        self._headers = CIMultiDict([*self._headers.items(), *name, *([("Impersonate-Uid", uid)] if uid else [])])

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            self._session = self._make_session(self._connections)
        return self._session

    def _open_streams(self) -> aiohttp.ClientSession:
        """The session of the watches: each holds a connection, however many kinds there are."""
        if self._streams is None or self._streams.closed:
            self._streams = self._make_session(0)
        return self._streams

    def _make_session(self, connections: int) -> aiohttp.ClientSession:
        return session(self, self._headers, self.ssl_context, connections=connections, route=self._route)

    def adopt(self, other: KubeClient) -> list[aiohttp.ClientSession]:
        """Use the endpoint, trust and identity of a client that was not used yet from now on.

        The sessions until now are for the caller to close, once nothing is under way in them.
        """
        self.server, self.ssl_context, self._headers = other.server, other.ssl_context, other._headers
        self._route = other._route
        self._configuration = other._configuration
        old = [each for each in (self._session, self._streams) if each is not None]
        self._session = self._streams = None
        return old

    async def close(self) -> None:
        """Close every connection."""
        opened = (self._session, self._streams)
        self._session = self._streams = None
        for each in opened:
            if each is not None:
                await each.close()

    async def identity(self) -> dict[str, str]:
        """The header with the token of the kubeconfig, which may be a new one with every request."""
        if self._configuration is None:
            return {}
        setting = (await self._configuration.auth_settings()).get("BearerToken")
        if setting and setting["value"]:
            return {setting["key"]: setting["value"]}
        return {}

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | Manifest | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float = 0.0,
    ) -> bytes:
        """Send one request and return the answer's bytes.

        Raises ApiError for a refusal, Unreachable when no answer came within `timeout` seconds (0: those of the
        limits), BadAnswer (an Unreachable) when it exceeds a limit or, where JSON was asked for, is none, and
        NotLeading (an Unreachable) when the guard let nothing through: then it was not sent.
        """
        what = f"{method} {self.server}{path}"
        headers = {"Accept": accept, **GZIP, **await self.identity()}
        data = encode(body) if isinstance(body, dict) else body
        if data is not None:
            headers["Content-Type"] = content_type
        if method != "GET":
            fault_points.reach("before_act", path)
            if self.guard is not None and not self.guard.holds:
                # Beside the time that the endpoint has to answer.
                await _admitted(self.guard, what)
        limits = self.limits
        timeout = timeout or limits.answer_seconds
        with failures(what, timeout):
            try:
                async with self._open().request(
                    method,
                    self.server + path,
                    params=params,
                    # A large body is written piece by piece.
                    data=data if data is None or len(data) < _LARGE else io.BytesIO(data),
                    headers=headers,
                    timeout=aiohttp.ClientTimeout(
                        total=timeout, sock_connect=CONNECT_SECONDS, sock_read=limits.first_byte_seconds
                    ),
                    allow_redirects=False,
                    **proxied(self._route),
                ) as response:
                    answer = await whole(response, limits, self._large)
                    if response.status >= 300:
                        raise _refused(response, answer)
                    if accept.startswith(JSON):
                        check_json(answer, response.headers.get("Content-Type", ""))
                    if method != "GET":
                        fault_points.reach("after_act", path)
                    self.used = time.monotonic()
                    return answer
            except FenceLost as error:
                raise NotLeading(f"{what} was not sent: {error}") from error

    async def get(self, path: str, **kwargs: Any) -> Manifest:
        """Read one object or collection."""
        return self._object("GET", path, await self.request("GET", path, **kwargs))

    async def create(self, path: str, body: bytes | Manifest) -> Manifest:
        """POST an object to its collection."""
        return self._object("POST", path, await self.request("POST", path, body=body))

    async def update(self, path: str, body: bytes | Manifest) -> Manifest:
        """PUT an object (or its subresource)."""
        return self._object("PUT", path, await self.request("PUT", path, body=body))

    async def patch(self, path: str, body: bytes | Manifest, content_type: str = MERGE_PATCH) -> Manifest:
        """PATCH an object (or its subresource)."""
        return self._object("PATCH", path, await self.request("PATCH", path, body=body, content_type=content_type))

    async def delete(self, path: str, *, propagation: str = "", uid: str = "", resource_version: str = "") -> bytes:
        """DELETE an object, optionally only if it still has this uid and version."""
        options: Manifest = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if propagation:
            options["propagationPolicy"] = propagation
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        if any(preconditions.values()):
            options["preconditions"] = {name: value for name, value in preconditions.items() if value}
        return await self.request("DELETE", path, body=options)

    def _object(self, method: str, path: str, answer: bytes) -> Manifest:
        with failures(f"{method} {self.server}{path}", 0):
            return manifest_of(answer, self.limits.answer_values)

    async def watch(
        self, path: str, resource_version: str, *, params: Mapping[str, str] | None = None, accept: str = JSON
    ) -> AsyncIterator[list[WatchEvent]]:
        """Stream changes after a resourceVersion, as many at once as have arrived; none, once, when the stream is open.

        Ends when the server closes the stream, as it is asked to after a while, and when no byte came for so long that
        the connection may be dead: in both cases a new one goes on after the last version. Raises ApiError (410 when
        the version is too old), Unreachable and BadAnswer.
        """
        limits = self.limits
        what = f"watch {self.server}{path}"
        # The watches of a start are not renewed all at once.
        seconds = max(1, round(limits.watch_seconds * random.uniform(0.8, 1.0)))
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
            "resourceVersion": resource_version,
            **(params or {}),
        }
        headers = {"Accept": accept, **IDENTITY, **await self.identity()}
        with failures(what, limits.first_byte_seconds):
            async with asyncio.timeout(limits.first_byte_seconds):
                response = await self._open_streams().get(
                    self.server + path, params=query, headers=headers, allow_redirects=False, **proxied(self._route)
                )
            async with response:
                if response.status >= 300:
                    raise _refused(response, await whole(response, limits, self._large))
                if response.content_type == JSON:
                    # The stream is open: that it is shows before the first change. A page for people is none.
                    yield []
                async for found in lines(response, limits, self._large):
                    yield [_event(line) for line in found]

    async def discover(self, *, preferred: bool = True, left_out: set[str] | None = None) -> list[ApiResource]:
        """Kinds the endpoint serves, without subresources; every group's preferred version only, if `preferred`.

        A group version whose server does not answer as it should is left out, and added to `left_out`. Raises ApiError
        and Unreachable for the core group and the list of groups.
        """
        return await discover(self.request, self.limits, preferred=preferred, left_out=left_out)


def _event(line: bytes) -> WatchEvent:
    event = readable(watch_event_decoder, line, "an event of a watch")
    if event.type not in _EVENTS:
        raise BadAnswer(f"a watch has no events of type {event.type[:40]!r}")
    return event


async def _admitted(guard: Guard, request: str) -> None:
    try:
        await guard.wait()
    except FenceLost as error:
        raise NotLeading(f"{request} was not sent: {error}") from error


def _refused(response: aiohttp.ClientResponse, body: bytes) -> ApiError | BadAnswer:
    error = refusal(response.status, response.reason or "", response.headers, body, str(response.url))
    # An API server never redirects: the outcome of the request is unknown.
    return error if response.status >= 400 else BadAnswer(str(error))
