"""APIServices: the built-in groups stay local, and no user reaches what only this machine may through them."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from services.apiserver.auth.certificate_authority import Authority
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from tests.integration.apiserver.conftest import Client

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
MERGE = "application/merge-patch+json"


class Spy:
    """A server that writes down who reaches it; `location` makes it redirect."""

    def __init__(self, directory: Path) -> None:
        authority = Authority(directory)
        authority.load()
        self.bundle = base64.b64encode(authority.ca_pem).decode()
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.load_cert_chain(*authority.server(("127.0.0.1", "named.default.svc")))
        self.seen: list[web.Request] = []
        self.location = ""
        self.silence: asyncio.Event | None = None
        self.port = 0
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self.answer)
        self.runner = web.AppRunner(app, shutdown_timeout=0.1)

    async def start(self) -> None:
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0, ssl_context=self.context).start()
        self.port = self.runner.addresses[0][1]

    async def answer(self, request: web.Request) -> web.Response:
        self.seen.append(request)
        if request.path.count("/") == 3:
            return web.json_response({"kind": "APIResourceList", "groupVersion": "x", "resources": []})
        if self.silence is not None:
            await self.silence.wait()
        if self.location:
            return web.Response(status=307, headers={"Location": self.location})
        return web.json_response({"kind": "Thing"})


@pytest.fixture
async def spy(tmp_path: Path) -> AsyncIterator[Spy]:
    made = Spy(tmp_path / "spy")
    await made.start()
    yield made
    await made.runner.cleanup()


@pytest.fixture(params=[()])
async def server(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[ApiServer]:
    settings = Settings(
        data_dir=tmp_path / "data",
        tokens={"admin": Identity("admin", "admin", ("system:masters",))},
        tls=False,
        allow_local_extensions=request.param,
    )
    made = ApiServer(MemoryStore(), builtin_registry(), settings)
    await made.start()
    yield made
    await made.stop()


local_allowed = pytest.mark.parametrize("server", [("127.0.0.0/8",)], indirect=True)


def apiservice(group: str, service: str = "s", port: int = 443, **spec: Any) -> dict[str, Any]:
    place = {"name": service, "namespace": "default", "port": port}
    given = {"group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10, "service": place}
    return {"metadata": {"name": f"v1.{group}"}, "spec": {**given, **spec}}


async def expose(client: Client, name: str, port: int, address: str = "", host: str = "") -> None:
    """A Service that leads to an address by its Endpoints, or to a host by its name."""
    spec: dict[str, Any] = {"type": "ExternalName", "externalName": host} if host else {}
    spec["ports"] = [{"port": port}]
    path = "/api/v1/namespaces/default/services"
    assert (await client("POST", path, {"metadata": {"name": name}, "spec": spec}))[0] == 201
    if address:
        # Written below validation, as by someone who may write to the store.
        subsets = [{"addresses": [{"ip": address}], "ports": [{"port": port}]}]
        ends = {"metadata": {"name": name, "namespace": "default"}, "subsets": subsets}
        kind = client.server.registry.find("", "v1", "endpoints")
        assert kind is not None
        key = client.server.objects.key(kind, "default", name)
        meta = {**ends["metadata"], "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}  # type: ignore[dict-item]
        await client.server.store.put(key, {"kind": "Endpoints", "apiVersion": "v1", **ends, "metadata": meta}, 0)


async def available(client: Client, name: str, *reasons: str) -> dict[str, Any]:
    """The condition of an APIService once it has one of the reasons."""
    async for _, obj in client.server.local.watch("apiregistration.k8s.io/v1", "apiservices", name=name):
        for condition in (obj.get("status") or {}).get("conditions") or ():
            if condition["reason"] in reasons:
                return dict(condition)
    raise AssertionError("the watch ended")


async def test_what_is_served_here_has_local_apiservices(client: Client) -> None:
    found = {item["metadata"]["name"]: item for item in (await client("GET", SERVICES))[1]["items"]}
    assert {"v1.", "v1.apps", "v1.rbac.authorization.k8s.io", "v2.autoscaling"} <= found.keys()
    assert found["v1."]["spec"] == {"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}
    for item in found.values():
        assert [(c["status"], c["reason"]) for c in item["status"]["conditions"]] == [("True", "Local")]


async def test_a_built_in_group_cannot_be_taken_over(client: Client, spy: Spy) -> None:
    await expose(client, "s", spy.port, host="127.0.0.1")
    taken = apiservice("apps", port=spy.port, insecureSkipTLSVerify=True)
    assert (await client("POST", SERVICES, taken))[0] in (403, 409)
    code, body = await client("PATCH", f"{SERVICES}/v1.apps", {"spec": taken["spec"]}, media=MERGE)
    assert (code, "apps/v1 is served by this server" in body["message"]) == (403, True), body
    assert (await client("DELETE", f"{SERVICES}/v1.apps"))[0] == 200
    await available(client, "v1.apps", "Local")
    # Even one that is in the store already is not followed.
    entry = client.server.store.get(client.server.objects.key(kind_of(client), "", "v1.apps"))
    assert entry is not None
    await client.server.store.put(entry.key, {**entry.obj, "spec": taken["spec"]}, entry.revision)
    code, body = await client("GET", "/apis/apps/v1/namespaces/default/deployments")
    assert (code, body["kind"]) == (200, "DeploymentList")
    async for _, obj in client.server.local.watch("apiregistration.k8s.io/v1", "apiservices", name="v1.apps"):
        if "service" not in obj["spec"]:
            break
    assert not spy.seen


def kind_of(client: Client) -> Any:
    return client.server.registry.find("apiregistration.k8s.io", "v1", "apiservices")


async def test_a_group_of_a_definition_gets_an_apiservice(client: Client) -> None:
    schema = {"openAPIV3Schema": {"type": "object"}}
    spec = {
        "group": "ex.example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await client("POST", crds, {"metadata": {"name": "things.ex.example.com"}, "spec": spec}))[0] == 201
    await available(client, "v1.ex.example.com", "Local")
    code, body = await client("PATCH", f"{SERVICES}/v1.ex.example.com", apiservice("ex.example.com"), media=MERGE)
    assert code == 403, body
    name, revision = "v1.ex.example.com", client.server.store.revision
    await client("DELETE", f"{crds}/things.ex.example.com")
    watch = client.server.local.watch("apiregistration.k8s.io/v1", "apiservices", name=name, revision=revision)
    async for word, _ in watch:
        if word == "DELETED":
            break


@pytest.mark.parametrize(
    "place", [{"host": "127.0.0.1"}, {"host": "localhost"}, {"address": "127.0.0.1"}, {"address": "::ffff:127.0.0.1"}]
)
async def test_aggregated_servers_are_not_on_this_machine(client: Client, spy: Spy, place: dict[str, str]) -> None:
    await expose(client, "s", spy.port, **place)
    given = apiservice("x.example.com", port=spy.port, insecureSkipTLSVerify=True)
    assert (await client("POST", SERVICES, given))[0] == 201
    condition = await available(client, "v1.x.example.com", "FailedDiscoveryCheck")
    assert condition["status"] == "False"
    assert "are not allowed" in condition["message"], condition
    assert (await client("GET", "/apis/x.example.com/v1/things"))[0] == 503
    assert not spy.seen


@local_allowed
@pytest.mark.parametrize(("name", "reason"), [("named", "Passed"), ("other", "FailedDiscoveryCheck")])
async def test_the_certificate_names_the_service(client: Client, spy: Spy, name: str, reason: str) -> None:
    await expose(client, name, spy.port, address="127.0.0.1")
    given = apiservice("x.example.com", name, spy.port, caBundle=spy.bundle)
    assert (await client("POST", SERVICES, given))[0] == 201
    condition = await available(client, "v1.x.example.com", "Passed", "FailedDiscoveryCheck")
    assert condition["reason"] == reason, condition


@local_allowed
async def test_headers_are_cleaned_and_redirects_refused(client: Client, spy: Spy) -> None:
    await expose(client, "named", spy.port, address="127.0.0.1")
    await client("POST", SERVICES, apiservice("x.example.com", "named", spy.port, caBundle=spy.bundle))
    await available(client, "v1.x.example.com", "Passed")
    forged = {
        "X-Remote-User": "root",
        "X_Remote_Group": "system:masters",
        "X-Remote-Extra-a": "b",
        "Connection": "X-Hop",
        "X-Hop": "1",
    }
    url = f"{client.server.url}/apis/x.example.com/v1/things/a"
    async with client.session.get(url, headers=forged) as response:
        assert response.status == 200
    headers = spy.seen[-1].headers
    assert headers.getall("X-Remote-User") == ["admin"]
    assert headers["Host"] == "named.default.svc"
    assert not {"X_Remote_Group", "X-Remote-Extra-A", "X-Hop", "Authorization"} & set(headers)
    spy.location = "https://169.254.169.254/"
    async with client.session.get(url, allow_redirects=False) as response:
        assert (response.status, "Location" in response.headers) == (502, False)


@local_allowed
async def test_a_silent_aggregated_server_is_not_waited_for(
    client: Client, spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    from services.apiserver.controllers.aggregation import aggregated_proxy

    await expose(client, "named", spy.port, address="127.0.0.1")
    await client("POST", SERVICES, apiservice("x.example.com", "named", spy.port, caBundle=spy.bundle))
    await available(client, "v1.x.example.com", "Passed")
    spy.silence = asyncio.Event()
    monkeypatch.setattr(aggregated_proxy, "ANSWER_SECONDS", 0.001)
    code, body = await client("GET", "/apis/x.example.com/v1/things/a")
    spy.silence.set()
    assert (code, body["reason"]) == (504, "Timeout")
