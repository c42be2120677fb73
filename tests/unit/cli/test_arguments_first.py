"""Commands say what is wrong with their arguments before they connect to anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from services.cli.fleetlog import app

FILE = Path(__file__)
NOWHERE = ("--nats", "nats://127.0.0.1:1", "--dir", "/nowhere/at/all")
"""Where nothing answers: a command that connects first complains of that."""


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("events", "--since", "zzz"), "--since 'zzz'"),
        (("events", "-o", "xml"), "xml"),
        (("events", "--subject", "a..b"), "--subject"),
        (("history", "deploy/x", "--at", "zzz"), "--at 'zzz'"),
        (("history", "deploy/x", "-o", "xml"), "xml"),
        (("history", "deploy"), "deploy"),
        (("history", "deploy/x", "--since", "zzz"), "--since 'zzz'"),
        (("history", "deploy/x", "--at", "1m", "--tail", "2"), "--tail"),
        (("explain", "deploy/x", "--at", "zzz"), "--at 'zzz'"),
        (("explain", "deploy/x", "-o", "xml"), "xml"),
        (("simulate", "--taint", "m1:a=b:Never"), "--taint"),
        (("simulate", "--set-capacity", "m1:cpu=much"), "--set-capacity"),
        (("simulate", "--label", "m1"), "--label"),
        (("simulate", "--scale", "deploy/x=many"), "--scale"),
        (("simulate", "--policy", "/nowhere.yaml"), "/nowhere.yaml"),
        (("log", "export", "/nowhere/at/all/x.gz"), "no directory /nowhere/at/all"),
        (("log", "export", "x.gz", "--since", "zzz"), "--since 'zzz'"),
        (("log", "import", "/nowhere.gz"), "/nowhere.gz"),
        (("plan", "-f", "/nowhere.yaml"), "/nowhere.yaml"),
        (("plan",), "nothing is named"),
        (("plan", "-f", str(FILE), "--at", "zzz"), "--at 'zzz'"),
        (("undo", "deploy/x", "--to", "zzz"), "--to 'zzz'"),
        (("status", "-o", "xml"), "xml"),
        (("doctor", "-o", "xml"), "xml"),
        (("parked", "list", "-o", "xml"), "xml"),
        (("parked", "retry"), "name the keys"),
        (("parked", "drop"), "name the keys"),
    ],
)
def test_bad_arguments_are_named_at_once(words: tuple[str, ...], named: str) -> None:
    done = CliRunner().invoke(app, [*words, *NOWHERE])
    assert done.exit_code != 0
    assert named in done.output, done.output
    assert "does not answer" not in done.output


def test_a_password_among_the_arguments_is_warned_of() -> None:
    done = CliRunner().invoke(app, ["events", "--since", "zzz", "--nats", "nats://hub:secret@127.0.0.1:1"])
    assert "warning: every user of this machine can read the password in --nats" in done.output
    assert "secret" not in done.output
    quiet = CliRunner().invoke(app, ["events", "--since", "zzz"], env={"FLEETLOG_NATS_URL": "nats://hub:x@127.0.0.1:1"})
    assert "warning" not in quiet.output


def test_topology_writes_what_its_options_offer() -> None:
    refused = CliRunner().invoke(app, ["topology", "-o", "xml"])
    assert refused.exit_code != 0
    assert "xml" in refused.output
    assert "streams:" in CliRunner().invoke(app, ["topology", "-o", "yaml"]).output
