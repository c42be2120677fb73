"""A run of tests or benches that is ended leaves no process of its installation."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from services.cli.common.layout import Layout
from services.cli.supervision.process_identity import Entry, runs
from tests.e2e.fleet import until_equal

ROOT = Path(__file__).parents[2]
RUN = """
import signal, sys
from pathlib import Path
from tests.e2e.fleet import Fleet

fleet = Fleet(Path(sys.argv[1]), ["--members", "1"]).start()
print("started", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_installation_ends_with_the_run_that_started_it(tmp_path: Path, number: signal.Signals) -> None:
    layout = Layout(tmp_path)
    with subprocess.Popen([sys.executable, "-c", RUN, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"started\n"
        entries = msgspec.json.decode(layout.roll.read_bytes(), type=list[Entry])
        assert {"nats", "control"} < {entry.name for entry in entries if runs(entry.running)}
        run.send_signal(number)
    until_equal("those that still run", lambda: [entry.name for entry in entries if runs(entry.running)], [])
