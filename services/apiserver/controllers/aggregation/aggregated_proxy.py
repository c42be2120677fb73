"""Passing one request on to an aggregated server, with the requester's identity in X-Remote-* headers."""

from __future__ import annotations

import asyncio
import io
import math
import ssl
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import quote

import aiohttp
import msgspec
from aiohttp import web
from aiohttp.web_request import BaseRequest
from multidict import CIMultiDict
from yarl import URL

from schemas.manifest import Manifest
from services._kit.concurrency.tasks import first_of
from services._kit.kube.answers.relay import LOOK_SECONDS, relay
from services._kit.proxying.switched_connection import SwitchedAnswer, join, of_answer, of_request
from services._rules.proxying import sent_back
from services._rules.proxying.header_rules import HOP_BY_HOP, to_member, upgrade_of
from services._rules.proxying.inner_requests import BadPath, check_path
from services.apiserver.core.delegated_resources import Delegated, inner_of
from services.apiserver.core.request_context import Identity
from services.apiserver.core.status_errors import ApiError

if TYPE_CHECKING:
    from services.apiserver.http.handler import Request

ANSWER_SECONDS: Final = 30.0
"""How long an aggregated server has to begin its answer; watches begin theirs when something happens."""
DELEGATED_SECONDS: Final = 90.0
"""How long it has where it asks another one in its turn."""
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class Backend:
    """One aggregated group version: where it is and whether it answers."""

    def __init__(self, name: str, spec: Manifest, before: Backend | None = None) -> None:
        self.name = name
        self.spec = spec
        service = spec.get("service") or {}
        self.service = (service.get("namespace", ""), service.get("name", ""))
        self.url = ""
        self.ssl: ssl.SSLContext | bool = True
        self.available: bool = before is not None and before.available
        self.reason = ""
        self.message = "not checked yet"
        self.resources: list[dict[str, Any]] | None = before.resources if before is not None else None
        self.delegated: frozenset[Delegated] = frozenset()
        """What its server answers for in group versions whose kinds are this server's."""
        if before is not None:
            self.url, self.ssl = before.url, before.ssl

    @property
    def server_name(self) -> str | None:
        """The name that the serving certificate of a Service is for; None where the URL says it."""
        namespace, name = self.service
        return f"{name}.{namespace}.svc" if name else None

    def set(self, available: bool, reason: str, message: str) -> None:
        """Record the outcome of a check."""
        self.available, self.reason, self.message = available, reason, message

    @staticmethod
    def identity_headers(user: Identity) -> CIMultiDict[str]:
        """Headers with the requester's identity; the backend trusts them for this server's client certificate."""
        headers: CIMultiDict[str] = CIMultiDict()
        headers["X-Remote-User"] = user.name
        if user.uid:
            headers["X-Remote-Uid"] = user.uid
        for group in user.groups:
            headers.add("X-Remote-Group", group)
        for name, values in user.extra.items():
            for value in values:
                headers.add(f"X-Remote-Extra-{quote(name, safe='')}", value)
        return headers


class SentBack(msgspec.Struct, frozen=True):
    """A server that was asked for a delegated resource left the request to this one: what `path` names is its own."""

    path: str


async def proxy(
    session: aiohttp.ClientSession, backend: Backend, request: Request, delegated: Delegated | None = None
) -> web.StreamResponse | SentBack:
    """Send the request on and stream the answer back as it comes, both ways where the protocol is switched.

    Raises aiohttp.ClientError before the answer began, and ApiError where it does not begin in time or leads elsewhere.
    """
    http = request.http
    given = list(http.headers.items())
    headers = CIMultiDict(to_member(given))
    headers.add("X-Forwarded-For", http.remote or "")
    headers.extend(backend.identity_headers(request.user))
    if backend.server_name is not None:
        headers["Host"] = backend.server_name
    upgrade = upgrade_of(given)
    if upgrade:
        headers["Connection"], headers["Upgrade"] = "Upgrade", upgrade
    if "Content-Encoding" in headers:
        # The body was unpacked on its way in here.
        headers.popall("Content-Length", None)
        headers.popall("Content-Encoding", None)
    query = http.rel_url.raw_query_string
    url = URL(f"{backend.url}{request.path}{'?' if query else ''}{query}", encoded=True)
    data: Any = http.content if http.can_read_body else None
    if data is not None and delegated is not None and (http.content_length or math.inf) <= sent_back.LARGEST_BODY:
        # A file-like body is sent piece by piece.
        data = io.BytesIO(await http.read())
    seconds = ANSWER_SECONDS if delegated is None else DELEGATED_SECONDS
    try:
        upstream = await first_of(
            session.request(
                http.method,
                url,
                headers=headers,
                data=data,
                allow_redirects=False,
                ssl=backend.ssl,
                server_hostname=backend.server_name if backend.url.startswith("https:") else None,
            ),
            _gone(http),
            seconds=None if request.lasting or _watches(request) else seconds,
        )
    except TimeoutError as e:
        raise ApiError(504, "Timeout", f"the server of {backend.name} did not answer in {seconds:g} s") from e
    async with upstream:
        if delegated is not None and upstream.status == sent_back.STATUS and sent_back.HEADER in upstream.headers:
            if data is http.content and http.can_read_body:
                text = f"the body of a request to {delegated} that changes an object has to say its length, "
                raise ApiError(413, "RequestEntityTooLarge", f"{text}of {sent_back.LARGEST_BODY} bytes at most")
            return SentBack(inner_of(delegated, request.path))
        place = upstream.headers.get("Location", "")
        if upstream.status in _REDIRECTS and place and not (delegated and _below(delegated, request.path, place)):
            # Clients would take their credentials there.
            text = "the backend attempted to redirect this request, which is not permitted"
            raise ApiError(502, "BadGateway", text)
        if upstream.status == 101:
            if not upgrade:
                raise ApiError(502, "BadGateway", "the backend switched the protocol without having been asked to")
            return await _switched(http, upstream, upgrade)
        # What follows a request that asked for another protocol is not read as a request.
        return await relay(http, upstream, closing=bool(upgrade))


async def _gone(http: BaseRequest) -> NoReturn:
    """Raise ConnectionResetError when the client has left; looked for now and then, as nothing tells of it."""
    while http.transport is not None and not http.transport.is_closing():  # noqa: ASYNC110 - there is no event of it
        await asyncio.sleep(LOOK_SECONDS)
    raise ConnectionResetError("the client left before it was answered")


async def _switched(http: BaseRequest, upstream: aiohttp.ClientResponse, upgrade: str) -> web.StreamResponse:
    """Carry bytes both ways on connections that are no longer HTTP."""
    other = of_answer(upstream)
    try:
        kept = [(name, value) for name, value in upstream.headers.items() if name.lower() not in HOP_BY_HOP]
        caller = of_request(http, (("Connection", "Upgrade"), ("Upgrade", upgrade), *kept))
        await join(caller, other, lambda *_: None)
    finally:
        other.close()
    return SwitchedAnswer()


def _below(delegated: Delegated, raw: str, place: str) -> bool:
    """Whether a place is below the path that a request was delegated by."""
    base = raw.removesuffix(inner_of(delegated, raw)).rstrip("/")
    if not place.startswith(f"{base}/"):
        return False
    try:
        check_path(place.partition("?")[0])
    except BadPath:
        return False
    return True


def _watches(request: Request) -> bool:
    return request.query.get("watch", "false") not in ("false", "0") or request.query.get("follow") == "true"
