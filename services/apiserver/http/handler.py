"""The HTTP handler: authenticates each request, parses it, and routes it to the part of the server that answers."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import structlog
from aiohttp import web
from aiohttp.web_request import BaseRequest

from schemas.envelope import HEADER_TRACEPARENT
from services._kit.base.http_stop import Underway
from services._rules.kubernetes.document_bounds import too_deep
from services._rules.kubernetes.rbac.policy_rules import Access
from services._rules.tracing.logged_event import TRACEPARENT_LENGTH, traceparent
from services.apiserver.auth.authentication import Authenticator
from services.apiserver.auth.authorization import Authorizer, refused
from services.apiserver.auth.confinement import ANONYMOUS, INFO_PATH, confined
from services.apiserver.auth.impersonation import impersonated_as, impersonation
from services.apiserver.controllers.aggregation.aggregated_proxy import SentBack
from services.apiserver.core import status_errors as status
from services.apiserver.core.metrics import TIMED_OUT, WATCHERS
from services.apiserver.core.request import RequestInfo, parse_query, resource_path, split_path, truth
from services.apiserver.core.request_context import Call, Identity
from services.apiserver.core.request_tally import REQUESTS
from services.apiserver.core.status_errors import ApiError, PlainError, too_many_requests
from services.apiserver.core.warning_texts import warning_texts
from services.apiserver.flow.text_workers import FROM_PROTOBUF, FROM_YAML, TO_YAML, TextWorkers
from services.apiserver.http import codec
from services.apiserver.http.bounded_connections import SERVER_NAME
from services.apiserver.http.connect import NAMES as CONNECTIONS
from services.apiserver.http.request_limits import RequestLimits
from services.apiserver.http.whole_answer import WholeAnswer
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.reads.list_requests import Page
from services.apiserver.reads.list_stream import ListResponse, as_json, as_pretty_json, as_yaml, parts_of, takes_gzip
from services.apiserver.reads.negotiation import Form, negotiate
from services.apiserver.reads.responses import View
from services.apiserver.reads.watch_requests import WatchRequest
from services.apiserver.reads.watch_stream import send_watch, watch_response
from services.apiserver.store.write_queue import TRACEPARENT

log = structlog.get_logger(__name__)

_AGENT = re.compile(r"[^/\s]*")
_MOST_LISTS = 64
"""Long lists that are sent to one user at a time: each holds a slice and what the client has not read."""
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FOR_PEOPLE = ("curl", "Wget", "Mozilla/5.0")
_OF_MANY = frozenset({"list", "watch", "deletecollection"})
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}


@lru_cache(maxsize=256)
def _manager(agent: str) -> str:
    """The field manager that a User-Agent names."""
    found = _AGENT.match(agent)
    return (found.group(0) if found else "")[:128] or "unknown"


def named_by_selector(query: Mapping[str, str]) -> str:
    """The one name that a field selector asks for; empty where it asks for another thing."""
    for term in query.get("fieldSelector", "").split(","):
        field, _, name = term.partition("=")
        if field == "metadata.name":
            name = name.removeprefix("=")
            return "" if "/" in name or "%" in name or name in (".", "..") else name
    return ""


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
    texts: TextWorkers
    target: RequestInfo | None = None
    """What the path names; None for one outside of all group versions."""
    info: RequestInfo | None = None
    """The same, once its kind was found."""
    warnings: list[str] = []
    size: int = 0
    """Bytes of the body, as far as it was read."""
    is_json: bool = False
    """Whether a body in another format was turned into JSON already."""
    was_sent_back: bool = False
    """Whether another server was asked and left it to this one."""
    made: Call | None = None
    raw: bytes | None = None
    lasting: bool = False
    """Whether it may run for long although it is no watch of this server: another one answers it."""

    @property
    def media(self) -> str | None:
        """The media type of the body with its parameters."""
        return codec.JSON if self.is_json else self.http.headers.get("Content-Type")

    @property
    def pretty(self) -> bool:
        """Whether JSON is to be indented: as asked for, and for the programs that people look at answers with."""
        asked = self.query.get("pretty")
        if asked:
            return asked in _TRUE
        return self.http.headers.get("User-Agent", "").startswith(_FOR_PEOPLE)

    async def body(self, schema_name: str = "") -> bytes:
        """The whole body; raises 413.

        A large one in YAML or, where the type is known by name, in protobuf comes as JSON, made in another process.
        """
        if self.raw is not None:
            return self.raw
        try:
            content = self.http.content
            if content.is_eof() and not content.at_eof() and content.total_bytes <= self.http.client_max_size:
                # All of it is here already, as with most requests.
                raw = content.read_nowait()
            else:
                raw = await self.http.read()
        except web.HTTPRequestEntityTooLarge as e:
            text = f"Request entity too large: limit is {self.http.client_max_size}"
            raise ApiError(413, "RequestEntityTooLarge", text) from e
        except web.RequestPayloadError as e:
            raise status.bad_request("the body cannot be read: it is cut off, or not coded as its headers say") from e
        self.size = len(raw)
        if self.made is not None:
            self.made.weight = self.size
        self.raw = await self._as_json(raw, schema_name) if self.size >= codec.SLOW_BYTES else raw
        return self.raw

    async def _as_json(self, raw: bytes, schema_name: str) -> bytes:
        media = codec.media_type(self.media)
        if media.endswith("yaml") and not codec.is_json(raw):
            return await self.texts.run(self.user.name, FROM_YAML, raw)
        if media == codec.PROTOBUF and schema_name:
            text = await self.texts.run(self.user.name, f"{FROM_PROTOBUF} {schema_name}", raw)
            self.is_json = True
            return text
        return raw

    def call(self, verb: str) -> Call:
        """The call this request makes."""
        manager = self.query.get("fieldManager")
        if not manager:
            manager = _manager(self.http.headers.get("User-Agent") or "")
        call = Call(self.user, verb=verb, manager=manager, validation=self.query.get("fieldValidation", ""))
        call.options = {"fieldManager": self.query["fieldManager"]} if self.query.get("fieldManager") else {}
        call.warnings = self.warnings
        call.weight = self.size
        self.made = call
        return call


Route = Callable[[Request, list[str]], Awaitable[Answer | web.StreamResponse | SentBack | None] | None]
"""Answers some paths; None, at once or awaited, for others."""


class HttpFace:
    """Authenticates, routes and encodes; `routes` are tried in order until one answers."""

    def __init__(
        self,
        authenticator: Authenticator,
        authorizer: Authorizer,
        routes: list[Route],
        limits: RequestLimits,
    ) -> None:
        self._authenticator = authenticator
        self._open_info = authenticator.bootstrap is not None
        self._authorizer = authorizer
        self._routes = routes
        self.on_refusal: Callable[[Identity, Access], None] = lambda *_: None
        """Told of every access that is refused to a user."""
        self.lasts: Callable[[Request, list[str]], bool] = lambda *_: False
        """Whether a request that another server answers may run for long."""
        self.limits = limits
        self.underway = Underway()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.turns = asyncio.Lock()
        self._lists: WeakKeyDictionary[ListResponse, str] = WeakKeyDictionary()

    async def handle(self, http: BaseRequest) -> web.StreamResponse:
        """Answer one request; what it raises is the end of its connection."""
        started = time.perf_counter()
        request: Request | None = None
        underway = self.underway
        underway.begin()
        traced = http.headers.get(HEADER_TRACEPARENT)
        if traced is not None:
            TRACEPARENT.set(traced[:TRACEPARENT_LENGTH] if all(traceparent(traced)) else "")
        try:
            path = http.rel_url.raw_path
            query = parse_query(http.rel_url.raw_query_string)
            user = self._identify(http, path)
            request = Request(http, http.method, user, path, query, self.limits.texts)
            answer = await self._route(request)
            if isinstance(answer, web.StreamResponse):
                return answer
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as e:  # noqa: BLE001 - whatever it is, its client gets a Status and others go on
            answer = self._refusal(e, http)
        finally:
            underway.end()
            if traced is not None:
                # The next request of this connection is another one.
                TRACEPARENT.set("")
        if http.writer.output_size > 0:
            # An answer that had begun cannot be taken back: its client has to see that it is not complete.
            raise ConnectionError("the answer had begun")
        response = self._respond(answer, request)
        REQUESTS.add(http.method, answer.code, time.perf_counter() - started)
        return response

    def _refusal(self, e: Exception, http: BaseRequest) -> Answer:
        """The answer to a request that was refused or failed; no traceback leaves the server."""
        if isinstance(e, ApiError):
            if e.code == 500 and not e.reason:
                e.code, e.reason = 400, "BadRequest"
            return Answer(e.code, e.encode(), warnings=e.warnings, headers=e.headers or {})
        if isinstance(e, PlainError):
            return Answer(e.code, e.text.encode(), media="text/plain; charset=utf-8")
        if isinstance(e, RecursionError):
            return Answer(400, codec.out_of_bounds(too_deep()).encode())
        if isinstance(e, UnicodeError):
            return Answer(400, status.bad_request("the request holds characters that are not Unicode").encode())
        log.exception("request failed", method=http.method, path=http.path)
        error = status.internal(f"Internal error occurred: {type(e).__name__}: {e}")
        error.reason = "InternalError"
        error.details = {"causes": [{"message": f"{type(e).__name__}: {e}"}]}
        return Answer(500, error.encode())

    def _identify(self, http: BaseRequest, path: str) -> Identity:
        certificate = None
        if http.transport is not None and "Authorization" not in http.headers:
            certificate = http.transport.get_extra_info("peercert")
        anonymous = certificate is None and "Authorization" not in http.headers
        if anonymous and self._open_info and path == INFO_PATH and http.method == "GET":
            return ANONYMOUS
        identity = self._authenticator.identify(http.headers, certificate, time.time())
        other = impersonation(http.headers)
        if other is None:
            return identity
        for access in impersonated_as(http.headers, other):
            self._require(identity, access)
        return other

    async def _route(self, request: Request) -> Answer | web.StreamResponse:
        parts = split_path(request.path)
        info = resource_path(parts)
        self._allow(request, info)
        request.target = info
        query = request.query
        connects = info is not None and info.subresource in CONNECTIONS and not info.group
        request.lasting = connects or (info is not None and self.lasts(request, parts))
        if request.lasting:
            with self.limits.watch(request.user):
                return await self._kept(request, parts)
        if info is not None and request.method in ("GET", "HEAD") and (info.watch_prefix or truth(query.get("watch"))):
            with self.limits.watch(request.user):
                return await self._answer(request, parts)
        ends = self.limits.deadlines
        task = ends.begin(self.limits.seconds(query), request.http._loop)
        level, flow, width = self.limits.seat_of(request, info, parts)
        seated = False
        try:
            if level is not None:
                if not level.take(flow, width):
                    await self.limits.seats.wait(level, flow, width)
                seated = True
            answer = await self._answer(request, parts)
            return await self._as_yaml(request, answer) if "yaml" in _accepted(request.http) else answer
        except asyncio.CancelledError:
            if not ends.late(task):
                raise
            task.uncancel()
            TIMED_OUT.inc()
            raise status.timed_out() from None
        finally:
            ends.end(task)
            if seated and level is not None:
                level.leave(flow, width)

    async def _kept(self, request: Request, parts: list[str]) -> Answer | web.StreamResponse:
        """An answer that may take for long; a stop of the server ends it."""
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            return await self._answer(request, parts)
        finally:
            self.tasks.discard(task)

    async def _answer(self, request: Request, parts: list[str]) -> Answer | web.StreamResponse:
        for route in self._routes:
            found = route(request, parts)
            if found is not None:
                answer = await found
                if isinstance(answer, SentBack):
                    return await self._answer_itself(request, answer.path)
                if answer is not None:
                    return answer
        raise PlainError(404, "404 page not found\n")

    async def _answer_itself(self, request: Request, path: str) -> Answer | web.StreamResponse:
        """Answer what another server left to this one: for the same user, who has to be allowed that as well."""
        if request.was_sent_back:
            raise status.bad_request("the path leads through the same proxy twice")
        request.was_sent_back = True
        parts = split_path(path)
        request.path, request.info, request.target = path, None, resource_path(parts)
        self._allow(request, request.target)
        return await self._answer(request, parts)

    def _allow(self, request: Request, info: RequestInfo | None) -> None:
        """Refuse a request that its user may not make; raises 403."""
        if not self._authorizer.allows_everything or (self._open_info and confined(request.user)):
            self._authorize(request, info)

    async def _as_yaml(self, request: Request, answer: Answer | web.StreamResponse) -> Answer | web.StreamResponse:
        """The answer, in YAML where that is asked for."""
        if not isinstance(answer, Answer) or answer.media != codec.JSON or not _wants_yaml(request.http):
            return answer
        if len(answer.body) < codec.SLOW_BYTES:
            answer.body = codec.dump_yaml(answer.body)
        else:
            answer.body = await self.limits.texts.run(request.user.name, TO_YAML, answer.body)
        answer.media = codec.YAML
        return answer

    def _authorize(self, request: Request, info: RequestInfo | None) -> None:
        if info is None:
            self._require(request.user, Access(request.method.lower(), path=request.path))
            return
        group = info.group
        verb = _VERBS.get(request.method, request.method.lower())
        if verb == "get" and not info.name:
            watching = info.watch_prefix or truth(request.query.get("watch"))
            verb = "watch" if watching else "list"
        elif verb == "delete" and not info.name:
            verb = "deletecollection"
        name = info.name or (named_by_selector(request.query) if verb in _OF_MANY else "")
        # A namespace is in itself.
        namespace = info.name if (group, info.resource) == ("", "namespaces") else info.namespace
        access = Access(verb, group, info.version, info.resource, info.subresource, namespace, name)
        self._require(request.user, access)

    def _require(self, user: Identity, access: Access) -> None:
        """Refuse and record an access that is not allowed; raises 403."""
        decision = self._authorizer.decide(user, access)
        if not decision.allowed:
            self.on_refusal(user, access)
            raise refused(user, access, decision.reason)

    def require_creation(self, request: Request, info: RequestInfo, kind: Kind) -> None:
        """Refuse an update or an apply that would create its object where its user may not; raises 403."""
        access = Access("create", info.group, info.version, info.resource, "", info.namespace, info.name)
        if not self._authorizer.decide(request.user, access).allowed:
            self.on_refusal(request.user, access)
            raise status.forbidden(kind.resource, info.name, "")

    def _respond(self, answer: Answer, request: Request | None) -> web.StreamResponse:
        body, media = answer.body, answer.media
        if media == codec.JSON and request is not None:
            if answer.code >= 400 and _wants_yaml(request.http):
                body, media = codec.dump_yaml(body), codec.YAML
            elif request.pretty:
                body = msgspec.json.format(body, indent=2) + b"\n"
        headers = list(answer.headers.items())
        if answer.warnings or (request is not None and request.warnings):
            texts = answer.warnings if request is None else request.warnings + answer.warnings
            headers += [("Warning", line) for line in warning_lines(texts)]
        return WholeAnswer(answer.code, media, body, headers)

    def long_list(self, request: Request, view: View, page: Page) -> ListResponse:
        """A list that is sent in slices once the request is handled; raises 429 for a user who has many already."""
        user = request.user.name
        if sum(other == user for other in self._lists.values()) >= _MOST_LISTS:
            raise too_many_requests(f"{user} is being sent {_MOST_LISTS} long lists, as many as one user may have")
        media, slices = codec.JSON, parts_of(view, page, self.turns)
        if view.form.yaml:
            media, chunks = (
                codec.YAML,
                as_yaml(view, page, slices, partial(self.limits.texts.run, user, TO_YAML)),
            )
        else:
            chunks = (as_pretty_json if request.pretty else as_json)(view, page, slices)
        zipped = takes_gzip(request.http.headers.get("Accept-Encoding", ""))
        response = ListResponse(media, chunks, zipped=zipped, tasks=self.tasks)
        response.headers["Server"] = SERVER_NAME
        add_warnings(response, request.warnings)
        REQUESTS.answered(request.method, 200)
        self._lists[response] = user
        return response

    async def stream(self, request: Request, view: View, watch: WatchRequest, seconds: float) -> web.StreamResponse:
        """Send a watch until it ends or the client goes away."""
        response = watch_response(view)
        response.headers["Server"] = SERVER_NAME
        add_warnings(response, request.warnings)
        with WATCHERS.labels(view.kind.resource.group_resource).track_inprogress():
            return await send_watch(request.http, response, watch.frames(seconds), self.tasks)


def _accepted(http: BaseRequest) -> str:
    return http.headers.get("Accept", "")


def _wants_yaml(http: BaseRequest) -> bool:
    accept = _accepted(http)
    return "yaml" in accept and (negotiate(accept) or Form()).yaml


def warning_lines(texts: list[str]) -> Iterator[str]:
    """Values of Warning headers, each text once and cleaned."""
    for text in warning_texts(texts):
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        yield f'299 - "{quoted}"'


def add_warnings(response: web.StreamResponse, texts: list[str]) -> None:
    """Add warnings to a response that is sent in pieces."""
    for line in warning_lines(texts):
        response.headers.add("Warning", line)
