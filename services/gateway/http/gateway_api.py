"""HTTP API of the gateway: parses requests, authenticates them, and routes each to its handler."""

from __future__ import annotations

import asyncio
import random
import ssl
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog
from aiohttp import web
from aiohttp.web_request import BaseRequest

from schemas.manifest import Manifest
from services._kit.base import http_stop
from services._kit.base.health import Health
from services._kit.proxying.caller_exchange import BrokenAnswer
from services._kit.proxying.caller_limits import TooManyRequests
from services._kit.proxying.front_identity import Authenticator, Identity, Unauthenticated
from services._rules.metrics.metric_questions import VERSIONS as MEASURED
from services.apiserver.core.request import ListOptions, RequestInfo, parse_query, split_path, truth, version_document
from services.apiserver.core.status_errors import ApiError, no_such_path, too_many_requests, unauthorized
from services.apiserver.openapi.serve import OpenApi
from services.apiserver.reads.negotiation import discovery_media, discovery_version, negotiate, not_acceptable
from services.apiserver.reads.watch_stream import send_watch, watch_response
from services.gateway.front.caller_reviews import CallerReviews
from services.gateway.front.front import Asked, Front, is_own
from services.gateway.front.search_door import SearchDoor
from services.gateway.gateway_history import Histories
from services.gateway.http.collection_reads import Reader
from services.gateway.member_metrics.metric_documents import GatewayGroups, usage_kinds
from services.gateway.member_metrics.metrics_door import MetricsDoor
from services.gateway.member_metrics.served_metrics import ServedMetrics
from services.gateway.members.member_door import MemberDoor
from services.gateway.metrics import GatewayMetrics
from services.gateway.protocol.rendered_views import FactView
from services.gateway.protocol.served_kinds import VERSIONS, ServedKind, served, target_of
from services.gateway.settings import GatewaySettings
from services.gateway.views.view_shapes import GROUP, encode

GOODBYE_SECONDS: Final = 2.0
"""How long a stop waits for answers under way."""
LIFETIME: Final = (1800.0, 3600.0)
"""Seconds after which a watch without a time of its own ends; drawn from this range so that not all return at once."""
RELEASE: Final = "v1.36.0+fleetlog"
_READING: Final = frozenset({"GET", "HEAD"})
_SERVED: Final = {GROUP: VERSIONS, **MEASURED}
_PATHS: Final = [
    "/apis",
    *(f"/apis/{group}" for group in _SERVED),
    *(f"/apis/{group}/{version}" for group, versions in _SERVED.items() for version in versions),
]
_OTHER_PATHS: Final = [
    "/fleetlog/v1/history",
    "/healthz",
    "/livez",
    "/openapi/v2",
    "/openapi/v3",
    "/readyz",
    "/version",
]


class Api:
    """The server; `port` and `url` are known after `start`."""

    def __init__(
        self,
        settings: GatewaySettings,
        tls: ssl.SSLContext | None,
        reader: Reader,
        histories: Histories,
        health: Health,
        metrics: GatewayMetrics,
        loaded: Callable[[], bool],
        members: Callable[[Front | None], MemberDoor],
        measured: Callable[[CallerReviews], MetricsDoor],
        served_metrics: ServedMetrics | None,
    ) -> None:
        self._settings = settings
        self._loaded = loaded
        self._reader = reader
        self._registry = served(usage_kinds())
        self._openapi = OpenApi(self._registry, RELEASE)
        self._histories = histories
        self._health = health
        self._metrics = metrics
        self._authenticator = Authenticator(settings, "gateway", passes_on=bool(settings.upstream_url))
        self._tls = tls
        self._groups = GatewayGroups(self._registry, served_metrics)
        self._front = Front(settings, self._registry, self._openapi, self._groups) if settings.upstream_url else None
        self.members = members(self._front)
        self._measured = measured(self.members.reviews)
        self._search = SearchDoor(settings, self.members.reviews, self._front) if settings.search_url else None
        self._runner: web.ServerRunner | None = None
        self._underway = http_stop.Underway()
        self._watches: set[asyncio.Task[Any]] = set()
        self._log = structlog.get_logger(__name__)
        self.port = 0
        self.url = ""

    async def start(self) -> None:
        """Listen; raises OSError when the port is taken."""
        if self._front is not None:
            await self._front.start()
        if self._search is not None:
            await self._search.start()
        # What is handed on to a member goes as it came, and ends with the connection of its caller.
        server = web.Server(self._handle, access_log=None, auto_decompress=False, handler_cancellation=True)
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=GOODBYE_SECONDS)
        await self._runner.setup()
        settings = self._settings
        site = web.TCPSite(
            self._runner, settings.api_host, settings.api_port, ssl_context=self._tls, backlog=1024, reuse_address=True
        )
        await site.start()
        for address in self._runner.addresses:
            self.port = address[1]
        self.url = f"{'https' if self._tls else 'http'}://{settings.api_host}:{self.port}"

    async def stop(self) -> None:
        """End watches, answer what is under way, and stop listening."""
        for task in list(self._watches):
            task.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        if self._runner is not None:
            await http_stop.stop(self._runner, self._underway, GOODBYE_SECONDS)
            self._runner = None
        if self._front is not None:
            await self._front.stop()
        if self._search is not None:
            await self._search.stop()

    async def _handle(self, request: BaseRequest) -> web.StreamResponse:
        """Answer one request; never raises."""
        with self._underway:
            return await self._answer(request)

    async def _answer(self, request: BaseRequest) -> web.StreamResponse:
        began = time.perf_counter()
        verb, resource = request.method.lower(), ""
        try:
            parts = split_path(request.rel_url.raw_path)
            query = parse_query(request.rel_url.raw_query_string)
            if parts and parts[0] in ("healthz", "livez", "readyz"):
                return self._healthy(parts[0])
            identity = self._identify(request)
            if self.members.concerns(parts):
                response = await self._kept(self.members.answer(request, query, identity, parts))
                self._metrics.requests.labels(verb, "clusters/proxy", str(response.status)).inc()
                return response
            if self._search is not None and self._search.concerns(parts):
                response = await self._kept(self._search.answer(request, identity, parts))
                self._metrics.requests.labels(verb, "search", str(response.status)).inc()
                return response
            if self._measured.concerns(parts):
                response = await self._measured.answer(request, query, identity, parts)
                self._metrics.requests.labels(verb, parts[1], str(response.status)).inc()
                return response
            target = target_of(self._registry, parts)
            if self._front is not None:
                if not is_own(parts):
                    response = await self._kept(self._front.answer(request, identity, parts))
                    self._metrics.requests.labels(verb, "passed on", str(response.status)).inc()
                    return response
                await self._front.check(request, identity, _asked(request.path, query, target))
            if target is not None:
                resource = target[0].resource.plural
                response, verb = await self._resource(request, query, *target)
            else:
                response = await self._other(request, parts, identity)
        except ApiError as failure:
            response = _refused(failure)
        except TooManyRequests as error:
            response = _refused(too_many_requests(str(error)))
        except ConnectionError:
            return BrokenAnswer(request)
        except Exception as error:  # noqa: BLE001 - a bug in one answer is reported to its client and ends nothing
            self._log.exception("request failed", method=request.method, path=request.path)
            text = f"Internal error occurred: {type(error).__name__}: {error}"
            response = _json(ApiError(500, "InternalError", text).encode(), 500)
        self._metrics.requests.labels(verb, resource, str(response.status)).inc()
        if verb != "watch":
            self._metrics.seconds.labels(verb).observe(time.perf_counter() - began)
        return response

    def _identify(self, request: BaseRequest) -> Identity:
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        try:
            return self._authenticator.identify(request.headers, certificate)
        except Unauthenticated as error:
            raise unauthorized(str(error)) from None

    async def _kept(self, answer: Coroutine[Any, Any, web.StreamResponse]) -> web.StreamResponse:
        """An answer that another server gives; a stop of the gateway ends it."""
        task = asyncio.current_task()
        assert task is not None
        self._watches.add(task)
        try:
            return await answer
        finally:
            self._watches.discard(task)

    def _healthy(self, which: str) -> web.Response:
        reasons = self._health.reasons() if which == "readyz" else {}
        if reasons:
            lines = [f"[-]{name} failed: {reason}" for name, reason in reasons.items()]
            return web.Response(text="\n".join([*lines, f"{which} check failed", ""]), status=500)
        return web.Response(text="ok")

    async def _resource(
        self, request: BaseRequest, query: dict[str, str], kind: ServedKind, info: RequestInfo
    ) -> tuple[web.StreamResponse, str]:
        if request.method not in _READING:
            raise kind.read_only(request.method)
        if info.subresource not in ("", "status"):
            raise no_such_path()
        if kind.resource.namespaced and info.name and not info.namespace:
            raise no_such_path()
        if not self._loaded():
            text = "the log is still being read; try again"
            raise ApiError(503, "ServiceUnavailable", text, {"retryAfterSeconds": 1})
        form = negotiate(request.headers.get("Accept", ""))
        if form is None or form.yaml:
            raise not_acceptable(("application/json",))
        view = FactView(kind, form, query, self._reader.table, self._reader.encoder)
        if info.name and not info.watch_prefix:
            return _json(await self._reader.get(info, view)), "get"
        options = ListOptions(query)
        options.watch = options.watch or info.watch_prefix
        options.check()
        if not options.watch:
            return _json(await self._reader.listing(info, view, options)), "list"
        watch = await self._reader.watching(info, view, options)
        frames = self._reader.frames(watch, options.timeout or random.uniform(*LIFETIME))
        return await send_watch(request, watch_response(view), frames, self._watches), "watch"

    async def _other(self, request: BaseRequest, parts: list[str], identity: Identity) -> web.Response:
        if request.method not in _READING:
            raise ApiError(405, "MethodNotAllowed", f"{request.method} is not possible: the gateway only reads the log")
        if parts[:3] == ["fleetlog", "v1", "history"] and len(parts) == 6:
            self._log.info("history", user=identity.user, path=request.path)
            return _json(await self._histories.document(*parts[3:]))
        document = await self._document(request, parts)
        if document is None:
            raise no_such_path()
        return document

    async def _document(self, request: BaseRequest, parts: list[str]) -> web.Response | None:
        """Discovery, version and OpenAPI."""
        accept, groups = request.headers.get("Accept", ""), self._groups
        version = discovery_version(accept)
        found: Manifest | None = None
        match parts:
            case []:
                found = {"paths": sorted([*_PATHS, *_OTHER_PATHS])}
            case ["version"]:
                found = version_document(RELEASE)
            case ["api" | "apis" as root] if version:
                core = root == "api"
                shown = self._registry.aggregated(core=True, version=version) if core else None
                body = encode(shown or await groups.aggregated(version))
                return web.Response(body=body, headers={"Content-Type": discovery_media(version)})
            case ["api"]:
                found = self._registry.api_versions()
            case ["apis"]:
                found = groups.group_list()
            case ["apis", group]:
                found = groups.group(group)
            case ["apis", group, name]:
                found = await groups.resource_list(group, name)
            case ["openapi", *_]:
                document = self._openapi.find("/".join(parts), accept)
                if document is not None:
                    return web.Response(body=document.body, headers={"Content-Type": document.media})
            case _:
                pass
        return None if found is None else _json(encode(found))


def _asked(path: str, query: dict[str, str], target: tuple[ServedKind, RequestInfo] | None) -> Asked:
    """What has to be allowed for a request of the gateway's own."""
    if target is None:
        return Asked("get", path)
    kind, info = target
    watches = info.watch_prefix or truth(query.get("watch"))
    verb = "watch" if watches else "get" if info.name else "list"
    return Asked(verb, path, kind.resource, info.namespace, info.name, info.subresource)


def _refused(failure: ApiError) -> web.Response:
    response = _json(failure.encode(), failure.code)
    response.headers.update(failure.headers or {})
    return response


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")
