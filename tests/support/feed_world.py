"""The global proxy over an index that a test fills itself: members that only say who may watch."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.web_request import BaseRequest

from schemas.manifest import Manifest
from services._kit.proxying.caller_limits import CallerBounds, CallerLimits
from services._kit.proxying.member_exchange import MemberRequest
from services.apiserver.core.status_errors import ApiError
from services.search.index.member_index import MemberIndex
from services.search.index.member_part import key_of
from services.search.proxying.global_proxy import GlobalProxy
from services.search.proxying.index_view import IndexAtHand, SelectedKinds
from services.search.proxying.view_ports import Caller
from services.search.registries.coverage import Coverage
from services.search.registries.member_facts import Gvr
from services.search.registries.wanted_kinds import Wanted

MAPS = Gvr("", "v1", "configmaps")
PREFIX = "/apis/search.karmada.io/v1alpha1/proxying/karmada/proxy"
PATH = f"{PREFIX}/api/v1/configmaps"


class Permitted:
    """The answer of a member that lets a caller watch; nothing comes of it."""

    status = 200
    headers = (("Content-Type", "application/json"),)

    async def read(self) -> bytes:
        return b""

    async def write(self, data: bytes) -> None:
        raise AssertionError("nothing is written")

    async def close(self) -> None:
        pass


class Members:
    """Counts what members are asked."""

    def __init__(self) -> None:
        self.requests: list[MemberRequest] = []

    async def open(self, request: MemberRequest, body: AsyncIterator[bytes] | None = None) -> Permitted:
        self.requests.append(request)
        return Permitted()


class FeedWorld:
    """Config maps of members, each with versions of its own that begin far apart."""

    def __init__(self, clusters: int, *, watchers: int = 100) -> None:
        self.index = MemberIndex()
        self.shelf = self.index.shelf(MAPS)
        self.members = Members()
        self.coverage = Coverage()
        self.clusters = [f"member{number}" for number in range(clusters)]
        self.url = ""
        self._versions = {cluster: 1000 * (number + 1) for number, cluster in enumerate(self.clusters)}
        for cluster in self.clusters:
            self.list(cluster)
            self.coverage.become(cluster, {MAPS: Wanted(MAPS, "ConfigMap")})
        selected = SelectedKinds(self.coverage, dict, tuple, frozenset[str]().__contains__)
        now = dt.datetime.now(dt.UTC)
        limits = CallerLimits(CallerBounds(watchers, watchers, 2 * watchers))
        self.proxy = GlobalProxy(selected, IndexAtHand(self.index), self.members, self.members, lambda: now, limits)

    def list(self, cluster: str, *names: str) -> None:
        """Show a member's list."""
        part = self.shelf.new_part(cluster, "ConfigMap")
        for name in names:
            made = self._made(cluster, name, {}, {})
            part.put(key_of("default", name), self.shelf.pack(cluster, made))
        part.version = str(self._versions[cluster])
        self.shelf.show(part)

    def put(self, cluster: str, name: str, labels: Mapping[str, str] | None = None, **data: str) -> int:
        """Make or change an object; its version."""
        part = self.shelf.parts[cluster]
        made = self._made(cluster, name, labels or {}, data)
        part.version = str(self._versions[cluster])
        self.shelf.put(part, key_of("default", name), self.shelf.pack(cluster, made))
        return self._versions[cluster]

    def drop(self, cluster: str, name: str) -> int:
        """Delete an object; the version of that."""
        part = self.shelf.parts[cluster]
        made = self._made(cluster, name, {}, {})
        part.version = str(self._versions[cluster])
        self.shelf.drop(part, key_of("default", name), self.shelf.pack(cluster, made))
        return self._versions[cluster]

    def reach(self, cluster: str) -> int:
        """A bookmark of a member; its version."""
        self._versions[cluster] += 7
        part = self.shelf.parts[cluster]
        part.version = str(self._versions[cluster])
        self.shelf.reached(part)
        return self._versions[cluster]

    def _made(self, cluster: str, name: str, labels: Mapping[str, str], data: Mapping[str, str]) -> Manifest:
        self._versions[cluster] += 1
        version = str(self._versions[cluster])
        metadata: dict[str, Any] = {"name": name, "namespace": "default", "resourceVersion": version}
        metadata |= {"uid": f"{cluster}-{name}", "labels": dict(labels)}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}

    async def serve(self, stack: AsyncExitStack) -> None:
        """Listen until the stack ends."""
        runner = web.ServerRunner(web.Server(self._handle, max_line_size=256 << 10), shutdown_timeout=0.1)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"

    async def _handle(self, request: BaseRequest) -> web.StreamResponse:
        caller = Caller(request.headers.get("User", "ann"), ("readers",))
        try:
            return await self.proxy.answer(request, caller)
        except ApiError as error:
            return web.Response(body=error.encode(), status=error.code, content_type="application/json")


@asynccontextmanager
async def feed_world(clusters: int = 3) -> AsyncIterator[tuple[FeedWorld, aiohttp.ClientSession]]:
    """A world that is served, and a client of it."""
    async with AsyncExitStack() as stack:
        world = FeedWorld(clusters)
        await world.serve(stack)
        yield world, await stack.enter_async_context(aiohttp.ClientSession())
