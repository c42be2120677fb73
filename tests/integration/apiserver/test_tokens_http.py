"""Tokens over HTTP: what they are bound to, how others check them, and users of an OpenID Connect provider."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa

from services.apiserver.auth.certificate_authority import Authority
from services.apiserver.auth.openid_tokens import OpenIdSettings
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from tests.integration.apiserver.conftest import Client
from tests.support.waiting import eventually

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


class Provider:
    """An OpenID Connect provider; what it publishes can be changed."""

    def __init__(self, directory: Path) -> None:
        self._authority = Authority(directory, "provider")
        self._authority.load()
        self.ca_file = self._authority.ca_file
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.issuer = ""
        self._runner: web.ServerRunner | None = None

    async def start(self) -> None:
        cert, key = self._authority.server(("localhost",))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(cert, key)
        self._runner = web.ServerRunner(web.Server(self._answer))
        await self._runner.setup()
        site = web.TCPSite(self._runner, "localhost", 0, ssl_context=context)
        await site.start()
        assert site._server is not None
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        self.issuer = f"https://localhost:{port}"

    async def stop(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        if request.path == "/keys":
            public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
            return web.json_response({"keys": [{**public, "kid": "one"}]})
        return web.json_response({"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"})

    def token(self, **claims: Any) -> str:
        """A token of Jane."""
        basic = {"iss": self.issuer, "aud": "kubernetes", "sub": "jane", "exp": time.time() + 600, "groups": ["devs"]}
        return jwt.encode({**basic, **claims}, self.key, algorithm="RS256", headers={"kid": "one"})


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[Provider]:
    made = Provider(tmp_path / "provider")
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def server(tmp_path: Path, provider: Provider) -> AsyncIterator[ApiServer]:
    openid = OpenIdSettings(
        issuer=provider.issuer,
        client="kubernetes",
        groups_claim="groups",
        username_prefix="oidc:",
        ca_file=provider.ca_file,
    )
    tokens = {"admin": Identity("admin", "admin", ("system:masters",))}
    settings = Settings(data_dir=tmp_path / "data", tokens=tokens, tls=False, authorization="Node,RBAC", openid=openid)
    made = ApiServer(MemoryStore(), builtin_registry(), settings)
    made.authenticator.remembered = 0.0
    await made.start()
    yield made
    await made.stop()


async def who(client: Client, token: str) -> dict[str, Any]:
    """The user that a token stands for; empty for a bad one."""
    code, answer = await client("POST", WHOAMI, {"kind": "SelfSubjectReview"}, Authorization=f"Bearer {token}")
    return dict(answer["status"]["userInfo"]) if code == 201 else {}


async def account(client: Client, name: str = "robot") -> dict[str, Any]:
    code, made = await client("POST", ACCOUNTS, {"metadata": {"name": name}})
    assert code == 201, made
    return dict(made)


async def token_of(client: Client, spec: dict[str, Any], name: str = "robot") -> str:
    code, made = await client("POST", f"{ACCOUNTS}/{name}/token", {"spec": spec})
    assert code == 201, made
    return str(made["status"]["token"])


async def pod(client: Client, name: str = "p", account: str = "robot") -> dict[str, Any]:
    spec = {"serviceAccountName": account, "containers": [{"name": "c", "image": "i"}]}
    code, made = await client("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": name}, "spec": spec})
    assert code == 201, made
    return dict(made)


async def test_a_token_ends_with_the_pod_it_is_bound_to(client: Client) -> None:
    await account(client)
    made = await pod(client)
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": made["metadata"]["uid"]}
    token = await token_of(client, {"boundObjectRef": bound})
    user = await who(client, token)
    assert user["extra"]["authentication.kubernetes.io/pod-uid"] == [made["metadata"]["uid"]]
    await client("DELETE", "/api/v1/namespaces/default/pods/p?gracePeriodSeconds=0")
    assert await who(client, token) == {}
    await pod(client)
    assert await who(client, token) == {}, "another pod of the name"


async def test_a_token_ends_with_the_node_it_is_bound_to(client: Client) -> None:
    await account(client)
    await client("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
    token = await token_of(client, {"boundObjectRef": {"kind": "Node", "apiVersion": "v1", "name": "n1"}})
    assert (await who(client, token))["extra"]["authentication.kubernetes.io/node-name"] == ["n1"]
    await client("DELETE", "/api/v1/nodes/n1")
    assert await who(client, token) == {}


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        ({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "x"}}}, 409, "UID"),
        ({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "q"}}}, 404, "not found"),
        ({"spec": {"boundObjectRef": {"kind": "Pod", "name": "other"}}}, 400, "different serviceaccount name"),
        ({"spec": {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1"}}}, 400, "type /v1, Kind=ConfigMap"),
        ({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "x/v1"}}}, 400, "type x/v1, Kind=Pod"),
        ({"spec": {"expirationSeconds": 599}}, 422, "less than 10 minutes"),
        ({"spec": {"expirationSeconds": (1 << 32) + 1}}, 422, "larger than 2^32 seconds"),
        ({"metadata": {"name": "another"}, "spec": {}}, 422, "must match the service account name"),
        ({"metadata": {"namespace": "another"}, "spec": {}}, 422, "must match the service account namespace"),
        ({"kind": "ConfigMap", "apiVersion": "v1"}, 400, "unknown conversion"),
    ],
)
async def test_requests_for_tokens_are_checked(client: Client, body: dict[str, Any], code: int, text: str) -> None:
    await account(client)
    await pod(client)
    await pod(client, "other", "default")
    found, answer = await client("POST", f"{ACCOUNTS}/robot/token", body)
    assert (found, text in answer["message"]) == (code, True), answer


async def test_audiences_are_asked_for_and_told(client: Client) -> None:
    await account(client)
    token = await token_of(client, {"audiences": ["vault", "store"]})
    assert await who(client, token) == {}
    for audiences, told in ((["vault"], ["vault"]), (["store", "x"], ["store"]), (["x"], None), (None, None)):
        spec = {"token": token, **({"audiences": audiences} if audiences else {})}
        _, review = await client("POST", REVIEWS, {"spec": spec})
        assert review["status"].get("authenticated", False) is (told is not None)
        assert review["status"].get("audiences") == told


async def test_a_good_token_is_remembered_for_a_moment(client: Client, server: ApiServer) -> None:
    server.authenticator.remembered = 1e9
    await account(client)
    token = await token_of(client, {})
    assert await who(client, token)
    await client("DELETE", f"{ACCOUNTS}/robot")
    assert await who(client, token)
    server.authenticator.remembered = 0.0
    assert await who(client, token) == {}


async def test_others_find_the_keys_by_the_issuer(client: Client, server: ApiServer) -> None:
    await account(client)
    token = await token_of(client, {"audiences": ["vault"]})
    api = {"Authorization": f"Bearer {await token_of(client, {})}"}
    code, found = await client("GET", "/.well-known/openid-configuration", **api)
    assert (code, found["issuer"]) == (200, "https://kubernetes.default.svc")
    path = found["jwks_uri"].removeprefix(server.url)
    assert path == "/openid/v1/jwks"
    code, keys = await client("GET", path, **api)
    assert code == 200
    key = jwt.PyJWKSet.from_dict(keys)[jwt.get_unverified_header(token)["kid"]]
    algorithms = found["id_token_signing_alg_values_supported"]
    claims = jwt.decode(token, key, algorithms=algorithms, audience="vault", issuer=found["issuer"])
    assert claims["kubernetes.io"]["serviceaccount"]["name"] == "robot"
    assert (await client("POST", path, {}))[0] == 405


async def test_users_of_a_provider_are_let_in(client: Client, provider: Provider) -> None:
    user = await eventually(lambda: who(client, provider.token()), "the user is let in")
    assert (user["username"], user["groups"]) == ("oidc:jane", ["devs", "system:authenticated"])
    for token in (provider.token(aud="other"), provider.token(exp=1), provider.token(iss="https://other")):
        assert await who(client, token) == {}
    await account(client)
    assert (await who(client, await token_of(client, {})))["username"].endswith(":robot")
