"""Which subjects an agent reaches, as the server's configuration says it."""

from __future__ import annotations

import pytest

from schemas.topology import STREAMS
from services._kit.log.stream_port import match
from services._rules.identity.accounts import (
    AgentIdentity,
    Passwords,
    accounts_config,
    accounts_in,
    agent_account,
    agent_consumer,
    agent_exports,
)

KEY = "U" + "A" * 55


def test_an_agent_reaches_no_subject_of_a_stream() -> None:
    for export in agent_exports("m1"):
        assert not any(match(pattern, export.subject) for stream in STREAMS for pattern in stream.subjects), export


def test_every_export_is_for_one_account_and_one_cluster() -> None:
    text = accounts_config(Passwords(hub="x"), [AgentIdentity("m1", KEY), AgentIdentity("m2", KEY[:-1] + "B")])
    exports = [line for line in text.splitlines() if "response_type" in line]
    assert len(exports) == 2 * len(agent_exports("m1"))
    for line in exports:
        assert ("m1" in line.partition("accounts:")[0]) == (f'["{agent_account("m1")}"]' in line)
    assert not {e.subject for e in agent_exports("m1")} & {e.subject for e in agent_exports("m2")}


def test_configuration_does_not_depend_on_the_order() -> None:
    agents = [AgentIdentity("m1", KEY), AgentIdentity("m2", KEY)]
    assert accounts_config(Passwords(hub="x"), agents) == accounts_config(Passwords(hub="x"), reversed(agents))


def test_a_name_with_a_dot_stays_one_token() -> None:
    assert "." not in agent_consumer("a.b")
    assert agent_exports("a.b")[0].subject.count(".") == 1


@pytest.mark.parametrize(
    ("agents", "words"),
    [
        ([AgentIdentity("m1", KEY), AgentIdentity("m1", KEY)], "two agent identities"),
        ([AgentIdentity("m1", "SU" + "A" * 56)], "no public user key"),
        ([AgentIdentity("m1", KEY + "}")], "no public user key"),
    ],
)
def test_invalid_identities_are_refused(agents: list[AgentIdentity], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        accounts_config(Passwords(hub="x"), agents)


def test_a_password_cannot_leave_its_quotes() -> None:
    text = accounts_config(Passwords(hub='a" } } accounts {'), [])
    assert 'password: "a\\" } } accounts {"' in text
    with pytest.raises(ValueError, match="control characters"):
        accounts_config(Passwords(hub="a\nb"), [])


@pytest.mark.parametrize("observed", ["", 'wa"t\\ch'])
def test_what_was_written_is_read_again(observed: str) -> None:
    services = {"scheduler": 'p"1\\ {user: x', "detector": "p2"}
    passwords = Passwords(hub="pläin", services=services, observer=observed, system="s")
    agents = [AgentIdentity("a.b", KEY), AgentIdentity("m2", KEY[:-1] + "B")]
    assert accounts_in(accounts_config(passwords, agents)) == (passwords, agents)
    assert accounts_in(accounts_config(Passwords(hub="x"), [])) == (Passwords(hub="x"), [])
    with pytest.raises(ValueError, match="no user hub"):
        accounts_in('accounts { A { users: [{user: b, password: "c"}] } }')
