"""Admission webhooks: what they are shown, and what their answers may do to an object, an answer and the audit log."""

import base64
import json
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
from tests.integration.apiserver.conftest import Client

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


class Hooks:
    """Webhooks by path over TLS; `replies` gives each its response, `seen` the requests they got."""

    def __init__(self, directory: Path) -> None:
        self.replies: dict[str, dict[str, Any]] = {}
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self.certificates: list[object] = []
        authority = Authority(directory)
        authority.load()
        cert, key = authority.server(("127.0.0.1", "hook.default.svc"))
        self.bundle = base64.b64encode(authority.ca_pem).decode()
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.load_cert_chain(cert, key)
        self.context.load_verify_locations(authority.ca_file)
        self.context.verify_mode = ssl.CERT_OPTIONAL
        app = web.Application()
        app.router.add_post("/{name}", self.answer)
        self.runner = web.AppRunner(app, shutdown_timeout=0.1)
        self.url = ""

    async def start(self) -> None:
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0, ssl_context=self.context).start()
        self.url = f"https://127.0.0.1:{self.runner.addresses[0][1]}"

    async def answer(self, request: web.Request) -> web.Response:
        name, review = request.match_info["name"], await request.json()
        self.seen.append((name, review["request"]))
        assert request.transport is not None
        self.certificates.append(request.transport.get_extra_info("peercert"))
        reply = dict(self.replies.get(name, {}))
        if isinstance(reply.get("patch"), list):
            reply |= {"patch": base64.b64encode(json.dumps(reply["patch"]).encode()).decode(), "patchType": "JSONPatch"}
        response = {"uid": review["request"]["uid"], "allowed": True, **reply}
        return web.json_response({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})


@pytest.fixture
async def hooks(tmp_path: Path) -> AsyncIterator[Hooks]:
    made = Hooks(tmp_path / "hook")
    await made.start()
    yield made
    await made.runner.cleanup()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    settings = Settings(
        data_dir=tmp_path / "data",
        tokens={"admin": Identity("admin", "admin", ("system:masters",))},
        tls=False,
        controllers=False,
        audit_log=tmp_path / "audit.jsonl",
        allow_local_extensions=("127.0.0.1",),
    )
    made = ApiServer(MemoryStore(), builtin_registry(), settings)
    await made.start()
    yield made
    await made.stop()


async def configure(client: Client, hooks: Hooks, *names: str, kind: str = "Mutating", **fields: Any) -> None:
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    webhooks = [
        {
            "name": f"{name}.example.com",
            "clientConfig": {"url": f"{hooks.url}/{name}", "caBundle": hooks.bundle},
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **fields,
        }
        for name in names
    ]
    path = f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}webhookconfigurations"
    answer = await client("POST", path, {"metadata": {"name": "w"}, "webhooks": webhooks})
    assert answer[0] == 201, answer


def patch(*operations: tuple[str, str, Any]) -> dict[str, Any]:
    return {"patch": [{"op": op, "path": path, "value": value} for op, path, value in operations]}


@pytest.mark.parametrize(
    ("operation", "code", "text"),
    [
        (("replace", "/kind", "Secret"), 500, "converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
        (("replace", "/kind", "Odd"), 500, 'no kind "Odd" is registered for version "v1" in scheme'),
        (("replace", "/apiVersion", "v9"), 500, 'no kind "ConfigMap" is registered for version "v9" in scheme'),
        (("add", "/metadata/namespace", "kube-system"), 400, "the namespace of the provided object does not match"),
        (("replace", "/metadata", "x"), 500, "attempted to change an object into something else"),
        (("replace", "/data/none/x", "x"), 500, "Internal error occurred"),
    ],
)
async def test_a_patch_cannot_make_another_object(
    client: Client, hooks: Hooks, operation: tuple[str, str, Any], code: int, text: str
) -> None:
    await configure(client, hooks, "m")
    hooks.replies["m"] = patch(operation)
    answer, body = await client("POST", MAPS, {"metadata": {"name": "a"}})
    assert (answer, text in body["message"]) == (code, True), body
    assert (await client("GET", f"{MAPS}/a"))[0] == 404


@pytest.mark.parametrize("field", ["name", "uid"])
async def test_a_patch_of_an_update_keeps_name_and_uid(client: Client, hooks: Hooks, field: str) -> None:
    await client("POST", MAPS, {"metadata": {"name": "a"}})
    await configure(client, hooks, "m")
    hooks.replies["m"] = patch(("replace", f"/metadata/{field}", "other"))
    code, body = await client("PUT", f"{MAPS}/a", {"metadata": {"name": "a"}, "data": {"k": "v"}})
    assert (code, body["details"]["causes"][0]["field"]) == (422, f"metadata.{field}")


@pytest.mark.parametrize("allowed", ["yes", "false", 1, [], None])
async def test_only_true_lets_a_write_through(client: Client, hooks: Hooks, allowed: Any) -> None:
    await configure(client, hooks, "v", kind="Validating")
    hooks.replies["v"] = {"allowed": allowed}
    code, body = await client("POST", MAPS, {"metadata": {"name": "a"}})
    assert code == (400 if allowed is None else 500), body
    assert (await client("GET", f"{MAPS}/a"))[0] == 404


@pytest.mark.parametrize(
    ("reply", "kind", "text"),
    [
        ({"uid": "other"}, "Mutating", 'got "other"'),
        ({"uid": None}, "Mutating", 'got ""'),
        ({"patch": "W10="}, "Mutating", "response.patch but not response.patchType"),
        ({"patchType": "JSONPatch"}, "Mutating", "response.patchType but not response.patch"),
        ({"patch": "W10=", "patchType": "Odd"}, "Mutating", 'unsupported patch type "Odd"'),
        ({"patch": "W10=", "patchType": "JSONPatch"}, "Validating", "may not return response.patch"),
        ({"warnings": "w"}, "Validating", "parts of wrong types"),
        ({"status": {"code": "403"}}, "Validating", "parts of wrong types"),
    ],
)
async def test_parts_of_an_answer_are_checked(
    client: Client, hooks: Hooks, reply: dict[str, Any], kind: str, text: str
) -> None:
    await configure(client, hooks, "h", kind=kind)
    hooks.replies["h"] = reply
    code, body = await client("POST", MAPS, {"metadata": {"name": "a"}})
    assert (code, text in body["message"]) == (500, True), body


async def test_warnings_cannot_break_the_answer(client: Client, hooks: Hooks) -> None:
    await configure(client, hooks, "v", kind="Validating")
    hooks.replies["v"] = {"warnings": ["a\r\nSet-Cookie: b=c", "\x00\x1b[31m", 'q"\\', "long " * 2000, "x" * 300]}
    async with client.session.post(client.server.url + MAPS, json={"metadata": {"name": "a"}}) as response:
        assert response.status == 201
        texts = response.headers.getall("Warning")
    assert "Set-Cookie" not in response.headers
    assert texts[0] == '299 - "a Set-Cookie: b=c"'
    assert texts[2] == '299 - "q\\"\\\\"'
    assert max(map(len, texts)) < 300


@pytest.mark.parametrize(
    ("code", "expected"), [(99999, 403), (600, 403), (-1, 400), (200, 400), (418, 418), (10**30, 403)]
)
async def test_the_code_of_a_refusal_is_one_of_http(client: Client, hooks: Hooks, code: int, expected: int) -> None:
    await configure(client, hooks, "v", kind="Validating")
    hooks.replies["v"] = {"allowed": False, "status": {"code": code, "message": "no"}}
    answer, body = await client("POST", MAPS, {"metadata": {"name": "a"}})
    assert (answer, body["code"]) == (expected, expected), body


async def test_later_webhooks_see_what_earlier_ones_added(client: Client, hooks: Hooks) -> None:
    await configure(client, hooks, "a", "b")
    added = {"name": "side", "image": "s"}
    hooks.replies["a"] = patch(("add", "/spec/containers/-", added), ("add", "/metadata/labels", {"by": "a"}))
    assert (await client("POST", PODS, POD))[0] == 201
    (_, first), (_, second) = hooks.seen
    assert first["object"]["spec"]["tolerations"]
    assert second["object"]["metadata"]["labels"] == {"by": "a"}
    assert second["object"]["spec"]["containers"][1]["terminationMessagePath"] == "/dev/termination-log"


async def test_subresources_are_seen_as_what_they_are(client: Client, hooks: Hooks) -> None:
    apps = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template, "replicas": 1}
    await client("POST", apps, {"metadata": {"name": "d"}, "spec": spec})
    await client("POST", PODS, POD)
    await configure(client, hooks, "h")
    hooks.replies["h"] = patch(("replace", "/spec/replicas", 7))
    code, scale = await client(
        "PATCH", f"{apps}/d/scale", {"spec": {"replicas": 5}}, media="application/merge-patch+json"
    )
    assert (code, scale["spec"]["replicas"]) == (200, 7), scale
    hooks.replies.clear()
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    assert (await client("POST", f"{PODS}/p/binding", binding))[0] == 201
    assert (await client("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}}))[0] == 201
    shown = [(r["operation"], r["subResource"], r["kind"]["kind"], r["object"]["kind"]) for _, r in hooks.seen]
    assert shown == [
        ("UPDATE", "scale", "Scale", "Scale"),
        ("CREATE", "binding", "Binding", "Binding"),
        ("CREATE", "eviction", "Eviction", "Eviction"),
    ]
    assert hooks.seen[0][1]["oldObject"]["spec"] == {"replicas": 1}
    assert hooks.seen[0][1]["resource"]["resource"] == "deployments"


async def test_webhooks_are_shown_no_certificate(client: Client, hooks: Hooks) -> None:
    await configure(client, hooks, "h")
    assert (await client("POST", MAPS, {"metadata": {"name": "a"}}))[0] == 201
    assert hooks.certificates == [None] or not any(hooks.certificates)


@pytest.mark.parametrize(("service", "code"), [("hook", 201), ("other", 500)])
async def test_the_certificate_of_a_service_names_it(client: Client, hooks: Hooks, service: str, code: int) -> None:
    client.server.resolver = lambda *_: hooks.url
    place = {"name": service, "namespace": "default", "path": "/h"}
    await configure(client, hooks, "h", clientConfig={"service": place, "caBundle": hooks.bundle})
    answer, body = await client("POST", MAPS, {"metadata": {"name": "a"}})
    assert answer == code, body


async def test_annotations_reach_the_audit_log(client: Client, hooks: Hooks) -> None:
    await configure(client, hooks, "v", kind="Validating")
    hooks.replies["v"] = {"auditAnnotations": {"k": "noted"}}
    await client("POST", MAPS, {"metadata": {"name": "a"}})
    path = client.server.settings.audit_log
    assert path is not None
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [r["annotations"] for r in records if r["name"] == "a"] == [{"v.example.com/k": "noted"}]


async def test_local_addresses_are_refused_by_default(tmp_path: Path, hooks: Hooks) -> None:
    settings = Settings(data_dir=tmp_path / "b", tokens={"admin": Identity("a", "a", ("system:masters",))}, tls=False)
    made = ApiServer(MemoryStore(), builtin_registry(), settings)
    await made.start()
    try:
        async with aiohttp.ClientSession(headers={"Authorization": "Bearer admin"}) as session:
            client = Client(made, session)
            await configure(client, hooks, "h")
            code, body = await client("POST", MAPS, {"metadata": {"name": "a"}})
        assert (code, "connections to 127.0.0.1 are not allowed" in body["message"]) == (500, True), body
        assert not hooks.seen
    finally:
        await made.stop()
