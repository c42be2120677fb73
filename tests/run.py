"""Runs the test suite, several files at a time: fast tests first, then those that start whole installations.

The second part is by itself because fast tests leave it nothing of the processor; so is the third, which starts
containers, and is skipped at once where no container engine answers.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.commands import ADDRESS, Nursery

WHOLE_INSTALLATIONS: Final = ("e2e", "faults")
"""Marks of the second part."""
CONTAINERS: Final = "containers"
"""Mark of the third part, and its folder below tests."""
PLACES: Final = (
    "tests/e2e",
    "tests/faults",
    "tests/integration/apiserver/test_store_faults.py",
    "tests/integration/cli",
    "tests/integration/stock",
)
"""Where tests with these marks may be: nothing else is collected for the second part."""
WHOLLY_LATER: Final = ("tests/e2e", "tests/integration/stock", f"tests/{CONTAINERS}")
"""Folders in which every test has one of the marks: the first part does not collect them."""
_SECOND: Final = " or ".join(WHOLE_INSTALLATIONS)
_SEVERAL_FILES: Final = ("-n", "5", "--dist", "loadfile")
"""Five on two cores: most files wait for a process, a log or a member longer than they work."""
# tests/conftest.py puts what lasts longest first; the number of tests would say something else.
_AS_COLLECTED: Final = "--no-loadscope-reorder"
_NO_TESTS: Final = 5
_ROOT: Final = Path(__file__).parents[1]


def main(arguments: list[str]) -> int:
    """Run pytest three times, or once with the given arguments; the exit code."""
    compiled = _keep_compiled()
    if arguments:
        return _pytest(*arguments)
    if not compiled.exists():
        _compile()
    # One for all processes of tests; each would start one of its own.
    nursery = Nursery()
    os.environ[ADDRESS] = nursery.address
    try:
        return _all()
    finally:
        nursery.close()


def _keep_compiled() -> Path:
    """Where everything that is started keeps its compiled modules: unless told otherwise, beside the cache of pytest.

    A run starts a hundred interpreters; where the environment forbids to keep what they compile, that is half of their
    work.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    return Path(os.environ.setdefault("PYTHONPYCACHEPREFIX", str(_ROOT / ".pytest_cache" / "compiled")))


def _compile() -> None:
    """Compile all tests and what they import, half of them in each of two processes; what is wrong the parts tell.

    Processes that all begin with nothing compile the same modules at the same time, each for itself.
    """
    halves = (["tests/unit"], ["tests", "--ignore=tests/unit"])
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider"]
    silence = subprocess.DEVNULL
    for process in [subprocess.Popen([*collect, *half], cwd=_ROOT, stdout=silence, stderr=silence) for half in halves]:
        process.wait()


def _all() -> int:
    codes = [
        _pytest(*_SEVERAL_FILES, _AS_COLLECTED, "-m", f"not ({_SECOND} or {CONTAINERS})", *_without(WHOLLY_LATER)),
        _pytest(*_SEVERAL_FILES, _AS_COLLECTED, "-m", _SECOND, *PLACES),
        _pytest("-p", "no:randomly", "-s", "-m", CONTAINERS, f"tests/{CONTAINERS}"),
    ]
    return next((code for code in codes if code not in (0, _NO_TESTS)), 0)


def _without(folders: tuple[str, ...]) -> list[str]:
    return [f"--ignore={folder}" for folder in folders]


def _pytest(*arguments: str) -> int:
    return subprocess.call([sys.executable, "-m", "pytest", *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
