"""Users of an OpenID Connect provider: which tokens count, and whom they name."""

from __future__ import annotations

import json
from typing import Any

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from services.apiserver.auth.openid_tokens import OpenIdSettings, OpenIdTokens, identity_of
from services.apiserver.core.request_context import Identity

ISSUER = "https://login.example.com"
SETTINGS = OpenIdSettings(issuer=ISSUER, client="kubernetes", groups_claim="groups", groups_prefix="oidc:")
CLAIMS: dict[str, Any] = {"iss": ISSUER, "aud": "kubernetes", "sub": "jane", "exp": 200, "groups": ["devs", 7, ""]}
JANE = Identity(f"{ISSUER}#jane", "", ("oidc:devs",))


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
def tokens(key: rsa.RSAPrivateKey) -> OpenIdTokens:
    """Tokens whose provider has one key, beside what cannot be used."""
    made = OpenIdTokens(SETTINGS)
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
    strange: list[Any] = [{"kty": "XYZ"}, {}, "text", {**public, "kid": "enc", "use": "enc"}]
    assert made.take({"keys": [*strange, {**public, "kid": "one"}]}) == 1
    return made


def signed(key: rsa.RSAPrivateKey, algorithm: str = "RS256", kid: str = "one", **claims: Any) -> str:
    return jwt.encode({**CLAIMS, **claims}, key, algorithm=algorithm, headers={"kid": kid})


@pytest.mark.parametrize(
    ("change", "good"),
    [
        ({}, True),
        ({"aud": ["other", "kubernetes"]}, True),
        ({"aud": "other"}, False),
        ({"iss": "https://other"}, False),
        ({"exp": 100}, False),
        ({"exp": "x"}, False),
        ({"nbf": 500}, False),
        ({"sub": ""}, False),
        ({"sub": 7}, False),
    ],
)
def test_claims_have_to_hold(
    tokens: OpenIdTokens, key: rsa.RSAPrivateKey, change: dict[str, Any], *, good: bool
) -> None:
    payload = msgspec.json.encode({**CLAIMS, **change})
    token = jwt.PyJWS().encode(payload, key, algorithm="RS256", headers={"kid": "one"})
    assert tokens.identify(token, 150) == (JANE if good else None)


def test_other_keys_and_algorithms_are_refused(tokens: OpenIdTokens, key: rsa.RSAPrivateKey) -> None:
    asked: list[bool] = []
    tokens.on_unknown_key = lambda: asked.append(True)
    assert tokens.identify(signed(key, kid="two"), 150) is None
    assert asked == [True]
    assert tokens.identify(signed(key, "RS512"), 150) is None
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert tokens.identify(signed(stranger), 150) is None
    assert tokens.identify("a.b.c", 150) is None


@pytest.mark.parametrize(
    ("settings", "claims", "name"),
    [
        ({}, {}, f"{ISSUER}#jane"),
        ({"username_prefix": "-"}, {}, "jane"),
        ({"username_prefix": "oidc:"}, {}, "oidc:jane"),
        ({"username_claim": "email"}, {"email": "j@x.org"}, "j@x.org"),
        ({"username_claim": "email"}, {"email": "j@x.org", "email_verified": True}, "j@x.org"),
        ({"username_claim": "email"}, {"email": "j@x.org", "email_verified": False}, None),
        ({"username_claim": "name"}, {}, None),
        ({"username_prefix": "-"}, {"sub": "system:admin"}, None),
        ({"required": {"hd": "x.org"}}, {"hd": "x.org"}, f"{ISSUER}#jane"),
        ({"required": {"hd": "x.org"}}, {"hd": "y.org"}, None),
        ({"required": {"hd": "x.org"}}, {}, None),
    ],
)
def test_claims_name_the_user(settings: dict[str, Any], claims: dict[str, Any], name: str | None) -> None:
    found = identity_of({**CLAIMS, **claims}, msgspec.structs.replace(SETTINGS, **settings))
    assert (found.name if found else None) == name


def test_a_provider_names_no_group_of_kubernetes() -> None:
    settings = msgspec.structs.replace(SETTINGS, groups_prefix="")
    found = identity_of({**CLAIMS, "groups": ["system:masters", "devs"]}, settings)
    assert found is not None
    assert found.groups == ("devs",)
    alone = identity_of({**CLAIMS, "groups": "devs"}, settings)
    assert alone is not None
    assert alone.groups == ("devs",)


@pytest.mark.parametrize(
    "change", [{"issuer": "http://x"}, {"issuer": "https://"}, {"client": ""}, {"algorithms": ("HS256",)}]
)
def test_settings_that_cannot_work_are_named(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"issuer|client|algorithm"):
        msgspec.structs.replace(SETTINGS, **change).check()
