"""Which installation a command means: an option, variables, and directories from here upwards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from services.cli.common.control_plane import kubeconfig_path
from services.cli.common.installation_search import DEFAULT_DIRECTORY, absence, candidates, find_directory
from services.cli.common.layout import Layout, new_installation
from tests.support.commands import run_command


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory two levels below one with `.fleetlog`, as the current directory; no variable names anything."""
    for name in ("KUBECONFIG", "FLEETLOG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    below = tmp_path / "project" / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    installation(tmp_path / "project" / ".fleetlog")
    return tmp_path


def installation(directory: Path) -> Path:
    """An installation that was started once; its directory."""
    layout = Layout(directory)
    layout.save(new_installation([], nats_url="nats://127.0.0.1:9"))
    layout.kubeconfig("control").write_text("clusters: []")
    return directory


def test_the_nearest_directory_upwards_is_found(place: Path) -> None:
    assert find_directory() == place / "project" / ".fleetlog"
    assert kubeconfig_path("") == place / "project" / ".fleetlog" / "control.kubeconfig"
    nearer = installation(place / "project" / "a" / ".fleetlog")
    assert find_directory() == nearer
    assert kubeconfig_path("") == nearer / "control.kubeconfig"


def test_kubeconfig_names_the_installation(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = installation(place / "other")
    monkeypatch.setenv("KUBECONFIG", f"{place / 'gone'}:{other / 'member1.kubeconfig'}")
    assert find_directory() == other


def test_a_kubeconfig_of_another_cluster_names_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "cloud.yaml").write_text("clusters: []")
    monkeypatch.setenv("KUBECONFIG", str(place / "cloud.yaml"))
    assert find_directory() == place / "project" / ".fleetlog"
    assert kubeconfig_path("") == place / "cloud.yaml"


def test_fleetlog_dir_goes_before_the_usual_kubeconfig(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = place / "home" / ".kube" / "config"
    usual.parent.mkdir(parents=True)
    usual.write_text("clusters: []")
    assert kubeconfig_path("") == usual
    other = installation(place / "other")
    monkeypatch.setenv("FLEETLOG_DIR", str(other))
    assert kubeconfig_path("") == other / "control.kubeconfig"


def test_directories_of_other_users_are_not_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: os.stat(place).st_uid + 1)
    assert place / "project" / ".fleetlog" not in list(candidates())
    assert find_directory() == DEFAULT_DIRECTORY


def test_missing_installation_names_searched_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "/cloud.yaml")
    assert absence(Path("/gone")) == "no installation in /gone"
    said = absence(DEFAULT_DIRECTORY)
    assert "KUBECONFIG (/cloud.yaml)" in said
    assert f"no .fleetlog in {tmp_path} or a directory above it" in said


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("fleetlog", ("events",)),
        ("fleetlog", ("history", "deploy/x")),
        ("fleetlog", ("status",)),
        ("fleetlog", ("stop",)),
        ("fleetlog", ("log", "repair")),
        ("fleetlog", ("log", "verify")),
        ("fleetlog", ("secrets", "forget", "x")),
        ("karmadactl", ("get", "pods")),
        ("karmadactl", ("cordon", "member1")),
    ],
)
def test_commands_name_where_they_looked(tmp_path: Path, module: str, arguments: tuple[str, ...]) -> None:
    ended = run_command(module, *arguments, cwd=tmp_path, HOME=str(tmp_path))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f".fleetlog in {tmp_path} or a directory above it" in ended.stderr or (
        f".fleetlog/control.kubeconfig in {tmp_path} and the directories above it" in ended.stderr
    )


def test_the_option_and_its_variable_go_first(place: Path) -> None:
    here = place / "project"
    found = run_command("fleetlog", "stop", cwd=here / "a")
    assert found.stdout == f"no installation runs in {here / '.fleetlog'}\n"
    other = installation(place / "other")
    kubeconfig = str(here / ".fleetlog" / "control.kubeconfig")
    for arguments, variables in (
        (("--dir", str(other)), {}),
        ((), {"FLEETLOG_DIR": str(other)}),
    ):
        ended = run_command("fleetlog", "stop", *arguments, cwd=here, KUBECONFIG=kubeconfig, **variables)
        assert ended.stdout == f"no installation runs in {other}\n"


def test_up_is_not_led_elsewhere(place: Path) -> None:
    here = place / "project" / "a"
    kubeconfig = str(place / "project" / ".fleetlog" / "control.kubeconfig")
    # A file where the directory would be: it is refused before anything is started.
    (here / ".fleetlog").write_text("")
    ended = run_command("fleetlog", "up", cwd=here, KUBECONFIG=kubeconfig)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "--dir .fleetlog is no directory" in ended.stderr
