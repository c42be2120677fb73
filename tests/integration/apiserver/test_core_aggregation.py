"""Aggregated APIs: proxied with identity, streamed both ways, visible in discovery, honest about availability."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from services.apiserver.auth.certificate_authority import Authority
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore

GROUP = "things.example.com"
Session = aiohttp.ClientSession


class Backend:
    """A small extension server over TLS that insists on the front proxy's client certificate."""

    def __init__(self, directory: Path, client_ca: Path) -> None:
        self.seen: list[Any] = []
        self.push: asyncio.Queue[bytes] = asyncio.Queue()
        app = web.Application()
        app.router.add_route("*", f"/apis/{GROUP}/v1", self.resources)
        app.router.add_route("*", "/{tail:.*}", self.anything)
        self.runner = web.AppRunner(app, shutdown_timeout=0.1)
        authority = Authority(directory)
        authority.load()
        cert, key = authority.server(("127.0.0.1", "things.default.svc"))
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.load_cert_chain(cert, key)
        self.context.load_verify_locations(client_ca)
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.ca = authority.ca_pem
        self.url = ""

    async def start(self) -> None:
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0, ssl_context=self.context).start()
        self.url = f"https://127.0.0.1:{self.runner.addresses[0][1]}"

    async def resources(self, request: web.Request) -> web.Response:
        item = {"name": "things", "singularName": "thing", "namespaced": False, "kind": "Thing", "verbs": ["list"]}
        return web.json_response({"kind": "APIResourceList", "groupVersion": f"{GROUP}/v1", "resources": [item]})

    async def anything(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((request.method, request.path_qs, request.headers.copy(), await request.read()))
        if "watch" not in request.query:
            return web.json_response({"path": request.path_qs}, status=201)
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(await self.push.get())
        return response


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    tokens = {"t": Identity("jane", "u1", ("devs", "qa"), {"scopes": ["a b"]})}
    made = ApiServer(
        MemoryStore(),
        builtin_registry(),
        Settings(data_dir=tmp_path / "api", tokens=tokens, tls=False, allow_local_extensions=("1",)),
    )
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def backend(server: ApiServer, tmp_path: Path) -> AsyncIterator[Backend]:
    proxy = server.front_proxy
    assert proxy is not None
    proxy.load()
    made = Backend(tmp_path / "backend", proxy.ca_file)
    await made.start()
    yield made
    await made.runner.cleanup()


async def register(server: ApiServer, backend: Backend) -> None:
    server.aggregator._resolver = lambda ns, name, port: backend.url if name == "things" else None  # type: ignore[union-attr]
    spec = {
        "group": GROUP,
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 10,
        "caBundle": base64.b64encode(backend.ca).decode(),
        "service": {"namespace": "default", "name": "things"},
    }
    obj = {"metadata": {"name": f"v1.{GROUP}"}, "spec": spec}
    await server.local.create("apiregistration.k8s.io/v1", "apiservices", obj)
    await condition(server, "True")


async def condition(server: ApiServer, status: str) -> dict[str, Any]:
    async for _, obj in server.local.watch("apiregistration.k8s.io/v1", "apiservices", name=f"v1.{GROUP}"):
        found = [c for c in (obj.get("status") or {}).get("conditions") or [] if c["type"] == "Available"]
        if found and found[0]["status"] == status:
            return dict(found[0])
    raise AssertionError("the watch ended")


@pytest.fixture
async def session() -> AsyncIterator[Session]:
    """Requests of the user jane."""
    async with Session(headers={"Authorization": "Bearer t"}) as made:
        yield made


async def test_aggregated_request_carries_the_identity_of_the_user(
    server: ApiServer, backend: Backend, session: Session
) -> None:
    await register(server, backend)
    url = f"{server.url}/apis/{GROUP}/v1/things/a%2Fb?x=1%202"
    async with session.post(url, data=b"body", headers={"X-Remote-User": "root"}) as response:
        assert response.status == 201
        assert (await response.json())["path"] == f"/apis/{GROUP}/v1/things/a%2Fb?x=1%202"
    method, _, seen, body = backend.seen[-1]
    assert (method, body) == ("POST", b"body")
    assert seen.getall("X-Remote-User") == ["jane"]
    assert seen.getall("X-Remote-Group") == ["devs", "qa", "system:authenticated"]
    assert seen.getall("X-Remote-Extra-scopes") == ["a b"]
    assert "Authorization" not in seen


async def test_a_watch_streams_as_it_happens(server: ApiServer, backend: Backend, session: Session) -> None:
    await register(server, backend)
    path = f"{server.url}/apis/{GROUP}/v1/things?watch=1"
    async with session.get(path) as response:
        for line in (b'{"n":1}\n', b'{"n":2}\n'):
            backend.push.put_nowait(line)
            assert await response.content.readline() == line


async def test_discovery_shows_the_group_in_every_form(server: ApiServer, backend: Backend, session: Session) -> None:
    await register(server, backend)
    form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    async with session.get(f"{server.url}/apis") as response:
        groups = {g["name"]: g for g in (await response.json())["groups"]}
    async with session.get(f"{server.url}/apis/{GROUP}") as response:
        group = await response.json()
    async with session.get(f"{server.url}/apis", headers={"Accept": form}) as response:
        items = {i["metadata"]["name"]: i for i in (await response.json(content_type=None))["items"]}
    assert groups[GROUP]["preferredVersion"]["groupVersion"] == f"{GROUP}/v1"
    assert group["versions"] == [{"groupVersion": f"{GROUP}/v1", "version": "v1"}]
    resource = items[GROUP]["versions"][0]["resources"][0]
    assert (resource["resource"], resource["scope"], resource["verbs"]) == ("things", "Cluster", ["list"])
    assert "apps" in items


async def test_openapi_documents_of_the_group_come_from_its_backend(
    server: ApiServer, backend: Backend, session: Session
) -> None:
    await register(server, backend)
    async with session.get(f"{server.url}/openapi/v3") as response:
        paths = (await response.json())["paths"]
    url = paths[f"apis/{GROUP}/v1"]["serverRelativeURL"]
    async with session.get(f"{server.url}{url}") as response:
        assert await response.json() == {"path": url}
    async with session.get(f"{server.url}/openapi/v3/apis/apps/v1") as response:
        assert response.status == 200
    assert "apis/apps/v1" in paths


async def test_unavailable_backend_is_reported_with_503(server: ApiServer, backend: Backend, session: Session) -> None:
    await register(server, backend)
    await backend.runner.cleanup()
    async with session.get(f"{server.url}/apis/{GROUP}/v1/things") as response:
        assert response.status == 503
        assert (await response.json())["reason"] == "ServiceUnavailable"
    found = await asyncio.wait_for(condition(server, "False"), 60)
    assert found["reason"] == "FailedDiscoveryCheck"
    async with session.get(f"{server.url}/apis") as response:
        assert GROUP not in {g["name"] for g in (await response.json())["groups"]}


async def test_a_service_that_does_not_exist_is_named_in_the_condition(server: ApiServer) -> None:
    spec = {
        "group": GROUP,
        "version": "v1",
        "groupPriorityMinimum": 1,
        "versionPriority": 1,
        "service": {"namespace": "default", "name": "nosuch"},
    }
    obj = {"metadata": {"name": f"v1.{GROUP}"}, "spec": spec}
    await server.local.create("apiregistration.k8s.io/v1", "apiservices", obj)
    found = await asyncio.wait_for(condition(server, "False"), 60)
    assert found["reason"] == "ServiceNotFound"
    assert "nosuch" in found["message"]
