"""ResourceQuotas: measured by the server, kept when many write at once, and counted down when objects go."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from services._rules.constants import PROPAGATION_POLICY_ID_LABEL
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from tests.integration.apiserver.conftest import Client

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"


async def limit(client: Client, hard: dict[str, str], **meta: Any) -> None:
    code, body = await client("POST", QUOTAS, {"metadata": {"name": "q", **meta}, "spec": {"hard": hard}})
    assert code == 201, body


async def until(server: ApiServer, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The status of the quota once it fits."""
    async with asyncio.timeout(60):
        async for _, obj in server.local.watch("v1", "resourcequotas", "default"):
            if fits(obj.get("status") or {}):
                return dict(obj.get("status") or {})
    raise AssertionError("the watch ended")


async def test_a_new_quota_is_measured(client: Client, server: ApiServer) -> None:
    await client("POST", MAPS, {"metadata": {"name": "a"}})
    await limit(client, {"count/configmaps": "5", "cpu": "1", "count/things.example.com": "1"})
    state = await until(server, bool)
    assert state["hard"] == {"count/configmaps": "5", "cpu": "1", "count/things.example.com": "1"}
    assert (state["used"].pop("count/configmaps") in ("1", "2"), state["used"]) == (True, {"cpu": "0"})


async def test_writes_at_once_cannot_both_take_the_last(client: Client, server: ApiServer) -> None:
    await limit(client, {"secrets": "3"})
    await until(server, bool)
    path = "/api/v1/namespaces/default/secrets"
    answers = await asyncio.gather(*(client("POST", path, {"metadata": {"name": f"s{n}"}}) for n in range(12)))
    assert sorted(code for code, _ in answers) == [201] * 3 + [403] * 9
    refused = next(body for code, body in answers if code == 403)
    assert refused["message"].endswith("exceeded quota: q, requested: secrets=1, used: secrets=3, limited: secrets=3")
    assert (await until(server, bool))["used"] == {"secrets": "3"}


async def test_what_goes_makes_room_again(client: Client, server: ApiServer) -> None:
    await limit(client, {"services": "1", "services.nodeports": "1"})
    await until(server, bool)
    path = "/api/v1/namespaces/default/services"
    spec = {"type": "NodePort", "ports": [{"port": 80}]}
    assert (await client("POST", path, {"metadata": {"name": "a"}, "spec": spec}))[0] == 201
    assert (await client("POST", path, {"metadata": {"name": "b"}, "spec": {"ports": [{"port": 80}]}}))[0] == 403
    code, body = await client("PATCH", f"{path}/a", {"spec": {"type": "ClusterIP"}}, media=MERGE)
    assert code == 200, body
    await until(server, lambda state: state["used"] == {"services": "1", "services.nodeports": "0"})
    await client("DELETE", f"{path}/a")
    await until(server, lambda state: state["used"]["services"] == "0")
    assert (await client("POST", path, {"metadata": {"name": "b"}, "spec": spec}))[0] == 201


async def test_a_change_of_the_limits_is_followed(client: Client, server: ApiServer) -> None:
    await limit(client, {"secrets": "0"})
    await until(server, bool)
    code, _ = await client("PATCH", f"{QUOTAS}/q", {"spec": {"hard": {"secrets": None, "pods": "1"}}}, media=MERGE)
    assert code == 200
    state = await until(server, lambda state: "pods" in state["hard"])
    assert state == {"hard": {"pods": "1"}, "used": {"pods": "0"}}


async def test_dry_runs_are_checked_and_not_charged(client: Client, server: ApiServer) -> None:
    await limit(client, {"secrets": "1"})
    await until(server, bool)
    path = "/api/v1/namespaces/default/secrets"
    assert (await client("POST", f"{path}?dryRun=All", {"metadata": {"name": "a"}}))[0] == 201
    assert (await client("POST", path, {"metadata": {"name": "a"}}))[0] == 201
    assert (await client("POST", f"{path}?dryRun=All", {"metadata": {"name": "b"}}))[0] == 403


async def test_a_quota_of_a_policy_limits_nothing_here(client: Client, server: ApiServer) -> None:
    await limit(client, {"secrets": "0"})
    await until(server, bool)
    labels = {PROPAGATION_POLICY_ID_LABEL: "id"}
    await client("PATCH", f"{QUOTAS}/q", {"metadata": {"labels": labels}}, media=MERGE)
    await until(server, lambda state: not state)
    assert (await client("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "a"}}))[0] == 201


@pytest.fixture
async def alone() -> AsyncIterator[ApiServer]:
    """A server without controllers."""
    made = ApiServer(MemoryStore(), builtin_registry(), Settings(tls=False, controllers=False))
    await made.start()
    yield made
    await made.stop()


async def test_without_controllers_only_a_written_status_counts(alone: ApiServer) -> None:
    local = alone.local
    quota = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"configmaps": "0"}}}
    await local.create("v1", "resourcequotas", quota)
    await local.create("v1", "configmaps", {"metadata": {"name": "a", "namespace": "default"}})
    found = local.get("v1", "resourcequotas", "default", "q")
    assert found is not None
    assert not found["status"]
