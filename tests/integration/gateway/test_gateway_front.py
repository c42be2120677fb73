"""Before an outside control plane the gateway answers for its kinds and passes everything else on, rights included."""

from __future__ import annotations

import asyncio
import io
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from services.apiserver.auth.certificate_authority import Authority
from tests.integration.gateway.conftest import TOKEN

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
OTHER = {"name": "other.example", "versions": [], "preferredVersion": {}}


class Plane:
    """A control plane that writes down what it is asked; over TLS it asks for certificates and does without."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str], str, bytes]] = []
        """Method, path, headers, common name of the client certificate, body."""
        self.allowed = True
        self.let_go = asyncio.Event()
        self.gone = asyncio.Event()
        self.url = ""

    def paths(self) -> list[str]:
        return [path for _, path, *_ in self.asked]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        certificate = request.transport.get_extra_info("peercert") if request.transport is not None else None
        names = [value for part in (certificate or {}).get("subject", ()) for _, value in part]
        body = await request.read()
        self.asked.append((request.method, request.path, dict(request.headers), ",".join(names), body))
        if request.headers.get("Authorization") == "Bearer bad":
            return web.json_response({"kind": "Status", "code": 401, "message": "who are you?"}, status=401)
        if request.path == REVIEWS:
            return web.json_response({"status": {"allowed": self.allowed, "reason": "as it pleases"}}, status=201)
        if request.path == "/apis":
            return self._discovery(request)
        if request.path == "/openapi/v3":
            return web.json_response({"paths": {"api/v1": {"serverRelativeURL": "/openapi/v3/api/v1"}}})
        if request.query.get("watch"):
            return await self._watch(request)
        if request.path == "/moved":
            raise web.HTTPFound(f"{self.url}/elsewhere")
        answer = web.json_response({"path": request.path_qs, "got": body.decode()})
        answer.set_cookie("session", "of somebody")
        answer.enable_compression()
        return answer

    def _discovery(self, request: web.Request) -> web.Response:
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            return web.Response(status=500, text="who adds to this cannot read what is compressed")
        if "apidiscovery" in request.headers["Accept"]:
            document = {
                "kind": "APIGroupDiscoveryList",
                "apiVersion": "apidiscovery.k8s.io/v2",
                "items": [{"metadata": {"name": "other.example"}}, {"metadata": {"name": "work.karmada.io"}}],
            }
            media = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            return web.Response(body=json.dumps(document), headers={"Content-Type": media, "ETag": "old"})
        return web.json_response({"kind": "APIGroupList", "groups": [OTHER, {"name": "work.karmada.io"}]})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type":"ADDED"}\n')
        try:
            while not self.let_go.is_set():
                if request.transport is None or request.transport.is_closing():
                    raise ConnectionResetError
                await asyncio.sleep(0.01)
            await response.write(b'{"type":"DELETED"}\n')
        except ConnectionError:
            self.gone.set()
        return response


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[Plane]:
    """A running one, with the authority of tmp_path/plane."""
    authority = Authority(tmp_path / "plane", "plane-ca")
    authority.load()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.server(("127.0.0.1",)))
    context.load_verify_locations(tmp_path / "plane" / "ca.crt")
    context.verify_mode = ssl.CERT_OPTIONAL
    made = Plane()
    app = web.Application(client_max_size=8 << 20)
    app.router.add_route("*", "/{path:.*}", made.handle)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    made.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    made.let_go.set()
    await runner.cleanup()


class Front:
    """A gateway before the control plane, and a client of it."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self.session = session

    async def ask(
        self, path: str, token: str = "", method: str = "GET", data: bytes | None = None, **headers: str
    ) -> tuple[int, Any]:
        """Status and decoded body of an answer."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        async with self.session.request(
            method, self.url + path, headers=sent, data=io.BytesIO(data or b""), allow_redirects=False
        ) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if text.startswith(("{", "[")) else text


@pytest.fixture
async def start_front(start_gateway, plane: Plane, tmp_path: Path):
    """Starts a gateway before the control plane, with a client certificate of the installation or without."""
    sessions = []

    async def start(*, certificate: bool = False) -> Front:
        settings: dict[str, Any] = {"upstream_url": plane.url, "upstream_ca": str(tmp_path / "plane" / "ca.crt")}
        if certificate:
            authority = Authority(tmp_path / "plane", "plane-ca")
            authority.load()
            pair = authority.client("the-installation", ("system:masters",))
            settings["upstream_cert"], settings["upstream_key"] = map(str, pair)
        gateway = await start_gateway(**settings)
        session = aiohttp.ClientSession()
        sessions.append(session)
        return Front(gateway.api.url, session)

    yield start
    for session in sessions:
        await session.close()


async def test_anonymous_request_is_refused_and_not_passed_on(start_front, plane) -> None:
    front = await start_front(certificate=True)
    for path in ("/api/v1/namespaces", "/apis", BINDINGS, "/fleetlog/v1/history/_/a/b"):
        code, body = await front.ask(path, X_Remote_User="admin", X_Remote_Group="system:masters")
        assert (code, body["reason"]) == (401, "Unauthorized"), path
    assert plane.asked == []


async def test_token_is_passed_on_without_the_certificate(start_front, plane) -> None:
    front = await start_front(certificate=True)
    code, body = await front.ask("/api/v1/pods?limit=5&labelSelector=a%3Db", "of-bob", X_Remote_User="admin")
    assert (code, body["path"]) == (200, "/api/v1/pods?limit=5&labelSelector=a%3Db")
    ((_, _, headers, name, _),) = plane.asked
    assert headers["Authorization"] == "Bearer of-bob"
    assert name == ""
    assert not [header for header in headers if header.lower().startswith("x-remote-")]
    assert (await front.ask("/api/v1/pods", "bad"))[0] == 401
    assert plane.asked[-1][3] == ""


async def test_token_of_the_installation_uses_its_certificate(start_front, plane) -> None:
    front = await start_front(certificate=True)
    assert (await front.ask("/api/v1/pods", TOKEN, Impersonate_User="bob"))[0] == 200
    ((_, _, headers, name, _),) = plane.asked
    assert "Authorization" not in headers
    assert "the-installation" in name
    assert headers["Impersonate-User"] == "bob"


async def test_token_of_the_installation_opens_own_resources(start_front, plane) -> None:
    front = await start_front()
    code, body = await front.ask("/api/v1/secrets", TOKEN)
    assert (code, body["reason"]) == (403, "Forbidden")
    assert "use credentials of the control plane at https://127.0.0.1" in body["message"]
    assert (await front.ask(BINDINGS, TOKEN))[0] == 200
    assert (await front.ask(BINDINGS, TOKEN, Impersonate_User="bob"))[0] == 403
    assert plane.asked == []


async def test_control_plane_authorizes_reads_of_bindings(start_front, plane) -> None:
    front = await start_front()
    assert (await front.ask(f"{BINDINGS}?watch=0", "of-bob", Impersonate_User="eve"))[0] == 200
    ((method, path, headers, _, body),) = plane.asked
    assert (method, path, headers["Authorization"]) == ("POST", REVIEWS, "Bearer of-bob")
    assert headers["Impersonate-User"] == "eve"
    assert json.loads(body)["spec"]["resourceAttributes"] == {
        "group": "work.karmada.io",
        "version": "v1alpha2",
        "resource": "resourcebindings",
        "verb": "list",
        "namespace": "default",
    }
    assert (await front.ask(BINDINGS, "of-bob", Impersonate_User="eve"))[0] == 200
    assert len(plane.asked) == 1, "what was allowed is remembered for a while"
    plane.allowed = False
    for token, posing in (("of-bob", "carol"), ("of-dave", "eve")):
        code, refused = await front.ask(BINDINGS, token, Impersonate_User=posing)
        assert (code, refused["reason"]) == (403, "Forbidden")
        assert 'list resourcebindings.work.karmada.io in the namespace "default": as it pleases' in refused["message"]
    assert (await front.ask(f"{BINDINGS}?watch=true", "of-bob", Impersonate_User="eve"))[0] == 403
    assert json.loads(plane.asked[-1][4])["spec"]["resourceAttributes"]["verb"] == "watch"


@pytest.mark.parametrize("path", [BINDINGS, "/apis/work.karmada.io/v1alpha2", "/fleetlog/v1/history/_/a/b"])
async def test_unknown_token_is_unauthorized(start_front, path: str) -> None:
    front = await start_front(certificate=True)
    code, body = await front.ask(path, "bad")
    assert (code, body["message"]) == (401, "who are you?")


async def test_other_paths_are_reviewed_as_non_resource_urls(start_front, plane) -> None:
    front = await start_front()
    assert (await front.ask("/apis/work.karmada.io/v1alpha2", "of-bob"))[0] == 200
    spec = json.loads(plane.asked[-1][4])["spec"]
    assert spec == {"nonResourceAttributes": {"path": "/apis/work.karmada.io/v1alpha2", "verb": "get"}}


OWN = ["work.karmada.io", "metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"]


@pytest.mark.parametrize("accept", ["application/json", AGGREGATED, "application/vnd.kubernetes.protobuf"])
async def test_discovery_names_both(start_front, accept: str) -> None:
    front = await start_front()
    code, body = await front.ask("/apis", "of-bob", Accept=accept, If_None_Match="old")
    assert code == 200
    if accept == AGGREGATED:
        assert [item["metadata"]["name"] for item in body["items"]] == ["other.example", *OWN]
        assert body["items"][1]["versions"]
    else:
        assert [group["name"] for group in body["groups"]] == ["other.example", *OWN]
        assert body["groups"][1]["versions"]
    assert sorted((await front.ask("/openapi/v3", "of-bob"))[1]["paths"]) == [
        "api/v1",
        "apis/metrics.k8s.io/v1beta1",
        "apis/work.karmada.io/v1alpha1",
        "apis/work.karmada.io/v1alpha2",
    ]
    assert (await front.ask("/apis", "bad"))[0] == 401


async def test_compression_is_between_the_client_and_the_control_plane(start_front, plane) -> None:
    front = await start_front()
    headers = {"Authorization": "Bearer of-bob"}
    automatic = ("Accept", "Accept-Encoding", "User-Agent")
    for path, accepted in (("/api/v1/pods", ""), ("/api/v1/pods", "gzip"), ("/apis", "identity")):
        sent = {**headers, "Accept-Encoding": "gzip"} if accepted else headers
        async with front.session.get(front.url + path, headers=sent, skip_auto_headers=automatic) as answer:
            assert answer.status == 200
            assert (await answer.json(content_type=None)) is not None
        received = plane.asked[-1][2]
        assert received.get("Accept-Encoding", "") == accepted
        assert "User-Agent" not in received


async def test_bodies_and_redirects_pass_but_no_cookies(start_front, plane) -> None:
    front = await start_front()
    large = b"x" * 3_000_000
    code, body = await front.ask("/api/v1/configmaps", "of-bob", "POST", large)
    assert (code, body["got"]) == (200, large.decode())
    await front.ask("/api/v1/configmaps", "of-eve")
    assert "Cookie" not in plane.asked[-1][2]
    assert (await front.ask("/moved", "of-bob"))[0] == 302
    assert "/elsewhere" not in plane.paths()


async def test_a_watch_streams_and_ends_when_its_reader_leaves(start_front, plane, monkeypatch) -> None:
    monkeypatch.setattr("services._kit.kube.answers.relay.LOOK_SECONDS", 0.05)
    front = await start_front()
    headers = {"Authorization": "Bearer of-bob"}
    async with front.session.get(f"{front.url}/api/v1/pods?watch=true", headers=headers) as answer:
        assert await answer.content.readline() == b'{"type":"ADDED"}\n'
        plane.let_go.set()
        assert await answer.content.readline() == b'{"type":"DELETED"}\n'
    plane.let_go.clear()
    answer = await front.session.get(f"{front.url}/api/v1/pods?watch=true", headers=headers)
    assert await answer.content.readline() == b'{"type":"ADDED"}\n'
    answer.close()
    async with asyncio.timeout(60):
        await plane.gone.wait()


async def test_protocol_upgrade_is_refused_with_the_reason(start_front, plane) -> None:
    front = await start_front()
    code, body = await front.ask("/api/v1/pods/a/exec", "of-bob", Connection="Upgrade", Upgrade="SPDY/3.1")
    assert (code, body["reason"]) == (501, "NotImplemented")
    assert plane.asked == []


async def test_bindings_stay_readable_without_the_control_plane(start_gateway) -> None:
    gateway = await start_gateway(upstream_url="http://127.0.0.1:1")
    async with aiohttp.ClientSession() as session:
        front = Front(gateway.api.url, session)
        code, body = await front.ask("/api/v1/pods", "of-bob")
        assert (code, body["reason"]) == (503, "ServiceUnavailable")
        assert "the control plane at http://127.0.0.1:1 does not answer" in body["message"]
        assert (await front.ask(BINDINGS, "of-bob"))[0] == 503
        assert (await front.ask(BINDINGS, TOKEN))[0] == 200


async def test_a_renewed_certificate_is_served_without_a_restart(start_gateway: Any, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    authority.load()
    files = tmp_path / "tls.crt", tmp_path / "tls.key"

    def renew() -> bytes:
        pair = authority.issue("gateway", (), ["127.0.0.1"])
        for path, data in zip(files, pair, strict=True):
            path.with_suffix(".new").write_bytes(data)
            path.with_suffix(".new").replace(path)
        return ssl.PEM_cert_to_DER_cert(pair[0].decode())

    first = renew()
    cert, key = map(str, files)
    gateway = await start_gateway(serving_cert=cert, serving_key=key, certificate_check_seconds=0.01)
    port = gateway.api.port

    async def served() -> bytes | None:
        trusted = ssl.create_default_context(cafile=str(authority.ca_file))
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusted)
        shown: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return shown

    assert await served() == first
    files[1].write_text("no key")
    second = renew()
    async with asyncio.timeout(60):
        while await served() != second:
            continue
