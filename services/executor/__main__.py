"""Starts the executor: `python -m services.executor`."""

from __future__ import annotations

import sys

from services._kit.main import run
from services.executor.app import Executor
from services.executor.settings import ExecutorSettings


def main() -> int:
    """Run until asked to stop; the exit code of the process."""
    return run(Executor, ExecutorSettings)


if __name__ == "__main__":
    sys.exit(main())
