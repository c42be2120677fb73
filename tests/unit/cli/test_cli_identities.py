"""Identities of an installation: its configuration, its agents' keys, and what an earlier version left behind."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec
import pytest

from services._kit.base.private_files import private_text
from services.cli.common.layout import Layout, Member, new_installation
from services.cli.common.logbook import log_access
from services.cli.common.running import Failed
from services.cli.installation.installation_plan import prepare
from services.cli.installation.up_options import InstallationOptions
from services.cli.nats.nkeys import new_seed, public_key
from services.cli.nats.server_identities import adopt_streams, prepare_agent, server_config, withdraw


def test_a_seed_has_one_public_key_and_no_two_are_the_same() -> None:
    seed = new_seed("user")
    assert seed.startswith("SU")
    assert public_key(f"{seed}\n") == public_key(seed)
    assert public_key(seed).startswith("U")
    assert public_key(new_seed("user")) != public_key(seed)
    with pytest.raises(Failed, match="seed"):
        public_key("SUNONSENSE")


def test_key_of_an_agent_stays_over_starts(tmp_path: Path) -> None:
    layout, installation = Layout(tmp_path), new_installation([Member(name="m3", mode="Pull")])
    layout.save(installation)
    prepare_agent(layout, installation, "m3")
    key = installation.agents["m3"]
    prepare_agent(layout, installation, "m3")
    assert installation.agents == {"m3": key}
    config = server_config(layout, installation)
    assert key in config.read_text()
    assert installation.nats_token in config.read_text()
    for path in (config, layout.agent_seed("m3"), layout.hub_password):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_withdrawn_agent_is_in_no_file_any_more(tmp_path: Path) -> None:
    layout, installation = Layout(tmp_path), new_installation([Member(name="m3", mode="Pull")])
    layout.save(installation)
    prepare_agent(layout, installation, "m3")
    layout.save(installation)
    key = installation.agents["m3"]
    config = server_config(layout, installation)
    assert await withdraw(layout, "m3")
    assert not await withdraw(layout, "m3")
    assert not layout.agent_seed("m3").exists()
    assert key not in config.read_text()
    assert key not in layout.state.read_text()


def test_installation_of_an_earlier_version_is_adopted(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.save(new_installation([Member(name="member3")]))
    state = msgspec.json.decode(layout.state.read_bytes())
    del state["agents"]
    for member in state["members"]:
        del member["mode"]
    layout.state.write_bytes(msgspec.json.encode(state))
    old = layout.data("nats") / "jetstream" / "$G" / "streams" / "FACTS"
    old.mkdir(parents=True)
    _, installation, known = prepare(InstallationOptions(directory=tmp_path))
    assert known
    assert installation.pull_members == []
    for _ in range(2):
        adopt_streams(layout)
        assert (layout.data("nats") / "jetstream" / "HUB" / "streams" / "FACTS").is_dir()
    assert not old.exists()


def test_one_simulated_member_is_a_pull_member(tmp_path: Path) -> None:
    _, installation, _ = prepare(InstallationOptions(directory=tmp_path / "a", members=4))
    assert [member.mode for member in installation.members] == ["Push", "Push", "Pull", "Push"]
    _, installation, _ = prepare(InstallationOptions(directory=tmp_path / "b", nats_url="nats://hub:4222"))
    assert installation.pull_members == []


def test_credentials_of_the_log_stay_until_replaced(tmp_path: Path) -> None:
    first, second = tmp_path / "hub.creds", tmp_path / "new.creds"
    first.write_text("one")
    second.write_text("two")
    directory = tmp_path / "installation"
    _, installation, _ = prepare(
        InstallationOptions(directory=directory, nats_url="nats://hub:4222", nats_creds=str(first))
    )
    assert installation.log_options == {"user_credentials": str(first)}
    assert log_access(directory).settings.nats_creds == str(first)
    _, installation, known = prepare(InstallationOptions(directory=directory))
    assert (known, installation.nats_creds) == (True, str(first))
    prepare(InstallationOptions(directory=directory, nats_creds=str(second)))
    assert log_access(directory).settings.nats_creds == str(second)


def test_unusable_credentials_are_refused_before_the_start(tmp_path: Path) -> None:
    creds = tmp_path / "hub.creds"
    with pytest.raises(Failed, match=str(creds)):
        prepare(InstallationOptions(directory=tmp_path / "a", nats_url="nats://hub:4222", nats_creds=str(creds)))
    creds.write_text("one")
    with pytest.raises(Failed, match="--nats-creds needs --nats"):
        prepare(InstallationOptions(directory=tmp_path / "b", nats_creds=str(creds)))
    assert not (tmp_path / "b").exists()


def test_a_private_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[str, bool]] = []
    path = tmp_path / "nats.conf"

    def fsync(descriptor: int) -> None:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        synced.append((Path(name).name, path.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    private_text(path, "listen: here")
    assert synced == [("nats.conf.new", False), (tmp_path.name, True)]
    assert path.read_text() == "listen: here"
