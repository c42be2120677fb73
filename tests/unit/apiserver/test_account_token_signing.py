"""Tokens of service accounts: how they are signed, what counts, and keys of earlier versions."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import jwt
import pytest

from services.apiserver.auth.token_signing import ALGORITHM, ISSUER, ServiceAccountTokens, tokens_of

SUBJECT = "system:serviceaccount:default:robot"
CLAIMS: dict[str, Any] = {"sub": SUBJECT, "aud": [ISSUER], "exp": 200, "nbf": 100}
FORMER = b"k" * 32


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def test_others_check_tokens_with_the_key_set() -> None:
    signer = ServiceAccountTokens()
    token = signer.sign({**CLAIMS, "exp": 1 << 40})
    (key,) = jwt.PyJWKSet.from_dict(signer.key_set()).keys
    assert jwt.get_unverified_header(token) == {"alg": ALGORITHM, "kid": key.key_id}
    claims = jwt.decode(token, key, algorithms=[ALGORITHM], audience=ISSUER, issuer=ISSUER)
    assert claims["sub"] == SUBJECT


@pytest.mark.parametrize(
    ("change", "now", "good"),
    [
        ({}, 150, True),
        ({}, 200, False),
        ({}, 30, False),
        ({}, 50, True),
        ({"exp": None}, 150, False),
        ({"exp": "300"}, 150, False),
        ({"nbf": "x"}, 150, False),
        ({"iss": "https://other"}, 150, False),
        ({"iss": "kubernetes/serviceaccount", "exp": None}, 150, True),
    ],
)
def test_only_tokens_of_this_issuer_and_time_count(change: dict[str, Any], now: float, *, good: bool) -> None:
    signer = ServiceAccountTokens()
    claims = {name: value for name, value in {**CLAIMS, **change}.items() if value is not None}
    assert (signer.check(signer.sign(claims), now) is not None) is good


@pytest.mark.parametrize(
    "token",
    [
        "",
        "..",
        "a.b.c",
        "ü.b.c",
        encoded("[" * 5000) + ".e30.e30",
        encoded('{"alg":' + "[" * 5000) + ".e30.e30",
        encoded('{"alg":"none"}') + "." + encoded('{"sub":"' + SUBJECT + '"}') + ".",
        encoded('{"alg":"ES256","kid":7}') + ".e30.e30",
        "a" * 100_000 + ".b.c",
    ],
)
def test_what_is_no_token_of_ours_is_refused(token: str) -> None:
    assert ServiceAccountTokens(former=FORMER).check(token, 150) is None


def test_tokens_of_other_keys_are_refused() -> None:
    signer = ServiceAccountTokens(former=FORMER)
    forged = jwt.encode(
        {**CLAIMS, "iss": ISSUER}, FORMER[:-1] + b"x", algorithm="HS256", headers={"kid": signer.key_id}
    )
    assert signer.check(forged, 150) is None
    other = ServiceAccountTokens()
    assert signer.check(other.sign(CLAIMS), 150) is None


def test_a_key_of_before_checks_and_does_not_sign(tmp_path: Path) -> None:
    old = jwt.encode({**CLAIMS, "iss": ISSUER}, FORMER, algorithm="HS256")
    assert tokens_of(tmp_path).check(old, 150) is None
    (tmp_path / "sa.key").write_bytes(FORMER)
    signer = tokens_of(tmp_path)
    assert (signer.check(old, 150) or {})["sub"] == SUBJECT
    assert signer.check(old, 201) is None
    assert jwt.get_unverified_header(signer.sign(CLAIMS))["alg"] == ALGORITHM


def test_the_key_is_kept_and_private(tmp_path: Path) -> None:
    first, second = tokens_of(tmp_path), tokens_of(tmp_path)
    assert second.check(first.sign(CLAIMS), 150) is not None
    assert (tmp_path / "service-accounts.key").stat().st_mode & 0o077 == 0
    (tmp_path / "service-accounts.key").write_bytes(b"no key")
    with pytest.raises(ValueError, match="key"):
        tokens_of(tmp_path)
