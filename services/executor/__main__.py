"""Starts the executor: `python -m services.executor`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from services._kit.runtime.service_wiring import run
from services.executor.app import Executor
from services.executor.settings import ExecutorSettings


def main(arguments: Sequence[str] = ()) -> int:
    """Run until asked to stop; the exit code of the process. `arguments` are flags (`--help` lists them)."""
    return run(Executor, ExecutorSettings, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
