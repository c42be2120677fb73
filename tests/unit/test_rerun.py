"""What failed runs once more: a test that passes then is flaky, and one that fails again, or too many, fail the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITE = """
import os, pathlib, pytest

def test_passes_later():
    first = pathlib.Path("later")
    seen = first.exists()
    first.touch()
    assert seen

def test_never_passes():
    assert "CALM" in os.environ

@pytest.fixture
def ends_badly():
    yield
    assert "CALM" in os.environ

def test_closes_badly(ends_badly):
    pass

def test_skipped_later():
    gone = pathlib.Path("gone")
    if gone.exists():
        pytest.skip("what it needs is gone")
    gone.touch()
    assert False

@pytest.mark.parametrize("number", range(6))
def test_many(number):
    assert "CALM" in os.environ
"""


def run(folder: Path, *command: str) -> tuple[int, str]:
    environment = {"PATH": "/usr/bin", "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


def failed_and_again(folder: Path, names: str) -> tuple[int, list[str]]:
    (folder / "test_suite.py").write_text(SUITE)
    (folder / "pytest.ini").write_text("[pytest]\n")
    assert run(folder, "pytest", "-p", "no:randomly", "-k", names)[0] == 1
    code, output = run(folder, "tests.rerun")
    return code, [line for line in output.splitlines() if line.startswith(("FLAKY ", "FAILED TWICE "))]


def test_what_passes_alone_is_flaky(tmp_path: Path) -> None:
    assert failed_and_again(tmp_path, "passes_later") == (0, ["FLAKY test_suite.py::test_passes_later"])


def test_what_fails_again_fails_the_run(tmp_path: Path) -> None:
    code, lines = failed_and_again(tmp_path, "passes_later or never_passes or closes_badly")
    assert code == 1
    assert lines == [
        "FLAKY test_suite.py::test_passes_later",
        "FAILED TWICE test_suite.py::test_closes_badly",
        "FAILED TWICE test_suite.py::test_never_passes",
    ]


def test_skipped_test_did_not_pass(tmp_path: Path) -> None:
    code, lines = failed_and_again(tmp_path, "skipped_later")
    assert (code, lines) == (1, ["FAILED TWICE test_suite.py::test_skipped_later"])


def test_more_than_five_are_not_run_again(tmp_path: Path) -> None:
    assert failed_and_again(tmp_path, "many") == (1, [])


def test_failure_of_no_known_test_fails_the_run(tmp_path: Path) -> None:
    code, output = run(tmp_path, "tests.rerun")
    assert code == 1
    assert "none of them is known" in output
