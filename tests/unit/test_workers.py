"""Tests run in several processes: each once, by units and parts, and a process that dies is one failed test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNITS = {
    # Both processes have a unit at first: each waits for the other's.
    "test_first.py": """
        def test_fails(): meet("first", "second"); assert PID == 0, "as it should"
        def test_same_process(home): note("first", PID)
        def test_printed(capfd): print("said"); assert capfd.readouterr().out == "said\\n"
    """,
    "test_second.py": """
        def test_other_process(home): meet("second", "first"); note("second", PID)
        def test_place(tmp_path): assert (tmp_path / "..").resolve() != HERE
    """,
    "test_killed.py": """
        def test_before(): pass
        def test_kills(): os.kill(PID, 9)
        def test_after(): pass
    """,
    "test_whole.py": """
        @pytest.mark.e2e
        def test_last(): assert (HERE / "first").exists() and (HERE / "second").exists() and (HERE / "ended").exists()
        def test_of_the_first_part(): pass
    """,
    "test_left.py": """
        class Cycle:
            def __init__(self): self.me = self
            def __del__(self): raise ValueError("left behind")
        def test_leaves_something(): gc.disable(); Cycle()
    """,
}
BEGINNING = """
import gc, os, time
from pathlib import Path
import pytest
HERE, PID = Path(__file__).parent, os.getpid()
@pytest.fixture(autouse=True)
def own_process(): globals()["PID"] = os.getpid()
@pytest.fixture(scope="session")
def home(): yield; (HERE / "ended").touch()
def note(name, text): (HERE / name).write_text(str(text))
def meet(mine, other):
    note(f"{mine} is here", "")
    while not (HERE / f"{other} is here").exists(): time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a run of all of these says, in two processes."""
    directory = tmp_path_factory.mktemp("suite")
    (directory / "pytest.ini").write_text("[pytest]\nmarkers = e2e\nfilterwarnings = error\n")
    for name, body in UNITS.items():
        lines = [line.removeprefix(" " * 8) for line in body.strip("\n").splitlines()]
        (directory / name).write_text("\n".join([BEGINNING, *lines]))
    command = [sys.executable, "-m", "pytest", "-p", "tests.workers", "-p", "no:randomly", "-p", "no:asyncio"]
    done = subprocess.run(
        [*command, "-n", "2", "-rA", "--basetemp", str(directory / "base"), *UNITS],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert (directory / "first").read_text() != (directory / "second").read_text()
    return done.stdout


def test_every_test_runs_once(said: str) -> None:
    passed = re.findall(r"^PASSED (\S+)", said, re.MULTILINE)
    assert len(passed) == len(set(passed))
    assert {name.partition("::")[2] for name in passed} == {
        "test_same_process",
        "test_printed",
        "test_other_process",
        "test_place",
        "test_before",
        "test_after",
        "test_last",
        "test_of_the_first_part",
        "test_leaves_something",
    }


def test_failures_are_told_with_their_reasons(said: str) -> None:
    assert "FAILED test_first.py::test_fails - AssertionError: as it should" in said
    assert re.search(r"1 failed, 9 passed, \d errors? in ", said)


def test_a_killed_process_is_named_with_its_test(said: str) -> None:
    assert re.search(r"process \d ended in between \(status -9\)", said)
    assert "ERROR test_killed.py::test_kills" in said


def test_what_is_left_behind_at_the_end_fails(said: str) -> None:
    assert re.search(r"^ERROR the end of process \d", said, re.MULTILINE)
    assert "ValueError: left behind" in said
