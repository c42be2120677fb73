"""README.md and pages behind it, typed into a shell as they stand: every command ends with 0."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.e2e.fleet import EXAMPLES, START_SECONDS
from tests.e2e.typed_pages import commands_of, type_in
from tests.support.ending import ends_with_us
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[2]
NOT_TYPED = ("python3 -m venv ", "pip install ", "just demo", "just test")
"""What installs something, and what other tests run."""
START = "just up"
SECONDS = 400.0
# Times before the installation was there, collectors and servers that nothing runs here, what is of an installation in
# Kubernetes, a withdrawal that is not held, and the start of an installation in another terminal.
LOG_PAGES = {
    "docs/explain.md": ("--at 10m",),
    "docs/history.md": ("--at 10m", "--at 2026", "log import "),
    "docs/tracing.md": ("--otlp", "--follow", "pip install"),
    "docs/secrets.md": ("kubectl -n fleetlog-system ",),
    "docs/held-withdrawals.md": ("confirm-absence templates",),
}
FORESIGHT: dict[str, tuple[str, ...]] = {"docs/foresight.md": (), "docs/autoscaling.md": ()}
SOON = {
    "FLEETLOG_HORIZONTAL_POD_AUTOSCALER_SYNC_PERIOD": "2",
    "FLEETLOG_HORIZONTAL_POD_AUTOSCALER_DOWNSCALE_STABILIZATION": "5",
    "FLEETLOG_HORIZONTAL_POD_AUTOSCALER_CPU_INITIALIZATION_PERIOD": "1",
}
"""As docs/autoscaling.md says, before its `fleetlog up`."""
OTHER_PAGES: dict[str, tuple[str, ...]] = {
    "docs/failover.md": ("export FLEETLOG_", "fleetlog up"),
    "docs/interpreters.md": (),
    "docs/backup.md": ("--nats nats://", "fleetlog up", "restore control-plane"),
}
GATES = {"FLEETLOG_FEATURE_GATES": "Failover=true", "FLEETLOG_ENABLE_NO_EXECUTE_TAINT_EVICTION": "true"}
"""As docs/failover.md has them before its `fleetlog up`."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An empty directory but for the examples, at the place where the repository has them."""
    examples = tmp_path / "services" / "cli" / "examples"
    shutil.copytree(EXAMPLES, examples)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    return tmp_path


@pytest.fixture
def environment(place: Path, request: pytest.FixtureRequest) -> dict[str, str]:
    """That of a new user, whose editor changes nothing; with what the test adds."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("FLEETLOG_", "KUBE"))}
    home = place / "home"
    home.mkdir()
    return {**kept, "HOME": str(home), "EDITOR": "true", "VIRTUAL_ENV": "", **getattr(request, "param", {})}


@pytest.fixture
def running(place: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """`fleetlog up` in the other terminal."""
    said = (place / "up.err").open("w")
    with (
        said,
        subprocess.Popen(
            [str(place / ".venv" / "bin" / "fleetlog"), "up"],
            cwd=place,
            # On a busy machine a measurement of a guard takes longer than its usual bound.
            env={**environment, "FLEETLOG_APISERVER_GUARD_SECONDS": "50"},
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        ends_with_us(process)
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


def typed(pages: Mapping[str, Sequence[str]]) -> list[str]:
    """The commands of README.md until nginx runs, then those of pages but for lines with these parts."""
    commands = readme()
    until = next(number for number, line in enumerate(commands) if line.startswith("kubectl scale"))
    lines = commands[1:until]
    for page, not_here in pages.items():
        shown = commands_of((ROOT / page).read_text(encoding="utf-8"))
        lines += [line for line in shown if not any(part in line for part in not_here)]
    return lines


def test_pages_about_the_log_go_as_written(
    place: Path, environment: dict[str, str], running: subprocess.Popen[str]
) -> None:
    del running
    shutil.copy(EXAMPLES / "nginx-propagation.yaml", place)
    assert "no problem" in type_in(typed(LOG_PAGES), place, environment, SECONDS)


@pytest.mark.long
@pytest.mark.parametrize("environment", [SOON], indirect=True, ids=["soon"])
def test_pages_of_foresight_and_autoscaling_go_as_written(
    place: Path, environment: dict[str, str], running: subprocess.Popen[str]
) -> None:
    del running
    shown = type_in(typed(FORESIGHT), place, environment, SECONDS)
    assert "metrics ask for" in shown
    assert shown.count("federatedhpa.autoscaling.karmada.io/web condition met") == 2
    assert "denied the request: the policy is guarded" in shown
    assert shown.count("Blast radius: 1 workload") >= 3


@pytest.mark.long
@pytest.mark.parametrize("environment", [GATES], indirect=True, ids=["failover"])
def test_other_pages_go_as_written(place: Path, environment: dict[str, str], running: subprocess.Popen[str]) -> None:
    shown = type_in(typed(OTHER_PAGES), place, environment, SECONDS)
    assert "EvictionRequested" in shown
    assert running.wait(PATIENCE) == 0
