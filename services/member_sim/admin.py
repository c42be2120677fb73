"""The fault port: a small HTTP endpoint on loopback that sets and shows faults, loads and metrics of one member."""

import hmac
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from services._kit.base import http_stop
from services.member_sim.faults import ApiFault, NodeFault, PodFault, UnknownTarget, set_nodes, set_pods
from services.member_sim.loop import Loop
from services.member_sim.metrics import REGISTRY
from services.member_sim.usage.cluster_usage import ClusterUsage, PodLoad, TooManyLoads
from services.member_sim.usage.load_model import UnreadableLoad
from services.member_sim.usage.metric_values import MetricValues, UnreadableValue, WantedValue

log = structlog.get_logger(__name__)

T = TypeVar("T")
_CLOSING_SECONDS = 2.0
_OPEN = ("/healthz", "/metrics")


class Admin:
    """Serves /faults, /faults/pods, /faults/nodes, /load, /metric, and without the token /healthz and /metrics."""

    def __init__(
        self,
        loop: Loop,
        usage: ClusterUsage,
        values: MetricValues,
        token: str,
        set_api: Callable[[ApiFault], Awaitable[None]],
    ) -> None:
        self._loop = loop
        self._usage = usage
        self._values = values
        self._token = token.encode()
        self._set_api = set_api
        self._fault = ApiFault()
        self._runner: web.AppRunner | None = None
        self._underway = http_stop.Underway()
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
        app.router.add_get("/load", self._loads)
        app.router.add_post("/load", self._load)
        app.router.add_get("/metric", self._all_values)
        app.router.add_post("/metric", self._value)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await http_stop.stop(self._runner, self._underway, _CLOSING_SECONDS)

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if request.path not in _OPEN:
            given = request.headers.get("Authorization", "").removeprefix("Bearer ")
            if not self._token or not hmac.compare_digest(given.encode(), self._token):
                return _answer(401, {"error": "send the member's token as 'Authorization: Bearer <token>'"})
        try:
            with self._underway:
                return await handler(request)
        except msgspec.DecodeError as e:
            return _answer(400, {"error": f"the body cannot be used: {e}"})
        except UnknownTarget as e:
            return _answer(404, {"error": str(e)})
        except (UnreadableLoad, UnreadableValue, TooManyLoads) as e:
            return _answer(400, {"error": str(e)})

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

    async def _loads(self, _: web.Request) -> web.Response:
        return _answer(200, self._usage.shown())

    async def _load(self, request: web.Request) -> web.Response:
        wanted = await _body(request, PodLoad)
        self._usage.set(wanted)
        log.info("load", namespace=wanted.namespace, kind=wanted.kind, name=wanted.name)
        return _answer(200, self._usage.shown())

    async def _all_values(self, _: web.Request) -> web.Response:
        return _answer(200, self._values.shown())

    async def _value(self, request: web.Request) -> web.Response:
        wanted = await _body(request, WantedValue)
        self._values.set(wanted)
        log.info("metric", metric=wanted.metric, namespace=wanted.namespace, name=wanted.name)
        return _answer(200, self._values.shown())

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
