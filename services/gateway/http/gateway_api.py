"""HTTP API of the gateway: parses requests, authenticates them, and routes each to its handler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote

import structlog
from aiohttp import web
from aiohttp.web_request import BaseRequest
from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.base.health import Health
from services.gateway.front.front import Asked, Front, is_own
from services.gateway.gateway_history import Histories
from services.gateway.http.collection_reads import Reader
from services.gateway.http.collection_watches import CollectionWatch, Watching
from services.gateway.metrics import GatewayMetrics
from services.gateway.protocol import openapi_documents as openapi
from services.gateway.protocol import served_resources as resources
from services.gateway.protocol import status_answers as answers
from services.gateway.protocol.front_auth import Authenticator, Identity, tls_of
from services.gateway.protocol.query_selectors import options_of
from services.gateway.protocol.served_resources import GROUP, Resource
from services.gateway.protocol.status_answers import Failure, form_of, no_such_path
from services.gateway.settings import GatewaySettings
from services.gateway.views.view_shapes import encode

GOODBYE_SECONDS: Final = 2.0
"""How long a stop waits for answers under way."""
_READING: Final = frozenset({"GET", "HEAD"})
_VERSION: Final[Manifest] = {
    "major": "1",
    "minor": "30",
    "gitVersion": "v1.30.0+fleetlog",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "cpython",
    "platform": "linux/amd64",
}
_PATHS: Final = ["/apis", f"/apis/{GROUP}", *(f"/apis/{GROUP}/{version}" for version in resources.VERSIONS)]
_OTHER_PATHS: Final = [
    "/fleetlog/v1/history",
    "/healthz",
    "/livez",
    "/openapi/v2",
    "/openapi/v3",
    "/readyz",
    "/version",
]


class RequestTarget(Struct, frozen=True):
    """What a resource path names; `name` is empty for the collection."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watch: bool = False


class Api:
    """The server; `port` and `url` are known after `start`."""

    def __init__(
        self,
        settings: GatewaySettings,
        reader: Reader,
        watching: Watching,
        histories: Histories,
        health: Health,
        metrics: GatewayMetrics,
        loaded: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._loaded = loaded
        self._reader = reader
        self._watching = watching
        self._histories = histories
        self._health = health
        self._metrics = metrics
        self._authenticator = Authenticator(settings)
        self._tls = tls_of(settings)
        self._front = Front(settings) if settings.upstream_url else None
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
            parts = [unquote(part) for part in request.rel_url.raw_path.split("/") if part]
            if parts and parts[0] in ("healthz", "livez", "readyz"):
                return self._healthy(parts[0])
            identity = self._identify(request)
            target = target_of(parts)
            if self._front is not None:
                if not is_own(parts):
                    response = await self._passed_on(self._front, request, parts, identity)
                    self._metrics.requests.labels(verb, "passed on", str(response.status)).inc()
                    return response
                await self._front.check(request, identity, _asked(request, target))
            if target is not None:
                resource = target.resource.plural
                response, verb = await self._resource(request, target)
            else:
                response = await self._other(request, parts, identity)
        except Failure as failure:
            response = _json(failure.encode(), failure.code)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - a bug in one answer is reported to its client and ends nothing
            self._log.exception("request failed", method=request.method, path=request.path)
            text = f"Internal error occurred: {type(error).__name__}: {error}"
            response = _json(Failure(500, "InternalError", text).encode(), 500)
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

    async def _resource(self, request: BaseRequest, target: RequestTarget) -> tuple[web.StreamResponse, str]:
        resource = target.resource
        if request.method not in _READING:
            raise answers.read_only(resource, request.method)
        if target.subresource not in ("", "status"):
            raise no_such_path()
        if resource.namespaced and target.name and not target.namespace:
            raise no_such_path()
        if not self._loaded():
            raise Failure(503, "ServiceUnavailable", "the log is still being read; try again", {"retryAfterSeconds": 1})
        form = form_of(request.headers.get("Accept", ""))
        query = request.rel_url.query
        if target.name and not target.watch:
            include = options_of(query).include
            body = await self._reader.get(resource, target.namespace, target.name, form, include)
            return _json(body), "get"
        options = options_of(query, target.namespace, target.name)
        if options.watch or target.watch:
            return await self._watch(request, CollectionWatch(resource, form, options)), "watch"
        return _json(await self._reader.listing(resource, form, options)), "list"

    async def _watch(self, request: BaseRequest, watch: CollectionWatch) -> web.StreamResponse:
        response = web.StreamResponse()
        media = "application/json"
        response.headers["Content-Type"] = f"{media};stream=watch" if watch.form.view else media
        response.enable_chunked_encoding()
        task = asyncio.current_task()
        assert task is not None
        self._watches.add(task)
        try:
            await response.prepare(request)
            async for chunk in self._watching.frames(watch):
                if request.transport is None or request.transport.is_closing():
                    break
                if chunk:
                    await response.write(chunk)
            await response.write_eof()
        except ConnectionError:
            self._log.debug("watch closed by its client", path=request.path)
        finally:
            self._watches.discard(task)
        return response

    async def _other(self, request: BaseRequest, parts: list[str], identity: Identity) -> web.Response:
        if request.method not in _READING:
            raise Failure(405, "MethodNotAllowed", f"{request.method} is not possible: the gateway only reads the log")
        if parts[:3] == ["fleetlog", "v1", "history"] and len(parts) == 6:
            self._log.info("history", user=identity.user, path=request.path)
            return _json(await self._histories.document(*parts[3:]))
        document = self._document(request, parts)
        if document is None:
            raise no_such_path()
        return document

    def _document(self, request: BaseRequest, parts: list[str]) -> web.Response | None:
        """Discovery, version and OpenAPI."""
        version = answers.discovery_version(request.headers.get("Accept", ""))
        match parts:
            case []:
                return _json(encode({"paths": sorted([*_PATHS, *_OTHER_PATHS])}))
            case ["version"]:
                return _json(encode(_VERSION))
            case ["api" | "apis" as root] if version:
                body = encode(resources.aggregated(version, core=root == "api"))
                media = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
                return web.Response(body=body, headers={"Content-Type": media})
            case ["api"]:
                return _json(encode({"kind": "APIVersions", "versions": [], "serverAddressByClientCIDRs": []}))
            case ["apis"]:
                return _json(encode(resources.group_list()))
            case ["apis", group] if group == GROUP:
                return _json(encode(resources.group()))
            case ["apis", group, name] if group == GROUP:
                found = resources.resource_list(name)
                return None if found is None else _json(encode(found))
            case ["openapi", "v2"]:
                return _json(openapi.v2())
            case ["openapi", "v3"]:
                return _json(openapi.v3_index())
            case ["openapi", "v3", "apis", group, name] if group == GROUP:
                body_of = openapi.v3(name)
                return None if body_of is None else _json(body_of)
        return None


def _asked(request: BaseRequest, target: RequestTarget | None) -> Asked:
    """What has to be allowed for a request of the gateway's own."""
    if target is None:
        return Asked("get", request.path)
    watches = target.watch or options_of(request.rel_url.query).watch
    verb = "watch" if watches else "get" if target.name else "list"
    place = (target.namespace, target.name, target.subresource)
    return Asked(verb, request.path, target.resource, *place)


def target_of(parts: list[str]) -> RequestTarget | None:
    """What a path names; None for one that is no resource of the gateway."""
    if len(parts) < 4 or parts[0] != "apis" or parts[1] != GROUP:
        return None
    version, rest = parts[2], parts[3:]
    watch = rest[0] == "watch" and len(rest) > 1
    if watch:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource = resources.BY_PATH.get((version, rest[0]))
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        return None
    name, subresource = (*rest[1:], "", "")[:2]
    return RequestTarget(resource, namespace, name, subresource, watch)


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")
