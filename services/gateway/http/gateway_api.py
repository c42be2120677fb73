"""HTTP API of the gateway: parses requests, authenticates them, and routes each to its handler."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any, Final

import structlog
from aiohttp import web
from aiohttp.web_request import BaseRequest

from schemas.manifest import Manifest
from services._kit.base.health import Health
from services.apiserver.core.request import ListOptions, RequestInfo, parse_query, split_path, truth, version_document
from services.apiserver.core.status_errors import ApiError, no_such_path
from services.apiserver.openapi.serve import OpenApi
from services.apiserver.reads.negotiation import discovery_media, discovery_version, negotiate, not_acceptable
from services.apiserver.reads.watch_stream import send_watch, watch_response
from services.gateway.front.front import Asked, Front, is_own
from services.gateway.gateway_history import Histories
from services.gateway.http.collection_reads import Reader
from services.gateway.metrics import GatewayMetrics
from services.gateway.protocol.front_auth import Authenticator, Identity, tls_of
from services.gateway.protocol.rendered_views import FactView
from services.gateway.protocol.served_kinds import VERSIONS, ServedKind, served, target_of
from services.gateway.settings import GatewaySettings
from services.gateway.views.view_shapes import GROUP, encode

GOODBYE_SECONDS: Final = 2.0
"""How long a stop waits for answers under way."""
LIFETIME: Final = (1800.0, 3600.0)
"""Seconds after which a watch without a time of its own ends; drawn from this range so that not all return at once."""
RELEASE: Final = "v1.30.0+fleetlog"
_READING: Final = frozenset({"GET", "HEAD"})
_PATHS: Final = ["/apis", f"/apis/{GROUP}", *(f"/apis/{GROUP}/{version}" for version in VERSIONS)]
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
        reader: Reader,
        histories: Histories,
        health: Health,
        metrics: GatewayMetrics,
        loaded: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._loaded = loaded
        self._reader = reader
        self._registry = served()
        self._openapi = OpenApi(self._registry, RELEASE)
        self._histories = histories
        self._health = health
        self._metrics = metrics
        self._authenticator = Authenticator(settings)
        self._tls = tls_of(settings)
        self._front = Front(settings, self._registry, self._openapi) if settings.upstream_url else None
        self._runner: web.ServerRunner | None = None
        self._watches: set[asyncio.Task[Any]] = set()
        self._log = structlog.get_logger(__name__)
        self.port = 0
        self.url = ""

    async def start(self) -> None:
        """Listen; raises OSError when the port is taken."""
        if self._front is not None:
            await self._front.start()
        server = web.Server(self._handle, access_log=None)
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
        """End watches and stop listening."""
        for task in list(self._watches):
            task.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        if self._front is not None:
            await self._front.stop()

    async def _handle(self, request: BaseRequest) -> web.StreamResponse:
        """Answer one request; never raises."""
        began = time.perf_counter()
        verb, resource = request.method.lower(), ""
        try:
            parts = split_path(request.rel_url.raw_path)
            query = parse_query(request.rel_url.raw_query_string)
            if parts and parts[0] in ("healthz", "livez", "readyz"):
                return self._healthy(parts[0])
            identity = self._identify(request)
            target = target_of(self._registry, parts)
            if self._front is not None:
                if not is_own(parts):
                    response = await self._passed_on(self._front, request, parts, identity)
                    self._metrics.requests.labels(verb, "passed on", str(response.status)).inc()
                    return response
                await self._front.check(request, identity, _asked(request.path, query, target))
            if target is not None:
                resource = target[0].resource.plural
                response, verb = await self._resource(request, query, *target)
            else:
                response = await self._other(request, parts, identity)
        except ApiError as failure:
            response = _json(failure.encode(), failure.code)
        except (ConnectionError, asyncio.CancelledError):
            raise
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
        return self._authenticator.identify(request.headers, certificate)

    async def _passed_on(
        self, front: Front, request: BaseRequest, parts: list[str], identity: Identity
    ) -> web.StreamResponse:
        """Let the control plane answer; a stop of the gateway ends it."""
        task = asyncio.current_task()
        assert task is not None
        self._watches.add(task)
        try:
            return await front.answer(request, identity, parts)
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
        document = self._document(request, parts)
        if document is None:
            raise no_such_path()
        return document

    def _document(self, request: BaseRequest, parts: list[str]) -> web.Response | None:
        """Discovery, version and OpenAPI."""
        accept, registry = request.headers.get("Accept", ""), self._registry
        version = discovery_version(accept)
        found: Manifest | None = None
        match parts:
            case []:
                found = {"paths": sorted([*_PATHS, *_OTHER_PATHS])}
            case ["version"]:
                found = version_document(RELEASE)
            case ["api" | "apis" as root] if version:
                body = encode(registry.aggregated(core=root == "api", version=version))
                return web.Response(body=body, headers={"Content-Type": discovery_media(version)})
            case ["api"]:
                found = registry.api_versions()
            case ["apis"]:
                found = registry.api_group_list()
            case ["apis", group]:
                found = registry.api_group(group)
            case ["apis", group, name]:
                found = registry.api_resource_list(group, name)
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


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")
