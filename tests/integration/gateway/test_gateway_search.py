"""Before an outside control plane the gateway hands searches on, for callers who may search, under their names."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest
from aiohttp import web

CACHE = "/apis/search.karmada.io/v1alpha1/search/cache/apis/apps/v1/deployments?labelSelector=a%3Db"
OBJECTS = "/apis/search.fleetlog.io/v1alpha1/objects?query=kind%3DPod"
PROXY = "/apis/search.karmada.io/v1alpha1/proxying/karmada/proxy/api/v1/pods"


class Server:
    """An HTTP server that writes down what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], list[str], bytes]] = []
        self.allowed = True
        self.url = ""

    @property
    def paths(self) -> list[str]:
        return [path.partition("?")[0] for path, *_ in self.asked]

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        groups = request.headers.getall("X-Remote-Group", [])
        self.asked.append((request.path_qs, dict(request.headers), groups, body))
        if request.path.endswith("selfsubjectreviews"):
            user = {"username": "ann", "groups": ["admins", "system:authenticated"]}
            return web.json_response({"status": {"userInfo": user}}, status=201)
        if request.path.endswith("accessreviews"):
            return web.json_response({"status": {"allowed": self.allowed}}, status=201)
        return web.json_response({"from": self.url})


@pytest.fixture
async def servers() -> AsyncIterator[tuple[Server, Server]]:
    """A control plane, and search."""
    async with AsyncExitStack() as stack:
        made = []
        for _ in range(2):
            server = Server()
            app = web.Application()
            app.router.add_route("*", "/{path:.*}", server.handle)
            runner = web.AppRunner(app)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0][:2]
            server.url = f"http://{host}:{port}"
            made.append(server)
        yield made[0], made[1]


async def ask(start_gateway: Any, servers: tuple[Server, Server], path: str, **headers: str) -> tuple[int, Any]:
    plane, search = servers
    gateway = await start_gateway(token_file="", upstream_url=plane.url, search_url=search.url)
    async with (
        aiohttp.ClientSession() as session,
        session.get(gateway.api.url + path, headers={"Authorization": "Bearer mine", **headers}) as answer,
    ):
        return answer.status, await answer.json()


@pytest.mark.parametrize(
    ("path", "attributes"),
    [
        (CACHE, {"resource": "search", "name": "cache", "subresource": "apis", "verb": "get"}),
        (OBJECTS, {"resource": "objects", "verb": "list"}),
        (PROXY, {"resource": "proxying", "name": "karmada", "subresource": "proxy", "verb": "get"}),
    ],
)
async def test_search_is_asked_in_the_callers_name(
    start_gateway: Any, servers: tuple[Server, Server], path: str, attributes: dict[str, str]
) -> None:
    plane, search = servers
    spoofed = {"X-Remote-User": "root", "X-Remote-Group": "system:masters"}
    assert await ask(start_gateway, servers, path, **spoofed) == (200, {"from": search.url})
    ((asked, headers, groups, _),) = search.asked
    assert asked == path
    assert (headers["X-Remote-User"], groups) == ("ann", ["admins", "system:authenticated"])
    assert "Authorization" not in headers
    review = next(json.loads(body) for asked, _, _, body in plane.asked if asked.endswith("accessreviews"))
    assert attributes.items() <= review["spec"]["resourceAttributes"].items()


async def test_callers_without_the_right_are_refused(start_gateway: Any, servers: tuple[Server, Server]) -> None:
    plane, search = servers
    plane.allowed = False
    code, body = await ask(start_gateway, servers, CACHE)
    assert (code, body["reason"]) == (403, "Forbidden")
    assert not search.asked


async def test_kinds_of_the_group_stay_with_the_control_plane(
    start_gateway: Any, servers: tuple[Server, Server]
) -> None:
    plane, search = servers
    path = "/apis/search.karmada.io/v1alpha1/resourceregistries"
    assert await ask(start_gateway, servers, path) == (200, {"from": plane.url})
    assert not search.asked


async def test_search_that_is_away_is_told(start_gateway: Any, servers: tuple[Server, Server]) -> None:
    _, search = servers
    search.url = "http://127.0.0.1:9"
    code, body = await ask(start_gateway, servers, CACHE)
    assert (code, body["reason"]) == (503, "ServiceUnavailable")
    assert "search at" in body["message"]
