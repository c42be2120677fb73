"""Runs the test suite, two files at a time: fast tests first, then those that start whole installations.

Those wait more than they work, but not beside fast ones, which leave nothing of the processor.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Final

_WHOLE_INSTALLATIONS: Final = "e2e or faults"
_TWO_FILES: Final = ("-n", "2", "--dist", "loadfile")
# tests/faults puts what lasts longest first; the number of tests would say something else.
_AS_COLLECTED: Final = "--no-loadscope-reorder"
_NO_TESTS: Final = 5


def main(arguments: list[str]) -> int:
    """Run pytest twice, or once with the given arguments; the exit code."""
    pytest = [sys.executable, "-m", "pytest"]
    if arguments:
        return subprocess.call([*pytest, *arguments])
    codes = [
        subprocess.call([*pytest, *_TWO_FILES, "-m", f"not ({_WHOLE_INSTALLATIONS})"]),
        subprocess.call([*pytest, *_TWO_FILES, _AS_COLLECTED, "-m", _WHOLE_INSTALLATIONS]),
    ]
    return next((code for code in codes if code not in (0, _NO_TESTS)), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
