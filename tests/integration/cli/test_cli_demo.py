"""The demonstration: an installation of its own that tells its story, stops, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

PROGRAM = "from services.cli.fleetlog import main; main()"


def start(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    """The demonstration, with its temporary directories below the given one."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "demo", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(directory)},
    )


def test_the_demonstration_tells_where_and_why(tmp_path: Path) -> None:
    with start(tmp_path) as process:
        shown, told = process.communicate(timeout=240)
    assert process.returncode == 0, told
    assert re.search(r"^member1   1/1     nginx-\S+$", shown, re.MULTILINE)
    assert re.search(r"^member2   1/1     nginx-\S+$", shown, re.MULTILINE)
    assert "2 replicas, 2 updated, 2 ready, 2 available" in shown
    story = [line for line in shown.splitlines() if line.startswith("+")]
    placed = next(line for line in story if "PlacementDecided" in line)
    assert re.search(
        r"^\+\d+ ms +placement\.\d+\.\S+ +#\d+ +PlacementDecided +.*because #\d+ BindingRequested$", placed
    )
    assert {"TemplateChanged", "BindingRequested", "WorkRendered", "WorkObserved", "StatusRolledUp"} <= {
        word for line in story for word in line.split()
    }
    assert list(tmp_path.glob("fleetlog-demo-*")) == []


def test_asked_to_stop_it_stops_everything(tmp_path: Path) -> None:
    directory = tmp_path / "kept"
    with start(tmp_path, "--dir", str(directory)) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "services" in line:
                break
        pids = [int(path.read_text()) for path in (directory / "run").glob("*.pid")]
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=120)
    assert process.returncode == 143
    assert "Traceback" not in told
    assert pids
    assert [pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists()] == []
    assert (directory / "installation.json").exists()
