"""HTTP API of search: authenticates requests, and routes each to what answers it."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Any, Final

import structlog
from aiohttp import web
from aiohttp.web_request import BaseRequest

from schemas.manifest import Manifest
from services._kit.base import http_stop
from services._kit.base.health import Health
from services._kit.proxying.caller_exchange import BrokenAnswer
from services._kit.proxying.front_identity import Authenticator, Identity, Unauthenticated
from services.apiserver.core.request import parse_query, split_path
from services.apiserver.core.status_errors import ApiError, bad_request, no_such_path, unauthorized
from services.search.http.cache_answers import BadSearch, CacheAnswers
from services.search.http.query_answers import QueryAnswers
from services.search.index.member_index import MemberIndex
from services.search.metrics import SearchMetrics
from services.search.proxying.global_proxy import GlobalProxy
from services.search.proxying.view_ports import Caller
from services.search.settings import SearchSettings

GROUP: Final = "search.karmada.io"
OWN_GROUP: Final = "search.fleetlog.io"
"""The group of its own under which a control plane knows search."""
VERSION: Final = "v1alpha1"
GOODBYE_SECONDS: Final = 2.0
"""How long a stop waits for answers under way."""
_LONGEST_LINE: Final = 256 << 10
_LONGEST_URL: Final = 16 << 10
_ROOT: Final = ["apis", GROUP, VERSION]
_OWN: Final = ["apis", OWN_GROUP, VERSION]
_QUERIES: Final = [*_OWN, "objects"]


class SearchApi:
    """The server; `port` and `url` are known after `start`."""

    def __init__(
        self,
        settings: SearchSettings,
        tls: ssl.SSLContext | None,
        index: MemberIndex,
        proxy: GlobalProxy,
        health: Health,
        metrics: SearchMetrics,
    ) -> None:
        self._proxy = proxy
        self._settings = settings
        self._health = health
        self._metrics = metrics
        self._cache = CacheAnswers(index)
        self._queries = QueryAnswers(index)
        self._authenticator = Authenticator(settings, "search")
        self._tls = tls
        self._runner: web.ServerRunner | None = None
        self._underway = http_stop.Underway()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._log = structlog.get_logger(__name__)
        self.port = 0
        self.url = ""

    async def start(self) -> None:
        """Listen; raises OSError when the port is taken."""
        server = web.Server(self._handle, access_log=None, max_line_size=_LONGEST_LINE)
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
        """End what is under way, and stop listening."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._runner is not None:
            await http_stop.stop(self._runner, self._underway, GOODBYE_SECONDS)
            self._runner = None

    async def _handle(self, request: BaseRequest) -> web.StreamResponse:
        """Answer one request; never raises."""
        with self._underway:
            return await self._answer(request)

    async def _answer(self, request: BaseRequest) -> web.StreamResponse:
        began, what = time.perf_counter(), "other"
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            parts = split_path(request.rel_url.raw_path)
            if parts and parts[0] in ("healthz", "livez", "readyz"):
                return self._healthy(parts[0])
            identity = self._identify(request)
            what = _what(parts)
            response = await self._routed(request, parts, identity)
        except BadSearch as error:
            response = _error(400, str(error)) if what != "query" else _refused(bad_request(str(error)))
        except ApiError as failure:
            response = _refused(failure)
        except ConnectionError:
            return BrokenAnswer(request)
        except Exception as error:  # noqa: BLE001 - a bug in one answer is reported to its client and ends nothing
            self._log.exception("request failed", method=request.method, path=request.path[:200])
            response = _error(500, f"{type(error).__name__}: {error}"[:500])
        finally:
            self._tasks.discard(task)
        self._metrics.requests.labels(what, str(response.status)).inc()
        if what != "proxying":
            # How long watches and connections last says nothing.
            self._metrics.seconds.labels(what).observe(time.perf_counter() - began)
        return response

    def _identify(self, request: BaseRequest) -> Identity:
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        try:
            return self._authenticator.identify(request.headers, certificate)
        except Unauthenticated as error:
            raise unauthorized(str(error)) from None

    def _healthy(self, which: str) -> web.Response:
        reasons = self._health.reasons() if which == "readyz" else {}
        if reasons:
            lines = [f"[-]{name} failed: {reason}" for name, reason in reasons.items()]
            return web.Response(text="\n".join([*lines, f"{which} check failed", ""]), status=500)
        return web.Response(text="ok")

    async def _routed(self, request: BaseRequest, parts: list[str], identity: Identity) -> web.StreamResponse:
        if parts[:3] == _ROOT and parts[3:4] == ["proxying"] and parts[5:6] == ["proxy"]:
            return await self._proxy.answer(request, Caller(identity.user, identity.groups))
        if (document := _document(parts)) is not None:
            return web.json_response(document)
        queried = parts == _QUERIES
        if not queried and (parts[:3] != _ROOT or len(parts) < 5 or parts[3] != "search"):
            raise no_such_path()
        if request.method not in ("GET", "HEAD"):
            return _error(405, f"{request.method} is not possible: objects of members are only read here")
        if len(self._tasks) - self._proxy.limits.under_way > self._settings.max_requests:
            return _error(429, "too many searches at once; try again", {"Retry-After": "1"})
        if len(request.rel_url.raw_path_qs) > _LONGEST_URL:
            raise BadSearch(f"the request has {len(request.rel_url.raw_path_qs)} characters, more than {_LONGEST_URL}")
        query = parse_query(request.rel_url.raw_query_string)
        if queried:
            return await self._queries.answer(query)
        match parts[4]:
            case "cache":
                return await self._cache.answer(request, parts[5:], query)
            case "opensearch":
                return _error(501, "OpenSearch is asked at its own address; search/cache answers from the index")
            case _:
                raise BadSearch(f"search/{parts[4][:100]} is no source; use search/cache")


def _error(code: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response({"error": text}, status=code, headers=headers)


def _refused(failure: ApiError) -> web.Response:
    return web.Response(
        body=failure.encode(), status=failure.code, content_type="application/json", headers=failure.headers
    )


def _what(parts: list[str]) -> str:
    """The kind of a request, for metrics; a path of a caller's own making is none."""
    known = {"cache": "cache", "opensearch": "opensearch"}
    if parts[:3] == _ROOT and len(parts) > 4:
        return known.get(parts[4], "other") if parts[3] == "search" else "proxying"
    return "query" if parts == _QUERIES else "other"


def _document(parts: list[str]) -> Manifest | None:
    """Discovery of the own group, as an API server asks for it before it sends requests on; None for other paths."""
    version = {"groupVersion": f"{OWN_GROUP}/{VERSION}", "version": VERSION}
    group: Manifest = {"name": OWN_GROUP, "versions": [version], "preferredVersion": version}
    if parts == _OWN[:1]:
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]}
    if parts == _OWN[:2]:
        return {"kind": "APIGroup", "apiVersion": "v1", **group}
    if parts == _OWN:
        found = {"name": "objects", "singularName": "object", "namespaced": False, "kind": "List", "verbs": ["list"]}
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": version["groupVersion"],
            "resources": [found],
        }
    return None
