"""Runs the test suite, several files at a time: fast tests first, then those that start whole installations.

The second part is by itself because fast tests leave it nothing of the processor; so is the third, which starts
containers, and is skipped at once where no container engine answers. Tests marked `long` are in none of the parts:
`--long` runs them, and only them, `--gates` those that belong to `just lint`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

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
LONG: Final = "long"
"""Mark of tests that the three parts leave out."""
GATES: Final = (
    *(f"tests/unit/test_{name}.py" for name in ("documents", "layout")),
    "tests/unit/pipeline/test_decisions_are_pure.py",
)
"""Tests that read the source, and what holds for every decision: `just lint` runs them, and the parts do not."""
_SECOND: Final = " or ".join(WHOLE_INSTALLATIONS)
_SEVERAL_FILES: Final = ("-n", "5", "--dist", "loadfile")
"""Five on two cores: most files wait for a process, a log or a member longer than they work."""
# tests/conftest.py puts what lasts longest first; the number of tests would say something else.
_AS_COLLECTED: Final = "--no-loadscope-reorder"
_NO_TESTS: Final = 5
_CONTAINERS_ALONE: Final = ("-p", "no:randomly", "-s", f"tests/{CONTAINERS}")
_PARTS: Final = (
    (
        *(*_SEVERAL_FILES, _AS_COLLECTED, "-m", f"not ({_SECOND} or {CONTAINERS} or {LONG})"),
        *(f"--ignore={folder}" for folder in (*WHOLLY_LATER, *GATES)),
    ),
    (*_SEVERAL_FILES, _AS_COLLECTED, "-m", f"({_SECOND}) and not {LONG}", *PLACES),
    (*_CONTAINERS_ALONE, "-m", f"{CONTAINERS} and not {LONG}"),
)
_LONG_PARTS: Final = (
    (*_SEVERAL_FILES, _AS_COLLECTED, "-m", f"{LONG} and not {CONTAINERS}", f"--ignore=tests/{CONTAINERS}"),
    (*_CONTAINERS_ALONE, "-m", f"{CONTAINERS} and {LONG}"),
)
_OPTIONS: Final = {"--long": _LONG_PARTS, "--gates": (("-n", "2", *GATES),)}
_ROOT: Final = Path(__file__).parents[1]


def main(arguments: list[str]) -> int:
    """Run the parts, those of an option, or pytest once with the given arguments; the exit code."""
    compiled = _keep_compiled()
    chosen = _OPTIONS.get(arguments[0]) if len(arguments) == 1 else None
    if arguments and chosen is None:
        return _pytest(*arguments)
    if not compiled.exists():
        _compile()
    return _parts(chosen or _PARTS)


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


def _parts(parts: Sequence[Sequence[str]]) -> int:
    codes = [_pytest(*part) for part in parts]
    return next((code for code in codes if code not in (0, _NO_TESTS)), 0)


def _pytest(*arguments: str) -> int:
    return subprocess.call([sys.executable, "-m", "pytest", *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
