"""The operator's directory: made once, readable by its owner only, and with a memory of what was issued."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from services._rules.identity import account_tokens as tokens
from services.cli.common.running import Failed
from services.cli.nats.authority import Authority, create
from services.cli.nats.nkeys import key_of, new_key, new_seed
from tests.support.nats_claims import read_claims

USER = tokens.public(new_key("user"))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Fresh keys."""
    return create(tmp_path / "auth", "nats://n:4222", tmp_path / "resolver")


def test_keys_are_private_and_created_once(authority: Authority) -> None:
    files = [path for path in authority.directory.iterdir() if path.is_file()]
    assert len(files) >= 7
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(authority.directory.stat().st_mode) == 0o700
    before = {path.name: path.read_bytes() for path in files}
    with pytest.raises(Failed, match="already"):
        create(authority.directory, "nats://other:4222", authority.directory)
    assert {path.name: path.read_bytes() for path in files} == before


def test_a_directory_without_keys_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="fleetlog nats init"):
        Authority(tmp_path)


def test_a_cluster_has_one_identity_at_a_time(authority: Authority) -> None:
    first = authority.admit("m1", USER)
    with pytest.raises(Failed, match="karmadactl unjoin m1"):
        authority.admit("m1", USER)
    assert read_claims(first.claims, "account")["sub"] == first.account
    assert read_claims(first.user_token, "user")["iss"] == first.account
    authority.expel("m1")
    authority.forget("m1")
    second = authority.admit("m1", USER)
    assert second.account != first.account
    assert set(authority.book().revoked) == {first.account}


def test_revocation_is_newer_than_the_identity(tmp_path: Path) -> None:
    create(tmp_path / "auth", "nats://n:4222", tmp_path / "resolver")
    authority = Authority(tmp_path / "auth", clock=lambda: 1000.0)
    born = read_claims(authority.admit("m1", USER).claims)["iat"]
    told = authority.expel("m1")
    assert told is not None
    assert read_claims(told.closed)["iat"] > born
    again = authority.expel("m1")
    assert again is not None, "an end that the servers did not hear of can be said again"
    assert read_claims(again.hub)["iat"] > read_claims(told.hub)["iat"]
    authority.forget("m1")
    assert authority.expel("m1") is None


def test_claims_of_an_earlier_version_are_made_again(authority: Authority) -> None:
    assert authority.hub_claims() == ""
    with authority.changed() as book:
        book.exported, book.revoked = ["hello.*"], {"A": 5}
        before = book.hub_at
    claims = read_claims(authority.hub_claims())
    assert claims["iat"] > before
    exports = claims["nats"]["exports"]
    assert "tunnel.*.*" in [one["subject"] for one in exports]
    assert all(one["revocations"] == {"A": 5} for one in exports)
    authority.hub_claims_taken()
    assert authority.hub_claims() == ""


def test_the_agents_account_key_is_kept_nowhere(authority: Authority) -> None:
    admission = authority.admit("m1", USER)
    keys = [tokens.public(key_of(path.read_text())) for path in authority.directory.glob("*.nk")]
    assert admission.account not in keys


@pytest.mark.parametrize("text", ["", "SU", "SUAB", "not a seed", "UAAA"])
def test_malformed_seed_is_refused(text: str) -> None:
    with pytest.raises(Failed, match="seed"):
        key_of(text)


def test_server_configuration_names_the_accounts(authority: Authority) -> None:
    text = (authority.directory / "accounts.conf").read_text()
    hub = authority.book().hub
    assert f"  {hub}: ey" in text
    assert "allow_delete: true" in text
    operator = next(line.split()[1] for line in text.splitlines() if line.startswith("operator:"))
    system = read_claims(operator, "operator")["nats"]["system_account"]
    assert f"system_account: {system}" in text
    assert f"  {system}: ey" in text
    for seed in authority.directory.glob("*.nk"):
        assert seed.read_text().strip() not in text
    assert new_seed("user") != new_seed("user")
