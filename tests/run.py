"""Runs the levels of tests, each in parts: what starts installations waits until the processor is free.

Without arguments these are the tests that belong to every change; `--rest` runs all others, `--all` both, `--gates`
those of `just lint`. Any other arguments go to pytest. Levels and marks: tests/levels.py.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from tests.levels import GATES, HEAVY, INSTALLATIONS, left_out
from tests.support.ending import ends_with_us

# Five on two cores: most tests wait for a process, a log or a member longer than they work.
_SPREAD: Final = ("-n", "5", "--dist", "loadgroup")
# Three: an installation works all the time, and its tests begin to miss their time limits where six live at once.
_INSTALLED: Final = ("-n", "3", "--dist", "loadgroup")
_NO_GATES: Final = tuple(f"--ignore={file}" for file in GATES)
_NO_CONTAINERS: Final = "--ignore=tests/containers"
_CONTAINERS: Final = ("-p", "no:randomly", "-s", "tests/containers")
_NO_TESTS: Final = 5


def test() -> list[tuple[str, ...]]:
    """The parts of `just test`: in process, one installation, one composition."""
    ignored = (*_NO_GATES, _NO_CONTAINERS, *(f"--ignore={folder}" for folder in INSTALLATIONS))
    return [
        (*_SPREAD, *ignored, "-m", f"not ({' or '.join(left_out())})"),
        ("-m", "main_path", "-p", "no:randomly", "tests/e2e"),
        (*_CONTAINERS, "-m", "main_path"),
    ]


def rest() -> list[tuple[str, ...]]:
    """What `just test` leaves out, and the main paths among their neighbours: some check what a whole module did."""
    heavy = " or ".join(HEAVY)
    rules = (*_NO_GATES, _NO_CONTAINERS, "-m")
    light = [(*_SPREAD, *rules, f"{mark} and not ({heavy})") for mark in left_out() if mark not in HEAVY]
    return [*light, (*_INSTALLED, *rules, heavy), _CONTAINERS]


def main(arguments: list[str]) -> int:
    """Run a level, or pytest with the given arguments; the exit code."""
    match arguments:
        case []:
            return _run(test())
        case ["--rest"]:
            return _run(rest())
        case ["--all"]:
            return _run([*test(), *rest()])
        case ["--gates"]:
            return _run([("-n", "2", *GATES)])
        case _:
            return _pytest(*arguments)


def _run(parts: Sequence[Sequence[str]]) -> int:
    codes = [_pytest(*part) for part in parts]
    # Above 1, which tests that failed leave, are codes of runs that did not come to their end.
    return max(code for code in [0, *codes] if code != _NO_TESTS)


def _pytest(*arguments: str) -> int:
    return ends_with_us(subprocess.Popen([sys.executable, "-m", "pytest", *arguments])).wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
