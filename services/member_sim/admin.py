"""The fault port: a small HTTP endpoint on loopback that sets and shows the faults of one member."""

import hmac
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from services.member_sim.faults import ApiFault, NodeFault, PodFault, UnknownTarget, set_nodes, set_pods
from services.member_sim.loop import Loop
from services.member_sim.metrics import REGISTRY

log = structlog.get_logger(__name__)

T = TypeVar("T")
_OPEN = ("/healthz", "/metrics")


class Admin:
    """Serves /faults, /faults/pods, /faults/nodes, and without the token /healthz and /metrics."""

    def __init__(self, loop: Loop, token: str, set_api: Callable[[ApiFault], Awaitable[None]]) -> None:
        self._loop = loop
        self._token = token.encode()
        self._set_api = set_api
        self._fault = ApiFault()
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def start(self, port: int) -> None:
        """Listen on loopback; port 0 takes a free one, see ``url``."""
        app = web.Application(middlewares=[self._guard])
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/faults", self._show)
        app.router.add_post("/faults", self._api)
        app.router.add_post("/faults/pods", self._pods)
        app.router.add_post("/faults/nodes", self._nodes)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if request.path not in _OPEN:
            given = request.headers.get("Authorization", "").removeprefix("Bearer ")
            if not self._token or not hmac.compare_digest(given.encode(), self._token):
                return _answer(401, {"error": "send the member's token as 'Authorization: Bearer <token>'"})
        try:
            return await handler(request)
        except msgspec.DecodeError as e:
            return _answer(400, {"error": f"the body cannot be used: {e}"})
        except UnknownTarget as e:
            return _answer(404, {"error": str(e)})

    async def _health(self, _: web.Request) -> web.Response:
        ready = self._loop.loaded.is_set()
        return _answer(200 if ready else 503, {"ready": ready})

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _show(self, _: web.Request) -> web.Response:
        return _answer(200, self._present())

    async def _api(self, request: web.Request) -> web.Response:
        fault = await _body(request, ApiFault)
        await self._set_api(fault)
        self._fault = fault
        log.info("api fault", mode=fault.mode, status=fault.status, delay_ms=fault.delay_ms, verbs=fault.verbs)
        return _answer(200, self._present())

    async def _pods(self, request: web.Request) -> web.Response:
        fault = await _body(request, PodFault)
        self._loop.mark(set_pods(self._loop.state, fault))
        log.info("pod fault", namespace=fault.namespace, kind=fault.kind, name=fault.name, crash=fault.crash)
        return _answer(200, self._present())

    async def _nodes(self, request: web.Request) -> web.Response:
        fault = await _body(request, NodeFault)
        self._loop.mark(set_nodes(self._loop.state, fault))
        log.info("node fault", names=fault.names, ready=fault.ready)
        return _answer(200, self._present())

    def _present(self) -> dict[str, Any]:
        state = self._loop.state
        return {
            "api": self._fault,
            "nodesNotReady": sorted(state.down),
            "crashing": [f"{kind}/{namespace}/{name}" for namespace, kind, name in sorted(state.crashing)],
        }


async def _body(request: web.Request, kind: type[T]) -> T:
    return msgspec.json.decode(await request.read() or b"{}", type=kind)


def _answer(code: int, body: Any) -> web.Response:
    return web.Response(status=code, body=msgspec.json.encode(body), content_type="application/json")
