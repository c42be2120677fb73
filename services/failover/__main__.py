"""Starts the failover service: `python -m services.failover`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from services._kit.runtime.service_wiring import run
from services.failover.app import Failover
from services.failover.settings import FailoverSettings


def main(arguments: Sequence[str] = ()) -> int:
    """Run until asked to stop; the exit code of the process. `arguments` are flags (`--help` lists them)."""
    return run(Failover, FailoverSettings, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
