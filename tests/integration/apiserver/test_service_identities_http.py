"""Services before a server that decides by exactly their roles: what each is refused, and that accounts do as well."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import REGISTRY

from k8s.accounts import account_objects
from services._kit.credentials import kubeconfig
from services._kit.kube.client import ApiError
from services._rules.constants import NAMESPACE_CLUSTER
from services._rules.kubernetes.rbac.role_index import GROUP
from services._rules.kubernetes.rbac.service_roles import (
    CREDENTIALS,
    CREDENTIALS_NAMED,
    SERVICE_GROUP,
    SERVICE_NAMESPACE,
    SIGNER_OF_AGENTS,
    USERS,
    user_of,
)
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from tests.integration.apiserver.conftest import Client

READS_ALL = {"detector", "status_aggregator"}
"""Every kind may be a template: its object is read, and so are Secrets."""
SECRETS = "/api/v1/namespaces/{}/secrets"
RBAC = f"/apis/{GROUP}/v1"
POLICIES = "/apis/policy.karmada.io/v1alpha1"
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"

REFUSED: list[tuple[str, str, set[str]]] = [
    # Method, path, and the services that may do it.
    ("GET", SECRETS.format("default"), READS_ALL),
    ("GET", SECRETS.format("kube-system") + "/x", READS_ALL),
    ("GET", SECRETS.format(NAMESPACE_CLUSTER), READS_ALL | (set(CREDENTIALS) - {"gateway"})),
    ("POST", SECRETS.format("default"), set()),
    ("POST", SECRETS.format(NAMESPACE_CLUSTER), set()),
    ("PUT", SECRETS.format(NAMESPACE_CLUSTER) + "/x", set()),
    ("PATCH", SECRETS.format(NAMESPACE_CLUSTER) + "/x", {"detector"}),
    ("DELETE", SECRETS.format(NAMESPACE_CLUSTER) + "/x", set()),
    ("POST", f"{POLICIES}/namespaces/default/propagationpolicies", set()),
    ("PUT", f"{POLICIES}/namespaces/default/propagationpolicies/x", set()),
    ("DELETE", f"{POLICIES}/namespaces/default/propagationpolicies/x", set()),
    ("POST", f"{POLICIES}/clusteroverridepolicies", set()),
    ("DELETE", f"{POLICIES}/clusterpropagationpolicies/x", set()),
    ("PATCH", f"{POLICIES}/namespaces/default/overridepolicies/x", {"detector"}),
    ("POST", CLUSTERS, {SIGNER_OF_AGENTS}),
    ("DELETE", f"{CLUSTERS}/x", set()),
    ("GET", f"{CLUSTERS}/x/proxy", READS_ALL),
    ("POST", f"{CLUSTERS}/x/proxy", set()),
    ("DELETE", "/api/v1/namespaces/x", {"cluster_monitor"}),
    ("POST", "/api/v1/namespaces", {"cluster_monitor"}),
    ("PATCH", "/api/v1/namespaces/x", {"detector"}),
    ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", set()),
    ("POST", "/api/v1/namespaces/default/pods/x/exec", set()),
    ("POST", "/apis/apps/v1/namespaces/default/deployments", set()),
    ("DELETE", "/apis/apps/v1/namespaces/default/deployments/x", set()),
    ("POST", f"{RBAC}/clusterroles", set()),
    ("POST", f"{RBAC}/namespaces/default/roles", set()),
    ("POST", f"{RBAC}/namespaces/default/rolebindings", {"cluster_monitor"}),
    ("DELETE", f"{RBAC}/namespaces/default/rolebindings/x", set()),
    ("DELETE", f"{RBAC}/namespaces/default/rolebindings/{CREDENTIALS_NAMED}", {"cluster_monitor"}),
    ("POST", f"{RBAC}/clusterrolebindings", set()),
    ("PUT", f"{RBAC}/clusterroles/cluster-admin", set()),
    ("DELETE", f"{RBAC}/clusterrolebindings/cluster-admin", set()),
    ("PATCH", f"{RBAC}/clusterroles/cluster-admin", {"detector"}),
    ("POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", set()),
    ("PUT", "/apis/certificates.k8s.io/v1/certificatesigningrequests/x/approval", {SIGNER_OF_AGENTS}),
    ("POST", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", set()),
    ("POST", "/apis/apiregistration.k8s.io/v1/apiservices", set()),
    ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", set()),
    ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"gateway"}),
    ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"gateway"}),
    ("GET", "/metrics", set()),
]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    """One that holds the roles of services and those of every server; the tokens are the names of services."""
    tokens = {service: Identity(user_of(service), "", (SERVICE_GROUP,)) for service in USERS}
    tokens["admin"] = Identity("admin", "", ("system:masters",))
    settings = Settings(
        data_dir=tmp_path / "data",
        tokens=tokens,
        tls=False,
        authorization="Node,RBAC",
        service_roles=True,
        controllers=False,
    )
    made = ApiServer(MemoryStore(), builtin_registry(), settings)
    await made.start()
    yield made
    await made.stop()


async def test_services_are_refused_what_they_have_no_business_with(server: ApiServer) -> None:
    wrong = []
    async with aiohttp.ClientSession() as session:
        client = Client(server, session)
        for service in USERS:
            bearer = {"Authorization": f"Bearer {service}"}
            for method, path, permitted in REFUSED:
                # Nothing is changed by those that are allowed.
                code, _ = await client(method, f"{path}?dryRun=All", None if method == "GET" else {}, **bearer)
                if (code == 403) is (service in permitted):
                    wrong.append((service, method, path, code))
            for header in ({"Impersonate_User": "admin"}, {"Impersonate_User": "x", "Impersonate_Group": "y"}):
                code, _ = await client("GET", "/version", **bearer, **header)
                if code != 403:
                    wrong.append((service, "impersonate", str(header), code))
    assert not wrong


async def test_decisions_count_and_reviews_do_not(server: ApiServer) -> None:
    def count(user: str, allowed: str) -> float:
        labels = {"user": user, "verb": "delete", "group": "", "resource": "pods", "allowed": allowed}
        return REGISTRY.get_sample_value("fleetlog_apiserver_authorizations_total", labels) or 0.0

    user = user_of("webhook")
    before = count(user, "false")
    async with aiohttp.ClientSession() as session:
        client = Client(server, session)
        pod = "/api/v1/namespaces/default/pods/x"
        assert (await client("DELETE", pod, Authorization="Bearer webhook"))[0] == 403
        assert (await client("DELETE", pod, Authorization="Bearer admin"))[0] == 404
        spec = {"user": user, "resourceAttributes": {"verb": "delete", "resource": "pods", "namespace": "default"}}
        reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        assert (await client("POST", reviews, {"spec": spec}, Authorization="Bearer admin"))[0] == 201
    assert count(user, "false") == before + 1
    assert count("admin", "true") == 0


async def test_a_service_comes_with_a_token_that_is_read_again(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubeconfig, "LOOK_SECONDS", 0.0)
    file = tmp_path / "token"
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer admin"}) as session:
        client = Client(server, session)
        for manifest in account_objects():
            await create(client, manifest)

        async def write_token(account: str) -> None:
            path = f"/api/v1/namespaces/{SERVICE_NAMESPACE}/serviceaccounts/{account}/token"
            code, answer = await client("POST", path, {"spec": {"expirationSeconds": 600}})
            assert code == 201, answer
            file.write_text(answer["status"]["token"])

        await write_token("executor")
        config = tmp_path / "kubeconfig"
        config.write_text(json.dumps(kubeconfig_with_token(server.url)))
        opened = await kubeconfig.open_kubeconfig(config)
        try:
            secrets = SECRETS.format(NAMESPACE_CLUSTER)
            assert (await opened.get(secrets))["items"] == []
            with pytest.raises(ApiError, match="serviceaccount:fleetlog-system:executor"):
                await opened.get(SECRETS.format("default"))
            await write_token("webhook")
            with pytest.raises(ApiError, match="serviceaccount:fleetlog-system:webhook"):
                await opened.get(secrets)
        finally:
            await opened.close()


async def create(client: Client, manifest: dict[str, Any]) -> None:
    """Create an object; one that is there may stay."""
    root = "/api/v1" if manifest["apiVersion"] == "v1" else f"/apis/{manifest['apiVersion']}"
    space = manifest["metadata"].get("namespace")
    path = f"{root}/namespaces/{space}" if space else root
    code, answer = await client("POST", f"{path}/{manifest['kind'].lower()}s", manifest)
    assert code == 201, answer


def kubeconfig_with_token(server: str) -> dict[str, Any]:
    """A kubeconfig whose user has its token in a file beside it."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "c", "user": {"tokenFile": "token"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
