"""Secrets with tokens of service accounts: they are filled, authenticate, and go with their account."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from tests.integration.apiserver.core_objects import until_gone
from tests.support.waiting import eventually

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
SECRETS = "/api/v1/namespaces/default/secrets"
NAME = "kubernetes.io/service-account.name"


def secret(name: str, account: str, **annotations: str) -> dict[str, Any]:
    meta = {"name": name, "annotations": {NAME: account, **annotations}}
    return {"metadata": meta, "type": "kubernetes.io/service-account-token"}


async def filled(client: Any, name: str) -> dict[str, Any]:
    """A Secret once it holds a token."""

    async def look() -> dict[str, Any] | None:
        code, found = await client("GET", f"{SECRETS}/{name}")
        assert code == 200, found
        return dict(found) if (found.get("data") or {}).get("token") else None

    secret: dict[str, Any] = await eventually(look, f"a token in {name}")
    return secret


async def user_of(client: Any, token: str) -> tuple[int, str]:
    """The status of a request with a token, and who it is from."""
    path = f"{client.server.url}/apis/authentication.k8s.io/v1/selfsubjectreviews"
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:
        body = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
        async with session.post(path, json=body) as response:
            answer = await response.json()
            return response.status, answer["status"]["userInfo"]["username"] if response.ok else ""


@pytest.fixture(autouse=True)
def forgetful(client: Any) -> None:
    """Every request looks whether what its token names is still there."""
    client.server.authenticator.remembered = 0.0


@pytest.fixture
async def robot(client: Any) -> dict[str, Any]:
    """A service account."""
    code, made = await client("POST", ACCOUNTS, {"metadata": {"name": "robot"}})
    assert code == 201, made
    return dict(made)


async def test_a_token_secret_is_filled_and_authenticates(client: Any, robot: dict[str, Any]) -> None:
    await client("POST", SECRETS, secret("t", "robot"))
    found = await filled(client, "t")
    assert base64.b64decode(found["data"]["namespace"]) == b"default"
    assert found["metadata"]["annotations"]["kubernetes.io/service-account.uid"] == robot["metadata"]["uid"]
    token = base64.b64decode(found["data"]["token"]).decode()
    assert await user_of(client, token) == (201, "system:serviceaccount:default:robot")
    await client("DELETE", f"{SECRETS}/t")
    assert await user_of(client, token) == (401, "")


async def test_a_token_that_was_taken_out_is_replaced(client: Any, robot: dict[str, Any]) -> None:
    await client("POST", SECRETS, secret("t", "robot"))
    token = base64.b64decode((await filled(client, "t"))["data"]["token"]).decode()
    await client("PATCH", f"{SECRETS}/t", {"data": {"token": None}}, media="application/merge-patch+json")
    other = base64.b64decode((await filled(client, "t"))["data"]["token"]).decode()
    assert [(await user_of(client, one))[0] for one in (token, other)] == [401, 201]


async def test_token_secrets_go_with_their_account(client: Any, robot: dict[str, Any]) -> None:
    await client("POST", SECRETS, secret("t", "robot"))
    await client("POST", SECRETS, {"metadata": {"name": "plain"}, "data": {"token": "eA=="}})
    token = base64.b64decode((await filled(client, "t"))["data"]["token"]).decode()
    _, answer = await client("POST", f"{ACCOUNTS}/robot/token", {"spec": {"expirationSeconds": 600}})
    asked = answer["status"]["token"]
    assert (await user_of(client, asked))[0] == 201
    await client("DELETE", f"{ACCOUNTS}/robot")
    await until_gone(client, f"{SECRETS}/t")
    assert [(await user_of(client, one))[0] for one in (token, asked)] == [401, 401]
    # Another account of the name is not the one that the tokens are of.
    await client("POST", ACCOUNTS, {"metadata": {"name": "robot"}})
    assert [(await user_of(client, one))[0] for one in (token, asked)] == [401, 401]
    assert (await client("GET", f"{SECRETS}/plain"))[0] == 200


async def test_a_token_secret_without_an_account_is_deleted(client: Any, robot: dict[str, Any]) -> None:
    uid = {"kubernetes.io/service-account.uid": "another"}
    for name, body in (("a", secret("a", "nobody")), ("b", secret("b", "robot", **uid))):
        assert (await client("POST", SECRETS, body))[0] == 201
        await until_gone(client, f"{SECRETS}/{name}")
    body = {"metadata": {"name": "c"}, "type": "kubernetes.io/service-account-token"}
    code, answer = await client("POST", SECRETS, body)
    assert (code, answer["details"]["causes"][0]["field"]) == (422, f"metadata.annotations[{NAME}]")


async def test_a_token_bound_to_a_secret_ends_with_it(client: Any, robot: dict[str, Any]) -> None:
    await client("POST", SECRETS, {"metadata": {"name": "bound"}})
    spec = {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "bound"}}
    _, answer = await client("POST", f"{ACCOUNTS}/robot/token", {"spec": spec})
    token = answer["status"]["token"]
    assert (await user_of(client, token))[0] == 201
    await client("DELETE", f"{SECRETS}/bound")
    assert (await user_of(client, token))[0] == 401


async def test_a_start_fills_what_was_there_with_its_authority(tmp_path: Path) -> None:
    store = MemoryStore()
    before = ApiServer(store, builtin_registry(), Settings(data_dir=tmp_path / "before", controllers=False))
    await before.start()
    server = ApiServer(store, builtin_registry(), Settings(data_dir=tmp_path / "data"))
    body = secret("t", "robot")
    body["metadata"]["namespace"] = "default"
    await before.local.create("v1", "serviceaccounts", {"metadata": {"name": "robot", "namespace": "default"}})
    assert "data" not in await before.local.create("v1", "secrets", body)
    await server.start()
    try:
        async with asyncio.timeout(60):
            async for _, found in server.local.watch("v1", "secrets", "default", name="t"):
                if (found.get("data") or {}).get("token"):
                    break
        assert server.authority is not None
        assert base64.b64decode(found["data"]["ca.crt"]) == server.authority.ca_pem
    finally:
        await server.stop()
        await before.stop()
