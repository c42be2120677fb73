"""What commands show on a terminal only: colours, and a line that says what is waited for."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WAITING = """
import asyncio
from services.cli.common import running
running.SILENT_SECONDS = 0.0
async def wait():
    told = asyncio.Event()
    def heard(speak):
        return lambda text: (speak(text), told.set())
    running.say, running.complain = heard(running.say), heard(running.complain)
    async with running.patience("asking the clusters"):
        await told.wait()
asyncio.run(wait())
running.complain("error: it is gone")
"""


def on_terminal(code: str, *arguments: str, **variables: str) -> str:
    """What a program writes to a terminal."""
    master, slave = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=ROOT,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100", **variables},
        )
        os.close(slave)
        found = b""
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:
                break
            if not data:
                break
            found += data
        process.wait(60)
        return found.decode()
    finally:
        os.close(master)


def test_waiting_is_one_line_that_goes() -> None:
    shown = on_terminal(WAITING)
    assert "\r\x1b[Kasking the clusters … 0 s" in shown
    assert shown.rstrip().endswith("\x1b[0m it is gone")
    assert "\x1b[31m" in shown


def test_elsewhere_waiting_is_told_in_lines_without_colours() -> None:
    shown = subprocess.run([sys.executable, "-c", WAITING], capture_output=True, text=True, cwd=ROOT, check=True)
    assert shown.stderr.startswith("asking the clusters … (0 s)\n")
    assert shown.stderr.endswith("error: it is gone\n")
    assert "\x1b" not in shown.stderr


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_headings_stand_out_unless_that_is_not_wanted(variables: dict[str, str], coloured: bool) -> None:
    shown = on_terminal("from services.cli.karmadactl import main; main()", "-h", **variables)
    assert "Basic Commands:" in shown
    assert ("\x1b[1m" in shown) == coloured
