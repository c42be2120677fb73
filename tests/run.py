"""Runs the test suite: fast tests in parallel first, then those that start whole installations, one after the other."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

_WHOLE_INSTALLATIONS: Final = "e2e or faults"
_NO_TESTS: Final = 5


def main(arguments: list[str]) -> int:
    """Run pytest twice, or once with the given arguments; the exit code."""
    pytest = [sys.executable, "-m", "pytest"]
    if arguments:
        return subprocess.call([*pytest, *arguments])
    codes = [
        subprocess.call([*pytest, "-n", "2", "--dist", "loadfile", "-m", f"not ({_WHOLE_INSTALLATIONS})"]),
        subprocess.call([*pytest, "-m", _WHOLE_INSTALLATIONS]),
    ]
    return next((code for code in codes if code not in (0, _NO_TESTS)), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
