"""Bindings by which services read credentials in namespaces that Clusters name, written with the monitor's rights."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._rules.constants import NAMESPACE_CLUSTER
from services._rules.kubernetes.rbac.credential_bindings import bindings_of
from services._rules.kubernetes.rbac.role_index import GROUP
from services._rules.kubernetes.rbac.service_roles import (
    CREDENTIALS,
    CREDENTIALS_NAMED,
    RULES,
    account_of,
    user_of,
)
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from services.cluster_monitor.control_writes import keep_bindings

NAMESPACES = resource_path("", "v1", "namespaces")
As = Callable[[str], KubeClient]


@pytest.fixture
async def acting(tmp_path: Path) -> AsyncIterator[As]:
    """Clients of services, and of an administrator, at a server that decides by their roles; it has namespace `x`."""
    tokens = {service: Identity(user_of(service)) for service in RULES}
    tokens["admin"] = Identity("admin", "", ("system:masters",))
    settings = Settings(
        data_dir=tmp_path, tokens=tokens, tls=False, authorization="Node,RBAC", service_roles=True, controllers=False
    )
    async with AsyncExitStack() as stack:
        server = ApiServer(MemoryStore(), builtin_registry(), settings)
        await server.start()
        stack.push_async_callback(server.stop)
        clients = {token: KubeClient.from_token(server.url, token) for token in tokens}
        for client in clients.values():
            stack.push_async_callback(client.close)
        await clients["admin"].create(NAMESPACES, {"metadata": {"name": "x"}})
        yield clients.__getitem__


def bindings(namespace: str, name: str = "") -> str:
    return resource_path(GROUP, "v1", "rolebindings", namespace, name)


async def readers(acting: As, namespace: str) -> set[str]:
    """The services that may get Secrets of a namespace by right of credentials."""
    found = set()
    for service in CREDENTIALS:
        try:
            await acting(service).get(resource_path("", "v1", "secrets", namespace, "m1"))
        except ApiError as error:
            found |= {service} if error.status == 404 else set()
    return found


async def test_bindings_come_and_go_with_namespaces(acting: As) -> None:
    monitor = acting("cluster_monitor")
    assert await readers(acting, "x") == set()
    assert await keep_bindings(monitor, {"x"}) == {}
    assert await readers(acting, "x") == set(CREDENTIALS)
    assert await readers(acting, "default") == set()
    with pytest.raises(ApiError, match="forbidden"):
        await acting("gateway").get(resource_path("", "v1", "secrets", "x"))
    assert await keep_bindings(monitor, ()) == {}
    assert await readers(acting, "x") == set()


async def test_accounts_of_services_are_bound_as_well(acting: As) -> None:
    monitor, admin = acting("cluster_monitor"), acting("admin")
    await keep_bindings(monitor, {"x"})
    (made,) = [one for one in bindings_of(NAMESPACE_CLUSTER) if one["metadata"]["name"] == CREDENTIALS_NAMED]
    metadata = {"name": "accounts", "namespace": NAMESPACE_CLUSTER}
    accounts = {**made, "metadata": metadata, "subjects": [account_of("gateway")]}
    await admin.create(bindings(NAMESPACE_CLUSTER), accounts)
    await keep_bindings(monitor, {"x"})
    assert account_of("gateway") in (await admin.get(bindings("x", CREDENTIALS_NAMED)))["subjects"]


async def test_bindings_of_others_stay(acting: As) -> None:
    monitor, admin = acting("cluster_monitor"), acting("admin")
    for made in bindings_of("x"):
        del made["metadata"]["labels"]
        await admin.create(bindings("x"), made)
    assert await keep_bindings(monitor, {"x"}) == {}
    assert await keep_bindings(monitor, ()) == {}
    assert await readers(acting, "x") == set(CREDENTIALS)


async def test_reasons_are_told_by_namespace(acting: As) -> None:
    refused = await keep_bindings(acting("cluster_monitor"), {"x", "nowhere"})
    assert set(refused) == {"nowhere"}
    assert 'namespaces "nowhere" not found' in refused["nowhere"]
    assert "cannot list" in (await keep_bindings(acting("executor"), {"x"}))["x"]


async def test_the_monitor_binds_no_other_role(acting: As) -> None:
    (made, _) = bindings_of("x")
    wide = {**made, "roleRef": {**made["roleRef"], "name": "admin"}}
    with pytest.raises(ApiError, match="not currently held"):
        await acting("cluster_monitor").create(bindings("x"), wide)
