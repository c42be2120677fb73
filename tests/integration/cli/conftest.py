"""One installation for all tests of the commands, with the example of the demonstration running on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from services.cli.installation.demo import EXAMPLES, FILES
from tests.e2e.fleet import until
from tests.support.commands import PATIENCE, run_command
from tests.support.ending import ends_with_us
from tests.support.folders import below
from tests.support.waiting import place_of


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test starts the installation, and each runs many commands: on a slow machine that takes its time."""
    for item in below(Path(__file__).parent, items):
        item.add_marker(pytest.mark.timeout(300))


class Commands:
    """Runs the commands against the installation, without anything of the caller's environment."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.kubeconfig = directory / "control.kubeconfig"

    def karmadactl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `karmadactl`."""
        return run_command("karmadactl", *arguments, KUBECONFIG=str(self.kubeconfig))

    def fleetlog(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `fleetlog`."""
        return run_command("fleetlog", *arguments, FLEETLOG_DIR=str(self.directory))

    def kubectl(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run `kubectl` on the control plane."""
        line = ["kubectl", f"--kubeconfig={self.kubeconfig}", *arguments]
        return subprocess.run(line, input=stdin, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def rows(self, *arguments: str) -> list[list[str]]:
        """Cells of a table that `karmadactl` prints, header first."""
        return [line.split() for line in self.karmadactl(*arguments).stdout.splitlines() if line]


def eventually(look: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Look again and again until the answer is true; fails with the last answer."""
    until(place_of(look), look, seconds)


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """A running installation with three members; nginx runs on two of them."""
    directory = tmp_path_factory.mktemp("fleet")
    program = "from services.cli.fleetlog import main; main()"
    with (directory / "up.err").open("wb") as told:
        process = subprocess.Popen(
            [sys.executable, "-c", program, "up", "--dir", str(directory)],
            stdout=subprocess.PIPE,
            stderr=told,
            # On a busy machine without compiled modules a measurement takes longer than its usual bound.
            # Tests of registrations answer them themselves, or see to it that nobody does.
            env={**os.environ, "FLEETLOG_APISERVER_GUARD_SECONDS": "50", "FLEETLOG_UP_ANSWERS_AGENTS": "false"},
        )
    ends_with_us(process)
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        assert said == b"ready\n", (directory / "up.err").read_text()
        commands = Commands(directory)
        files = [part for name in FILES for part in ("-f", str(EXAMPLES / name))]
        commands.kubectl("apply", *files).check_returncode()
        ready = ["nginx", "Karmada", "2/2"]
        eventually(lambda: any(row[:3] == ready for row in commands.rows("get", "deploy", "nginx")))
        yield commands
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.stdout.close()
