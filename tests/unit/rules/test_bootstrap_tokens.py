"""Bootstrap tokens: what is one, when it is over, and what it vouches for."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from services._rules.identity import bootstrap_tokens as rules


def secret(name: str = "bootstrap-token-abcdef", kind: str = rules.SECRET_TYPE, **data: str) -> dict[str, Any]:
    """The Secret of a token."""
    fields = {"token_id": "abcdef", "token_secret": "0123456789abcdef", **data}
    encoded = {key.replace("_", "-"): base64.b64encode(value.encode()).decode() for key, value in fields.items()}
    return {"metadata": {"name": name}, "type": kind, "data": encoded}


@pytest.mark.parametrize("text", ["", "abcdef", "abcdef.0123", "ABCDEF.0123456789abcdef", "abcdef.0123456789abcdef\n"])
def test_malformed_token_is_none(text: str) -> None:
    assert rules.parse(text) is None


def test_secret_gives_usages_and_expiration_of_its_token() -> None:
    token = rules.read(
        secret(expiration="2026-11-21T12:00:00Z", usage_bootstrap_signing="true", usage_bootstrap_authentication="no")
    )
    assert (token.text, token.signing, token.authentication) == ("abcdef.0123456789abcdef", True, False)
    assert token.expires is not None
    assert not rules.expired(token, token.expires - 1)
    assert rules.expired(token, token.expires)
    assert not rules.expired(rules.read(secret()), 1e12)


@pytest.mark.parametrize(
    "wrong",
    [
        secret(name="bootstrap-token-fedcba"),
        secret(kind="Opaque"),
        secret(token_secret="short"),
        secret(expiration="soon"),
        secret(auth_extra_groups="system:masters"),
        {**secret(), "data": {"token-id": "%"}},
        {**secret(), "data": {"token-id": 5}},
        {**secret(), "data": None},
    ],
)
def test_secret_without_a_valid_token_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"Secret {wrong['metadata']['name']}: "):
        rules.read(wrong)


def test_a_token_vouches_for_one_text_only() -> None:
    signature = rules.sign("text", "abcdef", "0123456789abcdef")
    header, nothing, _ = signature.split(".")
    assert base64.urlsafe_b64decode(header + "==") == b'{"alg":"HS256","kid":"abcdef"}'
    assert nothing == ""
    assert rules.vouches(signature, "text", "abcdef", "0123456789abcdef")
    assert not rules.vouches(signature, "Text", "abcdef", "0123456789abcdef")
    assert not rules.vouches(signature, "text", "abcdef", "ffffffffffffffff")
