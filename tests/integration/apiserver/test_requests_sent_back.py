"""Requests that a server which was asked in the API server's place leaves to it: same user, own rights, no loops."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from services._rules.proxying import sent_back
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from tests.support.waiting import eventually

OWN = "views.example.com"
GROUP = "search.example.com"
PROXY = f"/apis/{GROUP}/v1/views/all/proxy"
MAPS = "/api/v1/namespaces/default/configmaps"


class View:
    """A server that leaves everything to the API server but objects called `mine`; it reads no body before."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []
        self.url = ""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.seen.append((request.method, request.path, request.headers.get("X-Remote-User", "")))
        if request.path.startswith(f"/apis/{OWN}"):
            return web.json_response({"kind": "APIResourceList", "groupVersion": f"{OWN}/v1", "resources": []})
        if request.path.endswith("/mine"):
            return web.json_response({"mine": True})
        return web.Response(status=sent_back.STATUS, headers={sent_back.HEADER: "true"})


@pytest.fixture
async def view() -> AsyncIterator[View]:
    made = View()
    runner = web.ServerRunner(web.Server(made.handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


@pytest.fixture
async def server(view: View, tmp_path: Path) -> AsyncIterator[ApiServer]:
    made = ApiServer(
        MemoryStore(),
        builtin_registry(),
        Settings(
            data_dir=tmp_path,
            tokens={"root": Identity("root", "", ("system:masters",)), "jane": Identity("jane", "", ())},
            tls=False,
            authorization="RBAC",
            aggregate={f"{OWN}/v1": view.url},
        ),
    )
    await made.start()
    names = {"plural": "views", "singular": "view", "kind": "View"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": GROUP, "names": names, "scope": "Cluster", "versions": [version]}
    crds = "apiextensions.k8s.io/v1", "customresourcedefinitions"
    await made.local.create(*crds, {"metadata": {"name": f"views.{GROUP}"}, "spec": spec})
    service = {
        "metadata": {"name": f"v1.{OWN}", "annotations": {"fleetlog.io/serves": f"{GROUP}/v1/views/proxy"}},
        "spec": {"group": OWN, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10},
    }
    await made.local.create("apiregistration.k8s.io/v1", "apiservices", service)
    rbac = "rbac.authorization.k8s.io/v1"
    rules = [
        {"apiGroups": [GROUP], "resources": ["views/proxy"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
    ]
    await made.local.create(rbac, "clusterroles", {"metadata": {"name": "jane"}, "rules": rules})
    subject = {"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "ClusterRole", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "jane"}, "subjects": [subject], "roleRef": role}
    await made.local.create(rbac, "clusterrolebindings", binding)
    await eventually(lambda: made.aggregator is not None and list(made.aggregator.delegated()), "the delegation")
    yield made
    await made.stop()


async def ask(server: ApiServer, user: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {user}"}) as session,
        session.request(method, f"{server.url}{PROXY}{path}", json=body) as answer,
    ):
        text = await answer.text()
        return answer.status, json.loads(text) if text.startswith("{") else text


async def test_the_api_server_answers_what_was_left_to_it(server: ApiServer, view: View) -> None:
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}}
    code, found = await ask(server, "root", "POST", MAPS, made)
    assert (code, found["data"]) == (201, {"k": "1"})
    code, found = await ask(server, "jane", "GET", f"{MAPS}/a?pretty=false")
    assert (code, found["data"]) == (200, {"k": "1"})
    assert view.seen[-1] == ("GET", f"{PROXY}{MAPS}/a", "jane")
    assert await ask(server, "jane", "GET", f"{MAPS}/mine") == (200, {"mine": True})
    code, found = await ask(server, "jane", "GET", "/apis")
    assert (code, found["kind"]) == (200, "APIGroupList")


async def test_what_was_left_needs_its_own_right(server: ApiServer) -> None:
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    code, found = await ask(server, "jane", "POST", MAPS, made)
    assert (code, found["reason"]) == (403, "Forbidden")
    assert 'User "jane" cannot create resource "configmaps"' in found["message"]
    code, found = await ask(server, "jane", "GET", "/api/v1/namespaces/default/secrets")
    assert (code, found["reason"]) == (403, "Forbidden")


async def test_a_path_through_the_proxy_twice_is_refused(server: ApiServer) -> None:
    code, found = await ask(server, "root", "GET", f"{PROXY}{MAPS}")
    assert (code, found["reason"]) == (400, "BadRequest")


async def test_a_watch_that_was_left_streams(server: ApiServer) -> None:
    async with (
        aiohttp.ClientSession(headers={"Authorization": "Bearer jane"}) as session,
        session.get(f"{server.url}{PROXY}{MAPS}?watch=true") as answer,
    ):
        assert answer.status == 200
        await server.local.create("v1", "configmaps", {"metadata": {"name": "b", "namespace": "default"}})
        async with asyncio.timeout(60):
            while True:
                event = json.loads(await answer.content.readline())
                if event["object"]["metadata"]["name"] == "b":
                    break
        assert event["type"] == "ADDED"
