"""Runs the test suite, several files at a time: fast tests first, then those that start whole installations.

The second part is by itself because fast tests leave it nothing of the processor.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

WHOLE_INSTALLATIONS: Final = ("e2e", "faults")
"""Marks of the second part."""
PLACES: Final = ("tests/e2e", "tests/faults", "tests/integration")
"""Where tests with these marks may be: nothing else is collected for the second part."""
_SECOND: Final = " or ".join(WHOLE_INSTALLATIONS)
_SEVERAL_FILES: Final = ("-n", "5", "--dist", "loadfile")
"""Five on two cores: most files wait for a process, a log or a member longer than they work."""
# tests/conftest.py puts what lasts longest first; the number of tests would say something else.
_AS_COLLECTED: Final = "--no-loadscope-reorder"
_NO_TESTS: Final = 5


def main(arguments: list[str]) -> int:
    """Run pytest twice, or once with the given arguments; the exit code."""
    if arguments:
        return _pytest(*arguments)
    codes = [
        _pytest(*_SEVERAL_FILES, _AS_COLLECTED, "-m", f"not ({_SECOND})"),
        _pytest(*_SEVERAL_FILES, _AS_COLLECTED, "-m", _SECOND, *PLACES),
    ]
    return next((code for code in codes if code not in (0, _NO_TESTS)), 0)


def _pytest(*arguments: str) -> int:
    """Run pytest with its compiled modules, and those of everything that it starts, kept beside its cache.

    A run starts a hundred interpreters; where the environment forbids to keep what they compile, that is half of their
    work.
    """
    root = Path(__file__).parents[1]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    kept.setdefault("PYTHONPYCACHEPREFIX", str(root / ".pytest_cache" / "compiled"))
    return subprocess.call([sys.executable, "-m", "pytest", *arguments], env=kept)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
