"""Kubeconfigs that hold everything themselves are read at once; all others are left to kubernetes-asyncio."""

from __future__ import annotations

import base64
import copy
import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from services._kit.kube.plain_kubeconfig import plain_endpoint
from services.apiserver.auth.certificate_authority import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.load()
    return made


def encoded(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


@pytest.fixture
def document(authority: Authority) -> dict[str, Any]:
    """Two contexts: one with a certificate, one with a token."""
    cert, key = authority.issue("jane", (), None)
    server = {"server": "https://10.0.0.1:6443/", "certificate-authority-data": encoded(authority.ca_pem)}
    user = {"client-certificate-data": encoded(cert), "client-key-data": encoded(key)}
    places = {"one": "cert", "two": "token"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "clusters": [{"name": "c", "cluster": server}],
        "users": [{"name": "cert", "user": user}, {"name": "token", "user": {"token": "abc"}}],
        "contexts": [{"name": name, "context": {"cluster": "c", "user": user}} for name, user in places.items()],
    }


async def test_certificate_and_token_of_a_context_are_found(document: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(document))
    found = plain_endpoint(path, None)
    assert found is not None
    assert (found.host, await found.auth_settings()) == ("https://10.0.0.1:6443", {})
    context = found.ssl_context()
    assert context is not None
    assert (context.verify_mode, len(context.get_ca_certs())) == (ssl.CERT_REQUIRED, 1)
    other = plain_endpoint(document, "two")
    assert other is not None
    assert (await other.auth_settings())["BearerToken"] == {"key": "authorization", "value": "Bearer abc"}
    assert "abc" not in repr(other)
    way = {"proxy-url": "http://p", "tls-server-name": "n"}
    document["clusters"][0]["cluster"] |= {"insecure-skip-tls-verify": True, **way}
    loose = plain_endpoint(document, "two")
    assert loose is not None
    assert (loose.verified, loose.route.proxy, loose.route.name) == (False, "http://p", "n")


@pytest.mark.parametrize(
    ("section", "part", "change"),
    [
        ("users", "user", {"exec": {"command": "aws"}}),
        ("users", "user", {"auth-provider": {"name": "gcp"}}),
        ("users", "user", {"tokenFile": "/token"}),
        ("users", "user", {"username": "jane", "password": "secret"}),
        ("users", "user", {"client-certificate": "/cert.pem"}),
        ("users", "user", {"client-key-data": ""}),
        ("users", "user", {"client-key-data": "?"}),
        ("users", "user", {"token": 7}),
        ("clusters", "cluster", {"certificate-authority": "/ca.pem"}),
        ("clusters", "cluster", {"insecure-skip-tls-verify": "yes"}),
        ("clusters", "cluster", {"server": None}),
        ("clusters", "cluster", {"made-up": "x"}),
    ],
)
def test_what_is_not_plain_is_left_alone(
    document: dict[str, Any], section: str, part: str, change: dict[str, Any]
) -> None:
    assert plain_endpoint(document, None) is not None
    changed = copy.deepcopy(document)
    changed[section][0][part] |= change
    assert plain_endpoint(changed, None) is None


def test_what_is_no_kubeconfig_is_left_alone(document: dict[str, Any], tmp_path: Path) -> None:
    yaml = tmp_path / "kubeconfig"
    yaml.write_text("apiVersion: v1\n")
    for wrong in (yaml, tmp_path / "none", {}, {**document, "users": []}, {**document, "contexts": "one"}):
        assert plain_endpoint(wrong, None) is None
    assert plain_endpoint(document, "three") is None
    twice = {**document, "users": [*document["users"], *document["users"]]}
    assert plain_endpoint(twice, None) is None
