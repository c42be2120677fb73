"""Starts the scheduler: `python -m services.scheduler`."""

from __future__ import annotations

import sys

from services._kit.main import run
from services.scheduler.app import Scheduler
from services.scheduler.settings import SchedulerSettings


def main() -> int:
    """Run until asked to stop; the exit code of the process."""
    return run(Scheduler, SchedulerSettings)


if __name__ == "__main__":
    sys.exit(main())
