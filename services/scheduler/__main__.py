"""Starts the scheduler: `python -m services.scheduler`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from services._kit.runtime.service_wiring import run
from services.scheduler.app import Scheduler
from services.scheduler.settings import SchedulerSettings


def main(arguments: Sequence[str] = ()) -> int:
    """Run until asked to stop; the exit code of the process. `arguments` are flags (`--help` lists them)."""
    return run(Scheduler, SchedulerSettings, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
