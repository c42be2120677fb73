"""README.md and pages behind it, typed into a shell as they stand: every command ends with 0."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.fleet import EXAMPLES, PATIENCE, START_SECONDS
from tests.e2e.typed_pages import commands_of, type_in

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[2]
NOT_TYPED = ("python3 -m venv ", "pip install ", "just demo", "just test")
"""What installs something, and what other tests run."""
START = "just up"
SECONDS = 400.0
# Times before the installation was there, servers that nothing runs here, what is of an installation in Kubernetes, and
# a withdrawal that is not held.
NOT_HERE = {
    "docs/explain.md": ("--at 10m",),
    "docs/history.md": ("--at 10m", "--at 2026", "log import "),
    "docs/secrets.md": ("kubectl -n fleetlog-system ",),
    "docs/held-withdrawals.md": ("confirm-absence templates",),
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An empty directory but for the examples, at the place where the repository has them."""
    examples = tmp_path / "services" / "cli" / "examples"
    shutil.copytree(EXAMPLES, examples)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    return tmp_path


@pytest.fixture
def environment(place: Path) -> dict[str, str]:
    """That of a new user, whose editor changes nothing."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("FLEETLOG_", "KUBE"))}
    home = place / "home"
    home.mkdir()
    return {**kept, "HOME": str(home), "EDITOR": "true", "VIRTUAL_ENV": ""}


@pytest.fixture
def running(place: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """`fleetlog up` in the other terminal."""
    said = (place / "up.err").open("w")
    with (
        said,
        subprocess.Popen(
            [str(place / ".venv" / "bin" / "fleetlog"), "up"],
            cwd=place,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], START_SECONDS)[0], (place / "up.err").read_text()
            assert process.stdout.readline() == "ready\n", (place / "up.err").read_text()
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(PATIENCE)


def readme() -> list[str]:
    """The commands of README.md that are typed."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    return [line for line in commands_of(page) if not line.startswith(NOT_TYPED)]


def test_readme_goes_as_written(place: Path, environment: dict[str, str], running: subprocess.Popen[str]) -> None:
    commands = readme()
    assert commands[0].startswith(START)
    assert commands[-1].startswith("fleetlog stop")
    shown = type_in(commands[1:], place, environment, SECONDS)
    assert "PlacementDecided" in shown
    assert "guestbook-sample" in shown
    assert running.wait(PATIENCE) == 0


def test_pages_about_the_log_go_as_written(
    place: Path, environment: dict[str, str], running: subprocess.Popen[str]
) -> None:
    del running
    shutil.copy(EXAMPLES / "nginx-propagation.yaml", place)
    commands = readme()
    until = next(number for number, line in enumerate(commands) if line.startswith("kubectl scale"))
    typed = commands[1:until]
    for page, not_here in NOT_HERE.items():
        lines = commands_of((ROOT / page).read_text(encoding="utf-8"))
        typed += [line for line in lines if not any(part in line for part in not_here)]
    shown = type_in(typed, place, environment, SECONDS)
    assert "no problem" in shown
