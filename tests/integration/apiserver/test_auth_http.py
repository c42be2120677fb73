"""Who may talk to the server: tokens, client certificates, impersonation, reviews."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from services.apiserver.auth.authentication import parse_tokens
from services.apiserver.auth.token_signing import ServiceAccountTokens
from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore

WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def whoami(session: aiohttp.ClientSession, url: str, **headers: str) -> tuple[int, Any]:
    body = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
    sent = {k.replace("_", "-"): v for k, v in headers.items()}
    async with session.post(url + WHOAMI, json=body, headers=sent) as response:
        answer = await response.json()
        return response.status, (answer.get("status") or {}).get("userInfo", answer) if response.ok else answer


async def test_a_request_without_or_with_a_wrong_token_is_401(client: Any, server: ApiServer) -> None:
    async with aiohttp.ClientSession() as session:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eDp5"}):
            async with session.get(f"{server.url}/api/v1/pods", headers=headers) as response:
                assert response.status == 401
                assert (await response.json())["reason"] == "Unauthorized"


async def test_a_token_stands_for_its_user(client: Any, server: ApiServer) -> None:
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer jane"}) as session:
        code, user = await whoami(session, server.url)
    assert (code, user) == (201, {"username": "jane", "uid": "u1", "groups": ["devs", "system:authenticated"]})


async def test_impersonation_shows_the_other_user(client: Any, server: ApiServer) -> None:
    _, user = await whoami(client.session, server.url, Impersonate_User="bob", Impersonate_Group="g")
    assert (user["username"], user["groups"]) == ("bob", ["g", "system:authenticated"])


async def test_a_service_account_token_works_until_it_is_tampered_with(client: Any, server: ApiServer) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await client("POST", accounts, {"metadata": {"name": "robot"}})
    _, answer = await client("POST", f"{accounts}/robot/token", {"spec": {"expirationSeconds": 600}})
    token = answer["status"]["token"]
    async with aiohttp.ClientSession() as session:
        _, user = await whoami(session, server.url, Authorization=f"Bearer {token}")
        assert user["username"] == "system:serviceaccount:default:robot"
        head, body, signature = token.split(".")
        code, _ = await whoami(session, server.url, Authorization=f"Bearer {head}.{body[:-2]}AA.{signature}")
        assert code == 401


def test_expired_tokens_are_refused() -> None:
    signer = ServiceAccountTokens()
    token = signer.sign({"sub": "system:serviceaccount:a:b", "exp": 100})
    assert signer.check(token, 99.0) is not None
    assert signer.check(token, 101.0) is None
    assert ServiceAccountTokens().check(token, 99.0) is None


def test_token_files() -> None:
    found = parse_tokens('t1,admin,u1,"a,b"\n# comment\nt2,bob,u2\n')
    assert found == {"t1": Identity("admin", "u1", ("a", "b")), "t2": Identity("bob", "u2")}
    with pytest.raises(ValueError, match="line 1"):
        parse_tokens("only-a-token")


class TestWithTls:
    @pytest.fixture
    async def secure(self, tmp_path: Path) -> AsyncIterator[ApiServer]:
        settings = Settings(data_dir=tmp_path / "data", authorization="MastersOnly", kubeconfig=tmp_path / "kc")
        made = ApiServer(MemoryStore(), builtin_registry(), settings)
        await made.start()
        yield made
        await made.stop()

    @staticmethod
    def session(server: ApiServer, user: str, groups: tuple[str, ...]) -> aiohttp.ClientSession:
        assert server.authority is not None
        cert, key = server.authority.client(user, groups)
        context = ssl.create_default_context(cafile=str(server.authority.ca_file))
        context.load_cert_chain(cert, key)
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))

    async def test_a_client_certificate_names_user_and_groups(self, secure: ApiServer) -> None:
        async with self.session(secure, "carol", ("system:masters", "ops")) as session:
            _, user = await whoami(session, secure.url)
        assert (user["username"], set(user["groups"])) == ("carol", {"system:masters", "ops", "system:authenticated"})

    async def test_other_users_are_forbidden_but_may_review_access(self, secure: ApiServer) -> None:
        async with self.session(secure, "dave", ("ops",)) as session:
            async with session.get(f"{secure.url}/api/v1/namespaces") as response:
                assert response.status == 403
                assert 'User "dave" cannot list resource "namespaces"' in (await response.json())["message"]
            async with session.get(f"{secure.url}/healthz") as response:
                assert response.status == 200
            body = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}
            path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
            async with session.post(secure.url + path, json=body) as response:
                assert (await response.json())["status"]["allowed"] is False
            code, _ = await whoami(session, secure.url, Impersonate_User="admin")
            assert code == 403

    async def test_a_certificate_without_groups_has_no_rights(self, tmp_path: Path) -> None:
        settings = Settings(data_dir=tmp_path / "roles", authorization="Node,RBAC")
        server = ApiServer(MemoryStore(), builtin_registry(), settings)
        await server.start()
        try:
            async with self.session(server, "dave", ()) as session:
                for path, code in (("/api/v1/secrets", 403), ("/api", 200), ("/healthz", 200)):
                    async with session.get(server.url + path) as response:
                        assert response.status == code, path
        finally:
            await server.stop()

    async def test_kubeconfig_is_private_and_authenticates(self, secure: ApiServer) -> None:
        path = secure.settings.kubeconfig
        assert path is not None
        assert path.stat().st_mode & 0o077 == 0
        document = msgspec.json.decode(path.read_bytes())
        assert document["clusters"][0]["cluster"]["server"] == secure.url

    async def test_certificates_survive_a_restart(self, secure: ApiServer, tmp_path: Path) -> None:
        assert secure.authority is not None
        before = secure.authority.ca_pem
        other = ApiServer(MemoryStore(), builtin_registry(), Settings(data_dir=tmp_path / "data"))
        await other.start()
        try:
            assert other.authority is not None
            assert other.authority.ca_pem == before
        finally:
            await other.stop()
