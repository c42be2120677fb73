"""Pull members by `karmadactl`: the printed instructions start an agent, and foreign servers are left alone."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from services.cli.common.layout import Layout
from tests.integration.cli.conftest import PATIENCE, Commands, eventually


def mode(commands: Commands, name: str) -> tuple[str, str]:
    """Mode and readiness of a cluster."""
    found = commands.karmadactl("get", "clusters", name, "-o", "json")
    item = json.loads(found.stdout) if found.returncode == 0 else {"spec": {"syncMode": ""}}
    conditions = (item.get("status") or {}).get("conditions") or []
    return item["spec"]["syncMode"], next((entry["status"] for entry in conditions if entry["type"] == "Ready"), "")


def settings_in(text: str) -> dict[str, str]:
    """The variables of a command line as it is printed for people."""
    words = shlex.split(text[text.index("  FLEETLOG_") :].replace("\\\n", " "))
    assert words[-3:] == ["python", "-m", "services.agent"]
    return dict(word.split("=", 1) for word in words[:-3])


def rejoin(commands: Commands) -> None:
    """Make member3 the pull member that it was."""
    file = str(commands.directory / "member3.kubeconfig")
    again = commands.karmadactl("join", "member3", "--mode", "pull", "--cluster-kubeconfig", file)
    assert again.returncode == 0, again.stderr
    eventually(lambda: mode(commands, "member3") == ("Pull", "True"))


def test_printed_command_of_join_starts_an_agent(commands: Commands) -> None:
    assert commands.karmadactl("unjoin", "member3").returncode == 0
    file = str(commands.directory / "member3.kubeconfig")
    joined = commands.karmadactl("join", "edge", "--mode", "pull", "--cluster-kubeconfig", file)
    assert joined.returncode == 0, joined.stderr
    seed = Path(settings_in(joined.stdout)["FLEETLOG_NATS_NKEY_FILE"])
    assert stat.S_IMODE(seed.stat().st_mode) == 0o600
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FLEETLOG_")}
    with (commands.directory / "edge.log").open("wb") as told:
        agent = subprocess.Popen(
            [sys.executable, "-m", "services.agent"],
            env={**kept, **settings_in(joined.stdout)},
            stdout=told,
            stderr=told,
        )
    try:
        eventually(lambda: mode(commands, "edge") == ("Pull", "True"))
        wrong = commands.karmadactl("unregister", "member1")
        assert wrong.returncode == 1
        assert "unjoin member1" in wrong.stderr
        gone = commands.karmadactl("unregister", "edge")
        assert (gone.returncode, gone.stdout) == (0, "cluster(edge) is unjoined successfully\n"), gone.stderr
        assert not seed.exists()
        installation = Layout(commands.directory).load()
        assert installation is not None
        assert "edge" not in installation.agents
    finally:
        agent.terminate()
        agent.wait(PATIENCE)
        rejoin(commands)


def test_foreign_log_server_is_not_changed(commands: Commands, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "elsewhere.kubeconfig"
    shutil.copy(commands.kubeconfig, kubeconfig)
    config = commands.directory / "data" / "nats" / "nats.conf"
    before = config.read_text()
    place = tmp_path / "agent"
    there = ("--kubeconfig", str(kubeconfig))
    joined = commands.karmadactl("join", "far", "--mode", "pull", "--agent-dir", str(place), *there)
    assert joined.returncode == 0, joined.stderr
    assert "AGENT-far" in joined.stdout
    assert "hello.far" in joined.stdout
    assert settings_in(joined.stdout)["FLEETLOG_NATS_NKEY_FILE"] == str(place / "nkey.seed")
    assert stat.S_IMODE((place / "nkey.seed").stat().st_mode) == 0o600
    assert config.read_text() == before
    assert mode(commands, "far") == ("Pull", "")
    gone = commands.karmadactl("unjoin", "far", *there)
    assert gone.returncode == 0, gone.stderr
    assert "Remove the account of far's agent" in gone.stdout


def test_invalid_options_are_refused_before_any_write(commands: Commands) -> None:
    assert commands.karmadactl("join", "far", "--mode", "sideways").returncode == 1
    assert commands.karmadactl("join", "far").returncode == 1
    unknown = commands.karmadactl("join", "far", "--mode", "pull", "--report-secrets", "All")
    assert unknown.returncode == 1
    assert "KubeImpersonator or None" in unknown.stderr
    dry = commands.karmadactl("join", "far", "--mode", "pull", "--dry-run")
    assert (dry.returncode, dry.stdout) == (0, "cluster(far) would be joined (dry run)\n")
    assert commands.karmadactl("get", "clusters", "far").returncode == 1
