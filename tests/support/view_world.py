"""The global proxy in front of embedded API servers: a control plane, members that are followed, and callers."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.web_request import BaseRequest
from yarl import URL

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError as ApiRefusal
from services._kit.kube.client import KubeClient
from services._kit.proxying.caller_limits import CallerBounds, CallerLimits
from services._kit.proxying.member_directory import MemberAddress, MemberDirectory
from services._kit.proxying.member_exchange import Exchange, MemberRequest, MemberTransport, MemberUnknown
from services._kit.proxying.push_transport import PushTransport
from services._rules.proxying import sent_back
from services._rules.proxying.inner_requests import inner_path
from services.apiserver.core.request_context import Identity
from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from services.search.followers.member_follower import MemberFollower
from services.search.index.member_index import MemberIndex
from services.search.proxying.carried_requests import Way, carry
from services.search.proxying.global_proxy import GlobalProxy
from services.search.proxying.index_view import IndexAtHand, SelectedKinds
from services.search.proxying.view_ports import Caller
from services.search.registries.coverage import Coverage
from services.search.registries.member_facts import Gvr, MemberFacts
from services.search.registries.wanted_kinds import Wanted
from services.search.union.resource_names import asked_for
from tests.support.control_plane_transport import ControlPlaneTransport
from tests.support.waiting import eventually

PODS = Gvr("", "v1", "pods")
CONFIG_MAPS = Gvr("", "v1", "configmaps")
PREFIX = "/apis/search.karmada.io/v1alpha1/proxying/karmada/proxy"
ADMIN = Caller("admin", ("system:masters",))
_IMPERSONATOR = "impersonator"
_KINDS = {PODS: "Pod", CONFIG_MAPS: "ConfigMap"}


class Directory(MemberDirectory):
    """The addresses of members, as a test says."""

    def __init__(self) -> None:
        self.addresses: dict[str, MemberAddress] = {}

    async def address(self, name: str) -> MemberAddress:
        """The address of a member; raises MemberUnknown."""
        if name not in self.addresses:
            raise MemberUnknown(f"cluster {name} does not exist")
        return self.addresses[name]

    def forget(self, name: str) -> None:
        """Addresses stay as they are."""


class Carried:
    """Carries requests as another transport does, and counts the exchanges that are open."""

    def __init__(self, transport: MemberTransport) -> None:
        self._transport = transport
        self.open_now: set[Exchange] = set()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.open_now)

    async def open(self, request: MemberRequest, body: AsyncIterator[bytes] | None = None) -> Exchange:
        """Send a request."""
        exchange = await self._transport.open(request, body)
        self.open_now.add(exchange)
        close = exchange.close

        async def closing() -> None:
            self.open_now.discard(exchange)
            await close()

        exchange.close = closing  # type: ignore[method-assign]  # the same object counts itself out
        return exchange


class Member:
    """One member: its server, a client of its administrator, and the client by which it is followed."""

    def __init__(self, name: str, server: ApiServer, client: KubeClient) -> None:
        self.name = name
        self.server = server
        self.client = client


class ViewWorld:
    """A proxy at `url`; members that are added are followed and selected for pods and config maps."""

    def __init__(self, stack: AsyncExitStack, directory: Path) -> None:
        self._stack = stack
        self._folder = directory
        self.directory = Directory()
        self.index = MemberIndex()
        self.coverage = Coverage()
        self.facts: dict[str, MemberFacts] = {}
        """Of pull members only; others are push members."""
        self.taking: set[str] = set()
        """Pull members that take requests."""
        self.members: dict[str, Member] = {}
        self.callers: dict[str, Caller] = {"admin": ADMIN}
        self.control: KubeClient
        self.proxy: GlobalProxy
        self.carried: Carried
        self.url = ""
        self.session: aiohttp.ClientSession

    async def start(self) -> None:
        """Start the control plane and the proxy."""
        self.control, _ = await self._server("control", "AlwaysAllow")
        push = PushTransport(self.directory)
        self._stack.push_async_callback(push.close)
        self.carried = Carried(push)
        selected = SelectedKinds(self.coverage, lambda: self.facts, tuple, self.taking.__contains__)
        self.proxy = GlobalProxy(
            selected,
            IndexAtHand(self.index),
            self.carried,
            self.carried,
            lambda: dt.datetime.now(dt.UTC),
            CallerLimits(CallerBounds(8, 4, 12)),
        )
        runner = web.ServerRunner(web.Server(self._handle, max_line_size=256 << 10), shutdown_timeout=0.1)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        self.session = await self._stack.enter_async_context(aiohttp.ClientSession())

    async def _server(self, name: str, authorization: str) -> tuple[KubeClient, ApiServer]:
        masters = Identity("root", "root", ("system:masters",))
        settings = Settings(
            data_dir=self._folder / name,
            tokens={"root": masters, _IMPERSONATOR: masters},
            tls=False,
            controllers=False,
            authorization=authorization,
        )
        server = ApiServer(MemoryStore(), builtin_registry(), settings)
        await server.start()
        self._stack.push_async_callback(server.stop)
        client = KubeClient.from_token(server.url, "root")
        self._stack.push_async_callback(client.close)
        return client, server

    async def add_member(self, name: str, authorization: str = "AlwaysAllow") -> Member:
        """Start a member, follow it, and select its pods and config maps once they are known."""
        client, server = await self._server(name, authorization)
        member = self.members[name] = Member(name, server, client)
        self.directory.addresses[name] = MemberAddress(name, server.url, _IMPERSONATOR, "a Secret")

        async def opener() -> KubeClient:
            return KubeClient.from_token(server.url, "root")

        follower = MemberFollower(name, opener, lambda: "", self.index, 1 << 30)
        self._stack.push_async_callback(follower.close)
        wanted = {gvr: Wanted(gvr, kind) for gvr, kind in _KINDS.items()}
        follower.want(wanted)
        await eventually(lambda: follower.kinds == len(wanted))
        self.coverage.become(name, wanted)
        return member

    def address_of(self, name: str, url: str) -> None:
        """A member that is at another place, and not followed."""
        self.directory.addresses[name] = MemberAddress(name, url, _IMPERSONATOR, "a Secret")
        self.coverage.become(name, {gvr: Wanted(gvr, kind) for gvr, kind in _KINDS.items()})

    async def create(self, member: str, manifest: Manifest) -> Manifest:
        """Create an object in a member, and wait until it is in the index."""
        namespace, name = manifest["metadata"].get("namespace", "default"), manifest["metadata"]["name"]
        plural = {"Pod": "pods", "ConfigMap": "configmaps"}[manifest["kind"]]
        await self.namespace(member, namespace)
        made = await self.members[member].client.create(f"/api/v1/namespaces/{namespace}/{plural}", manifest)
        at_hand = IndexAtHand(self.index)
        await eventually(lambda: at_hand.find(member, Gvr("", "v1", plural), namespace, name) is not None)
        return made

    async def namespace(self, member: str, name: str) -> None:
        """Make a namespace in a member, unless it is there."""
        with suppress(ApiRefusal):
            await self.members[member].client.create("/api/v1/namespaces", {"metadata": {"name": name}})

    async def _handle(self, request: BaseRequest) -> web.StreamResponse:
        caller = self.callers[request.headers.get("Authorization", "Bearer admin").removeprefix("Bearer ")]
        try:
            found = await self.proxy.answer(request, caller)
            if sent_back.HEADER not in found.headers:
                return found
            # What the API server does that sent the request on.
            path = inner_path(request.rel_url.raw_path, PREFIX.count("/"))
            asked = asked_for(request.method, path, request.rel_url.raw_query_string)
            way = Way(ControlPlaneTransport(self.control), "", "the control plane", PREFIX)
            return await carry(request, asked, caller, way)
        except ApiError as error:
            return web.Response(body=error.encode(), status=error.code, content_type="application/json")

    async def ask(
        self, method: str, path: str, body: Any = None, *, status: int = 200, user: str = "admin", **headers: str
    ) -> Any:
        """One request through the proxy; the decoded answer."""
        sent = {"Authorization": f"Bearer {user}", **{name.replace("_", "-"): value for name, value in headers.items()}}
        url = URL(self.url + PREFIX + path, encoded=True)
        async with self.session.request(method, url, json=body, headers=sent) as answer:
            text = await answer.text()
            assert answer.status == status, text
            return await answer.json() if answer.content_type == "application/json" else text

    async def get(self, path: str, **options: Any) -> Any:
        """One read through the proxy."""
        return await self.ask("GET", path, **options)


def pod(name: str, namespace: str = "default", **labels: str) -> Manifest:
    """A pod with a container."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "nginx:1.27"}]},
    }


def config_map(name: str, namespace: str = "default", **data: str) -> Manifest:
    """A config map."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@asynccontextmanager
async def view_world(directory: Path, *members: str) -> AsyncIterator[ViewWorld]:
    """A world with these members, until the end of the block."""
    async with AsyncExitStack() as stack:
        world = ViewWorld(stack, directory)
        await world.start()
        await asyncio.gather(*(world.add_member(name) for name in members))
        yield world
