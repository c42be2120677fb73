"""What a run of tests has started ends with it, whatever ends the run."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
RUN = """
import signal, subprocess, sys
from tests.support.ending import ends_with_us

ends_with_us(subprocess.Popen(["true"])).wait()
started = [ends_with_us(subprocess.Popen(["sleep", "600"])) for _ in range(2)]
started[1].send_signal(signal.SIGSTOP)
print(*(process.pid for process in started), flush=True)
signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_processes_end_with_the_run_that_started_them(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", RUN], stdout=subprocess.PIPE, text=True, cwd=ROOT) as run:
        assert run.stdout is not None
        watched = [os.pidfd_open(int(pid)) for pid in run.stdout.readline().split()]
        try:
            assert len(watched) == 2
            assert select.select(watched, [], [], 0)[0] == []
            run.send_signal(number)
            run.wait(PATIENCE)
            for each in watched:
                assert select.select([each], [], [], PATIENCE)[0], "it still runs"
        finally:
            for each in watched:
                os.close(each)
