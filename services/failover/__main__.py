"""Starts the failover service: `python -m services.failover`."""

from __future__ import annotations

import sys

from services._kit.main import run
from services.failover.app import Failover
from services.failover.settings import FailoverSettings


def main() -> int:
    """Run until asked to stop; the exit code of the process."""
    return run(Failover, FailoverSettings)


if __name__ == "__main__":
    sys.exit(main())
