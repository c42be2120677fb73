"""Tokens of accounts: deterministic, verifiable, and with no more in them than the configured accounts allow."""

from __future__ import annotations

import base64
import json

import nkeys
import pytest

from services._kit.log.stream_port import match
from services._rules.identity import account_tokens as tokens
from services._rules.identity.accounts import agent_exports, observer_exports
from tests.support.nats_claims import read_claims


def key(kind: int, fill: int) -> nkeys.KeyPair:
    """A key pair that is the same in every run."""
    return nkeys.from_seed(bytearray(nkeys.encode_seed(bytes([fill]) * 32, kind)))


OPERATOR = key(nkeys.PREFIX_BYTE_OPERATOR, 1)
SIGNING = key(nkeys.PREFIX_BYTE_OPERATOR, 2)
HUB = key(nkeys.PREFIX_BYTE_ACCOUNT, 3)
AGENT = key(nkeys.PREFIX_BYTE_ACCOUNT, 4)
USER = tokens.public(key(nkeys.PREFIX_BYTE_USER, 5))


def agent(cluster: str = "m1", at: int = 1000) -> str:
    """Claims of an agent's account."""
    name = tokens.public(AGENT)
    allowed = tokens.activations(HUB, name, agent_exports(cluster), at=at)
    return tokens.agent_token(SIGNING, name, cluster, tokens.public(HUB), allowed, at=at)


def test_the_same_keys_and_times_make_the_same_token() -> None:
    assert agent() == agent()
    assert agent() != agent(at=1001)


def test_issuer_signs_header_and_claims() -> None:
    token = agent()
    signed, _, signature = token.rpartition(".")
    assert SIGNING.verify(signed.encode(), base64.urlsafe_b64decode(signature + "=="))
    header = signed.split(".")[0]
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"typ": "JWT", "alg": "ed25519-nkey"}
    assert read_claims(token)["iss"] == tokens.public(SIGNING)


def test_account_of_an_agent_imports_its_five_subjects() -> None:
    claims = read_claims(agent("m.1"), "account")["nats"]
    wanted = [export.subject for export in agent_exports("m.1")]
    assert [one["subject"] for one in claims["imports"]] == wanted
    assert {one["account"] for one in claims["imports"]} == {tokens.public(HUB)}
    assert "exports" not in claims
    assert (claims["limits"]["imports"], claims["limits"]["exports"]) == (5, 0)
    assert "disk_storage" not in claims["limits"]
    for one in claims["imports"]:
        leave = read_claims(one["token"], "activation")
        assert (leave["iss"], leave["sub"]) == (tokens.public(HUB), tokens.public(AGENT))
        assert (leave["nats"]["subject"], leave["nats"]["kind"]) == (one["subject"], "service")


@pytest.mark.parametrize("cluster", ["m1", "a-very-long-name", "Ä", "a.b", "agent-x", "name-of-a-cluster"])
def test_exports_of_the_hub_match_subjects_of_each_cluster(cluster: str) -> None:
    exports = read_claims(tokens.hub_token(SIGNING, tokens.public(HUB), at=1))["nats"]["exports"]
    assert all(one["token_req"] for one in exports)
    of_agents = exports[: len(exports) - len(observer_exports())]
    for offered, wanted in zip(of_agents, agent_exports(cluster), strict=True):
        pattern, subject = offered["subject"].split("."), wanted.subject.split(".")
        assert match(offered["subject"], wanted.subject.replace("*", "x"))
        assert sum(one != two for one, two in zip(pattern, subject, strict=True)) == 1
        assert offered["response_type"] == ("Stream" if wanted.stream else "Singleton")


def test_a_revoked_account_is_named_at_every_export() -> None:
    gone = tokens.public(AGENT)
    claims = read_claims(tokens.hub_token(SIGNING, tokens.public(HUB), at=9, revoked={gone: 8}))
    assert [one["revocations"] for one in claims["nats"]["exports"]] == [{gone: 8}] * len(tokens.hub_exports())


def test_a_closed_account_has_no_way_in_and_nowhere_to_go() -> None:
    claims = read_claims(tokens.closed_token(SIGNING, tokens.public(AGENT), "m1", at=7))["nats"]
    assert claims["revocations"] == {"*": 7}
    assert "imports" not in claims
    assert claims["limits"]["conn"] == 0


def test_user_of_an_agent_publishes_to_its_subjects() -> None:
    claims = read_claims(tokens.agent_user_token(AGENT, USER, "m1", at=1), "user")
    assert (claims["iss"], claims["sub"]) == (tokens.public(AGENT), USER)
    assert claims["nats"]["pub"] == {"allow": [export.subject for export in agent_exports("m1")]}
    assert claims["nats"]["sub"] == {"allow": ["_INBOX.>"]}


def test_operator_token_names_signing_key_and_system_account() -> None:
    claims = read_claims(tokens.operator_token(OPERATOR, SIGNING, "ASYS", name="x", at=1), "operator")
    assert (claims["iss"], claims["sub"]) == (tokens.public(OPERATOR),) * 2
    assert claims["nats"]["signing_keys"] == [tokens.public(SIGNING)]
    assert claims["nats"]["system_account"] == "ASYS"
