"""The HTTP handler: authenticates each request, parses it, and routes it to the part of the server that answers."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any

import msgspec
import structlog
from aiohttp import web
from aiohttp.web_request import BaseRequest

from services.apiserver.auth.authentication import Authenticator, impersonation
from services.apiserver.auth.authorization import Access, Authorizer
from services.apiserver.auth.confinement import ANONYMOUS, INFO_PATH, confined
from services.apiserver.core import status_errors as status
from services.apiserver.core.metrics import REQUEST_SECONDS, REQUESTS, WATCHERS
from services.apiserver.core.request import RequestInfo, parse_query, resource_path, split_path
from services.apiserver.core.request_context import Call, Identity
from services.apiserver.core.status_errors import ApiError, PlainError
from services.apiserver.http import codec
from services.apiserver.reads.list_requests import WatchRequest
from services.apiserver.reads.negotiation import Form, negotiate, not_acceptable
from services.apiserver.reads.responses import View
from services.apiserver.reads.watch_stream import send_watch, watch_response

log = structlog.get_logger(__name__)

_AGENT = re.compile(r"[^/\s]*")
_count = lru_cache(maxsize=256)(REQUESTS.labels)
_timing = lru_cache(maxsize=64)(REQUEST_SECONDS.labels)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}


@lru_cache(maxsize=256)
def _manager(agent: str) -> str:
    """The field manager that a User-Agent names."""
    found = _AGENT.match(agent)
    return (found.group(0) if found else "")[:128] or "unknown"


class Answer(msgspec.Struct):
    """A finished response: code, body (JSON unless `media` names another type) and warnings."""

    code: int
    body: bytes
    media: str = "application/json"
    warnings: list[str] = []
    headers: dict[str, str] = {}


class Request(msgspec.Struct):
    """One request, authenticated and taken apart."""

    http: BaseRequest
    method: str
    user: Identity
    path: str
    query: dict[str, str]
    info: RequestInfo | None = None
    warnings: list[str] = []

    @property
    def media(self) -> str | None:
        """The media type of the body with its parameters."""
        return self.http.headers.get("Content-Type")

    async def body(self) -> bytes:
        """The whole body; raises 413."""
        try:
            return await self.http.read()
        except web.HTTPRequestEntityTooLarge as e:
            text = f"Request entity too large: limit is {self.http.client_max_size} bytes"
            raise ApiError(413, "RequestEntityTooLarge", text) from e

    def call(self, verb: str) -> Call:
        """The call this request makes."""
        manager = self.query.get("fieldManager")
        if not manager:
            manager = _manager(self.http.headers.get("User-Agent") or "")
        call = Call(self.user, verb=verb, manager=manager, validation=self.query.get("fieldValidation", ""))
        call.options = {"fieldManager": self.query["fieldManager"]} if self.query.get("fieldManager") else {}
        call.warnings = self.warnings
        return call


Route = Callable[[Request, list[str]], Awaitable[Answer | web.StreamResponse | None]]


class HttpFace:
    """Authenticates, routes and encodes; `routes` are tried in order until one answers."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer, routes: list[Route]) -> None:
        self._authenticator = authenticator
        self._open_info = authenticator.bootstrap is not None
        self._authorizer = authorizer
        self._routes = routes
        self.tasks: set[asyncio.Task[Any]] = set()

    async def handle(self, http: BaseRequest) -> web.StreamResponse:
        """Answer one request; never raises."""
        started = time.perf_counter()
        form: Form | None = None
        request: Request | None = None
        try:
            path = http.rel_url.raw_path
            query = parse_query(http.rel_url.raw_query_string)
            user = self._identify(http, path)
            request = Request(http, http.method, user, path, query)
            answer = await self._route(request)
            if isinstance(answer, web.StreamResponse):
                return answer
        except ApiError as e:
            answer = Answer(e.code, e.encode(), warnings=e.warnings, headers=e.headers or {})
        except PlainError as e:
            answer = Answer(e.code, e.text.encode(), media="text/plain; charset=utf-8")
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as e:
            log.exception("request failed", method=http.method, path=http.path)
            error = status.internal(f"Internal error occurred: {type(e).__name__}: {e}")
            error.reason = "InternalError"
            error.details = {"causes": [{"message": f"{type(e).__name__}: {e}"}]}
            answer = Answer(500, error.encode())
        form = negotiate(http.headers.get("Accept", "")) or Form()
        response = self._respond(answer, form, request)
        code = str(answer.code)
        _count(http.method, code).inc()
        _timing(http.method).observe(time.perf_counter() - started)
        return response

    def _identify(self, http: BaseRequest, path: str) -> Identity:
        certificate = None
        if http.transport is not None and "Authorization" not in http.headers:
            certificate = http.transport.get_extra_info("peercert")
        anonymous = certificate is None and "Authorization" not in http.headers
        if anonymous and self._open_info and path == INFO_PATH and http.method == "GET":
            return ANONYMOUS
        identity = self._authenticator.identify(http.headers, certificate, time.time())
        other = impersonation(http.headers, path)
        if other is None:
            return identity
        decision = self._authorizer.decide(identity, Access("impersonate", resource="users", name=other.name))
        if not decision.allowed:
            text = f'users "{other.name}" is forbidden: User "{identity.name}" cannot impersonate resource "users"'
            raise ApiError(403, "Forbidden", text, {"name": other.name, "kind": "users"})
        return other

    async def _route(self, request: Request) -> Answer | web.StreamResponse:
        parts = split_path(request.path)
        if not self._authorizer.allows_everything or (self._open_info and confined(request.user)):
            self._authorize(request, parts)
        for route in self._routes:
            answer = await route(request, parts)
            if answer is not None:
                return answer
        raise PlainError(404, "404 page not found\n")

    def _authorize(self, request: Request, parts: list[str]) -> None:
        verb = _VERBS.get(request.method, request.method.lower())
        info = resource_path(parts)
        if info is None:
            access = Access(verb, path=request.path)
            decision = self._authorizer.decide(request.user, access)
            if not decision.allowed:
                text = f'forbidden: User "{request.user.name}" cannot {verb} path "{request.path}"'
                raise ApiError(403, "Forbidden", text, {})
            return
        group = info.group
        if verb == "get" and not info.name:
            watching = info.watch_prefix or request.query.get("watch", "false") not in ("false", "0")
            verb = "watch" if watching else "list"
        elif verb == "delete" and not info.name:
            verb = "deletecollection"
        access = Access(verb, group, info.version, info.resource, info.subresource, info.namespace, info.name)
        decision = self._authorizer.decide(request.user, access)
        if decision.allowed:
            return
        shown = f"{info.resource}.{group}" if group else info.resource
        where = f' in the namespace "{info.namespace}"' if info.namespace else " at the cluster scope"
        text = f"{shown}{f' {chr(34)}{info.name}{chr(34)}' if info.name else ''} is forbidden: User "
        text += f'"{request.user.name}" cannot {verb} resource "{info.resource}" in API group "{group}"{where}'
        if decision.reason:
            text += f": {decision.reason}"
        details: dict[str, Any] = {"name": info.name} if info.name else {}
        if group:
            details["group"] = group
        details["kind"] = info.resource
        raise ApiError(403, "Forbidden", text, details)

    def _respond(self, answer: Answer, form: Form, request: Request | None) -> web.StreamResponse:
        body, media = answer.body, answer.media
        if media == "application/json":
            if form.yaml:
                body, media = codec.dump_yaml(body), "application/yaml"
            elif request is not None and request.query.get("pretty") in ("true", "1"):
                body = msgspec.json.format(body, indent=2) + b"\n"
        response = web.Response(body=body, status=answer.code)
        response.headers["Content-Type"] = media
        add_warnings(response, answer.warnings if request is None else request.warnings + answer.warnings)
        for name, value in answer.headers.items():
            response.headers[name] = value
        return response

    async def stream(self, request: Request, view: View, watch: WatchRequest, seconds: float) -> web.StreamResponse:
        """Send a watch until it ends or the client goes away."""
        response = watch_response(view)
        add_warnings(response, request.warnings)
        with WATCHERS.labels(view.kind.resource.group_resource).track_inprogress():
            return await send_watch(request.http, response, watch.frames(seconds), self.tasks)


def add_warnings(response: web.StreamResponse, texts: list[str]) -> None:
    """Warning headers, each text once."""
    for text in dict.fromkeys(texts):
        quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        response.headers.add("Warning", f'299 - "{quoted}"')


def form_of(request: Request) -> Form:
    """The form a resource request accepts; raises 406."""
    form = negotiate(request.http.headers.get("Accept", ""))
    if form is None:
        error = not_acceptable()
        error.details = {}
        raise error
    return form
