"""Runs the test suite in several processes: fast tests first, then those that start whole installations."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

_SEVERAL: Final = ("-n", "5")
"""Five on two cores: most files wait for a process, a log or a member longer than they work."""


def main(arguments: list[str]) -> int:
    """Run everything, or what the arguments say; the exit code."""
    return _pytest(*(arguments or _SEVERAL))


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
