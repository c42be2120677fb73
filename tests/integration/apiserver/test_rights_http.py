"""Requests where roles decide: users without rights, kubelets, aggregated roles, and who grants what."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from services._rules.kubernetes.rbac.role_index import GROUP
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from tests.integration.apiserver.conftest import Client
from tests.support.waiting import eventually

RBAC = f"/apis/{GROUP}/v1"
NODE = Identity("system:node:n1", "", ("system:nodes",))
TOKENS = {
    "admin": Identity("admin", "admin", ("system:masters",)),
    "jane": Identity("jane", "u1", ("devs",)),
    "node": NODE,
    "scraper": Identity("scraper", "", ("system:monitoring",)),
}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    """One that decides by roles."""
    settings = Settings(
        data_dir=tmp_path / "data",
        tokens=TOKENS,
        tls=False,
        authorization="Node,RBAC",
        service_roles=True,
        audit_log=tmp_path / "audit.jsonl",
        bootstrap_tokens=True,
    )
    made = ApiServer(MemoryStore(), builtin_registry(), settings)
    await made.start()
    yield made
    await made.stop()


class As:
    """Requests of one bearer; an empty token for none."""

    def __init__(self, server: ApiServer, session: aiohttp.ClientSession, token: str) -> None:
        self._client = Client(server, session)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {"Authorization": "None"}

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        return await self._client(method, path, body, **{**self._headers, **headers})


@pytest.fixture
async def bearer(server: ApiServer) -> AsyncIterator[Any]:
    """Makes clients for tokens."""
    async with aiohttp.ClientSession() as session:
        yield lambda token: As(server, session, token)


def rule(verbs: str, groups: str, resources: str) -> dict[str, Any]:
    return {"verbs": verbs.split(","), "apiGroups": groups.split(","), "resources": resources.split(",")}


async def test_users_without_rights_are_refused(bearer: Any) -> None:
    jane = bearer("jane")
    for method, path, body in (
        ("GET", "/api/v1/namespaces/kube-system/secrets", None),
        ("POST", f"{RBAC}/clusterrolebindings", {"metadata": {"name": "x"}}),
        ("DELETE", "/api/v1/namespaces/kube-node-lease?dryRun=All", None),
        ("GET", "/metrics", None),
    ):
        code, answer = await jane(method, path, body)
        assert (code, answer["reason"]) == (403, "Forbidden"), path
    code, _ = await jane("GET", "/api/v1/pods", Impersonate_User="admin", Impersonate_Group="system:masters")
    assert code == 403
    assert (await bearer("scraper")("GET", "/metrics"))[0] == 200


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
async def test_anybody_may_ask_for_health_and_version(bearer: Any, path: str) -> None:
    assert (await bearer("")("GET", path))[0] == 200


@pytest.mark.parametrize("path", ["/api", "/apis", "/openapi/v2", "/metrics", "/api/v1/pods", "/openid/v1/jwks"])
async def test_the_anonymous_are_refused_everything_else(bearer: Any, path: str) -> None:
    code, answer = await bearer("")("GET", path)
    assert (code, "system:anonymous" in answer["message"]) == (403, True)


@pytest.mark.parametrize("token", ["wrong", "a.b.c", "ünïcode", "\N{SNOWMAN}.b.c", "abcdef.0123456789abcdeé"])
async def test_bad_tokens_are_401(bearer: Any, token: str) -> None:
    assert (await bearer(token)("GET", "/version"))[0] == 401


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Basic eDp5"])
async def test_headers_without_a_token_are_anonymous(bearer: Any, header: str) -> None:
    anybody = bearer("")
    assert (await anybody("GET", "/version", Authorization=header))[0] == 200
    assert (await anybody("GET", "/api", Authorization=header))[0] == 403


async def test_refusals_are_in_the_audit_log(bearer: Any, server: ApiServer) -> None:
    await bearer("jane")("GET", "/api/v1/namespaces/default/secrets/x")
    assert server.settings.audit_log is not None
    (line,) = [text for text in server.settings.audit_log.read_text().splitlines() if '"refused":true' in text]
    assert '"user":"jane"' in line
    assert '"resource":"secrets"' in line


@pytest.mark.parametrize("way", ["apply", "change set"])
async def test_refused_creations_are_in_the_audit_log(bearer: Any, server: ApiServer, way: str) -> None:
    admin, jane = bearer("admin"), bearer("jane")
    rules = [rule("patch,get", "", "configmaps"), rule("create", "fleetlog.io", "changesets")]
    await admin("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "patches"}, "rules": rules})
    subjects = [{"apiGroup": GROUP, "kind": "User", "name": "jane"}]
    granted = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "patches"}
    await admin(
        "POST", f"{RBAC}/clusterrolebindings", {"metadata": {"name": "p"}, "subjects": subjects, "roleRef": granted}
    )
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new", "namespace": "default"}}
    asked: list[Any] = ["PATCH", "/api/v1/namespaces/default/configmaps/new?fieldManager=j", made]
    kind = "application/apply-patch+yaml"
    if way == "change set":
        kind = "application/json"
        body = {"apiVersion": "fleetlog.io/v1alpha1", "kind": "ChangeSet", "items": [made]}
        asked = ["POST", "/apis/fleetlog.io/v1alpha1/changesets", body]

    async def refused() -> list[str]:
        code, _ = await jane(*asked, Content_Type=kind)
        assert server.settings.audit_log is not None
        text = server.settings.audit_log.read_text() if server.settings.audit_log.exists() else ""
        lines = [line for line in text.splitlines() if '"refused":true' in line and '"resource":"configmaps"' in line]
        return lines if code == 403 else []

    (line,) = await eventually(refused)
    assert '"user":"jane"' in line
    assert '"verb":"create"' in line


async def test_aggregated_roles_follow_what_they_select(bearer: Any) -> None:
    admin = bearer("admin")
    labels = {f"{GROUP}/aggregate-to-view": "true"}
    role = {"metadata": {"name": "extra", "labels": labels}, "rules": [rule("get", "example.io", "things")]}
    assert (await admin("POST", f"{RBAC}/clusterroles", role))[0] == 201

    async def held(name: str) -> bool:
        _, found = await admin("GET", f"{RBAC}/clusterroles/{name}")
        return any("things" in one.get("resources", ()) for one in found["rules"])

    for name in ("view", "edit", "admin"):
        await eventually(lambda name=name: held(name))
    assert (await admin("DELETE", f"{RBAC}/clusterroles/extra"))[0] == 200

    async def dropped() -> bool:
        return not (await held("view") or await held("edit") or await held("admin"))

    await eventually(dropped)


async def test_own_aggregated_roles_are_filled(bearer: Any) -> None:
    admin = bearer("admin")
    selectors = [{"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]}]
    for name, labels, resource in (("one", {"team": "a"}, "pods"), ("two", {"team": "c"}, "services")):
        body = {"metadata": {"name": name, "labels": labels}, "rules": [rule("get", "", resource)]}
        assert (await admin("POST", f"{RBAC}/clusterroles", body))[0] == 201
    sums = {"metadata": {"name": "sum"}, "aggregationRule": {"clusterRoleSelectors": selectors}, "rules": None}
    assert (await admin("POST", f"{RBAC}/clusterroles", sums))[0] == 201

    async def rules() -> list[Any]:
        return (await admin("GET", f"{RBAC}/clusterroles/sum"))[1].get("rules") or []

    assert [one["resources"] for one in await eventually(rules)] == [["pods"]]


async def test_tenants_of_edit_reach_the_kinds_of_karmada(bearer: Any, server: ApiServer) -> None:
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "edit"}
    subjects = [{"apiGroup": GROUP, "kind": "User", "name": "jane"}]
    body = {"metadata": {"name": "jane"}, "roleRef": reference, "subjects": subjects}
    path = f"{RBAC}/namespaces/default/rolebindings"
    assert (await bearer("admin")("POST", path, body))[0] == 201

    async def allowed(verb: str, resource: str) -> bool:
        attributes = {"verb": verb, "group": "policy.karmada.io", "resource": resource, "namespace": "default"}
        review = {"spec": {"resourceAttributes": attributes}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        return bool((await bearer("jane")("POST", path, review))[1]["status"]["allowed"])

    await eventually(lambda: allowed("create", "propagationpolicies"))
    assert await allowed("list", "federatedresourcequotas")
    assert not await allowed("update", "federatedresourcequotas")
    assert not await allowed("create", "clusterpropagationpolicies")


async def test_a_broken_binding_is_named_in_rules_reviews(bearer: Any) -> None:
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "missing"}
    subjects = [{"apiGroup": GROUP, "kind": "User", "name": "jane"}]
    body = {"metadata": {"name": "jane"}, "roleRef": reference, "subjects": subjects}
    assert (await bearer("admin")("POST", f"{RBAC}/clusterrolebindings", body))[0] == 201
    review = {"spec": {"namespace": "default"}}
    _, found = await bearer("jane")("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review)
    assert found["status"]["evaluationError"] == f'RBAC: clusterrole.{GROUP} "missing" not found'
    assert found["status"]["resourceRules"]


async def pod(admin: Any, name: str, node: str, secret: str) -> None:
    volume = {"name": "v", "secret": {"secretName": secret}}
    container = {"name": "c", "image": "i"}
    spec = {"nodeName": node, "serviceAccountName": name, "containers": [container], "volumes": [volume]}
    code, made = await admin("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": name}, "spec": spec})
    assert code == 201, made


async def test_a_kubelet_reads_what_its_pods_refer_to(bearer: Any) -> None:
    admin, node = bearer("admin"), bearer("node")
    await pod(admin, "here", "n1", "mine")
    await pod(admin, "there", "n2", "theirs")
    secrets = "/api/v1/namespaces/default/secrets"
    for name in ("mine", "theirs", "other"):
        assert (await admin("POST", secrets, {"metadata": {"name": name}}))[0] == 201
    codes = [(await node("GET", f"{secrets}/{name}"))[0] for name in ("mine", "theirs", "other")]
    assert codes == [200, 403, 403]
    code, answer = await node("GET", secrets)
    assert (code, "can only read individual resources of this type" in answer["message"]) == (403, True)
    for name in ("here", "there"):
        code, _ = await admin("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
        assert code == 201
    tokens = [
        (await node("POST", f"/api/v1/namespaces/default/serviceaccounts/{name}/token", {"spec": {}}))[0]
        for name in ("here", "there")
    ]
    assert tokens == [201, 403]


async def test_a_kubelet_writes_its_own_node_lease_and_pods(bearer: Any) -> None:
    admin, node = bearer("admin"), bearer("node")
    nodes, merge = "/api/v1/nodes", {"Content_Type": "application/merge-patch+json"}
    assert (await node("POST", nodes, {"metadata": {"name": "n2"}}))[0] == 403
    assert (await node("POST", nodes, {"metadata": {"name": "n1"}}))[0] == 201
    assert (await admin("POST", nodes, {"metadata": {"name": "n2"}}))[0] == 201
    assert (await node("GET", f"{nodes}/n1"))[0] == 200
    assert (await node("GET", f"{nodes}/n2"))[0] == 403
    for path, body, wanted in (
        (f"{nodes}/n1", {"metadata": {"labels": {"a": "b"}}}, 200),
        (f"{nodes}/n2", {"metadata": {"labels": {"a": "b"}}}, 403),
        (f"{nodes}/n1", {"metadata": {"labels": {"node-restriction.kubernetes.io/x": "b"}}}, 403),
        (f"{nodes}/n1", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}, 403),
    ):
        assert (await node("PATCH", path, body, **merge))[0] == wanted, (path, body)
    leases = "/apis/coordination.k8s.io/v1/namespaces"
    places = (("kube-node-lease", "n1", 201), ("kube-node-lease", "n2", 403), ("default", "n1", 403))
    for namespace, name, wanted in places:
        body = {"metadata": {"name": name}, "spec": {}}
        assert (await node("POST", f"{leases}/{namespace}/leases", body))[0] == wanted, (namespace, name)
    await pod(admin, "here", "n1", "mine")
    await pod(admin, "there", "n2", "theirs")
    pods, status = "/api/v1/namespaces/default/pods", {"status": {"phase": "Running"}}
    codes = [(await node("PATCH", f"{pods}/{name}/status", status, **merge))[0] for name in ("here", "there")]
    assert codes == [200, 403]
    assert (await node("DELETE", f"{pods}/there"))[0] == 403
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    assert (await node("POST", pods, {"metadata": {"name": "new"}, "spec": spec}))[0] == 403


async def test_only_who_escalates_grants_more_than_it_holds(bearer: Any) -> None:
    admin, jane = bearer("admin"), bearer("jane")
    role = {"metadata": {"name": "writer"}, "rules": [rule("create,update,get", GROUP, "roles,rolebindings")]}
    assert (await admin("POST", f"{RBAC}/namespaces/default/roles", role))[0] == 201
    binding = {
        "metadata": {"name": "writer"},
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "writer"},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "jane"}],
    }
    assert (await admin("POST", f"{RBAC}/namespaces/default/rolebindings", binding))[0] == 201
    more = {"metadata": {"name": "more"}, "rules": [rule("get", "", "secrets")]}
    code, answer = await jane("POST", f"{RBAC}/namespaces/default/roles", more)
    assert (code, "attempting to grant RBAC permissions not currently held" in answer["message"]) == (403, True)
    mine = {
        **binding,
        "metadata": {"name": "mine"},
        "roleRef": {**binding["roleRef"], "kind": "ClusterRole", "name": "admin"},
    }
    assert (await jane("POST", f"{RBAC}/namespaces/default/rolebindings", mine))[0] == 403
    held = {"metadata": {"name": "held"}, "rules": [rule("get", GROUP, "roles")]}
    assert (await jane("POST", f"{RBAC}/namespaces/default/roles", held))[0] == 201


async def test_a_start_completes_default_roles(tmp_path: Path) -> None:
    store = MemoryStore()
    settings = Settings(data_dir=tmp_path, tls=False, authorization="RBAC", controllers=False, service_roles=True)
    first = ApiServer(store, builtin_registry(), settings)
    await first.start()
    try:
        for name, keep in (("system:discovery", "true"), ("system:basic-user", "false")):
            change = {
                "metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": keep}},
                "rules": [rule("get", "", "pods")],
            }
            await first.local.patch(f"{GROUP}/v1", "clusterroles", "", name, change)
        await first.local.patch(f"{GROUP}/v1", "clusterroles", "", "fleetlog:webhook", {"rules": [rule("*", "*", "*")]})
        await first.local.patch(f"{GROUP}/v1", "clusterrolebindings", "", "system:discovery", {"subjects": None})
        before = {
            name: first.local.get(f"{GROUP}/v1", "clusterroles", "", name) for name in ("view", "fleetlog:detector")
        }
        second = ApiServer(store, builtin_registry(), settings)
        await second.start()
        try:
            get = second.local.get

            def rules(name: str) -> Any:
                return (get(f"{GROUP}/v1", "clusterroles", "", name) or {})["rules"]

            assert rules("system:discovery")[0] == rule("get", "", "pods")
            assert len(rules("system:discovery")) == 2
            assert rules("system:basic-user") == [rule("get", "", "pods")]
            assert rule("*", "*", "*") not in rules("fleetlog:webhook")
            binding = get(f"{GROUP}/v1", "clusterrolebindings", "", "system:discovery") or {}
            assert [one["name"] for one in binding["subjects"]] == ["system:authenticated"]
            # What was right is not written again.
            assert {name: get(f"{GROUP}/v1", "clusterroles", "", name) for name in before} == before
        finally:
            await second.stop()
    finally:
        await first.stop()


async def test_approval_needs_a_right_on_the_signer(bearer: Any) -> None:
    admin, jane = bearer("admin"), bearer("jane")
    requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    subjects = [{"apiGroup": GROUP, "kind": "User", "name": "jane"}]

    async def grant(name: str, *rules: dict[str, Any]) -> None:
        role = {"metadata": {"name": name}, "rules": list(rules)}
        assert (await admin("POST", f"{RBAC}/clusterroles", role))[0] == 201
        reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
        body = {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}
        assert (await admin("POST", f"{RBAC}/clusterrolebindings", body))[0] == 201

    await grant("approver", rule("get,update", "certificates.k8s.io", "certificatesigningrequests/approval"))
    spec = {"signerName": "example.com/own", "usages": ["client auth"], "request": signing_request()}
    code, made = await admin("POST", requests, {"metadata": {"name": "r"}, "spec": spec})
    assert code == 201, made
    made["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Ok", "message": "ok"}]}
    code, answer = await jane("PUT", f"{requests}/r/approval", made)
    text = 'user not permitted to approve requests with signerName "example.com/own"'
    assert (code, text in answer["message"]) == (403, True), answer
    await grant("signer", {**rule("approve", "certificates.k8s.io", "signers"), "resourceNames": ["example.com/*"]})
    assert (await jane("PUT", f"{requests}/r/approval", made))[0] == 200


def signing_request() -> str:
    """A request for a certificate in PEM, in base64."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "me")])
    made = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()
