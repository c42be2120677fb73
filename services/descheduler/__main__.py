"""Starts the descheduler: `python -m services.descheduler`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from services._kit.runtime.service_wiring import run
from services.descheduler.app import Descheduler
from services.descheduler.settings import DeschedulerSettings


def main(arguments: Sequence[str] = ()) -> int:
    """Run until asked to stop; the exit code of the process. `arguments` are flags (`--help` lists them)."""
    return run(Descheduler, DeschedulerSettings, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
